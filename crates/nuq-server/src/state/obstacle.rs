//! Finds why a change cannot be undone: it is undone already, or a later change of rows or of the same threshold prevents it.

use std::collections::{BTreeSet, HashMap};

use super::change::Kind;
use super::journal::Summary;

/// Why a change cannot be undone. Each variant contains the id of a later change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Obstacle {
    /// The later change is the reversal.
    Undone(u64),
    /// The later change is the first one that changes one of the same rows.
    SameRows(u64),
    /// The change to undo is a change of a threshold. The later change is the first one that changes any rows, and so removes all
    /// thresholds.
    Rows(u64),
    /// The later change is the first one that changes the same threshold.
    SameThreshold(u64),
}

impl Obstacle {
    /// The message of the refusal to undo change `id`.
    pub(super) fn message(self, id: u64) -> String {
        match self {
            Self::Undone(by) => format!("change {id} was undone by change {by}"),
            Self::SameRows(later) => {
                format!("change {later} is of the same rows as change {id}: undo change {later} first")
            }
            Self::Rows(later) => {
                format!("change {later} of rows removed the thresholds: undo that change first")
            }
            Self::SameThreshold(later) => {
                format!("change {later} is of the same threshold as change {id}: undo change {later} first")
            }
        }
    }
}

/// Sets the obstacle of each change, and whether it is the last one. `changes` must be the newest changes of a model, newest first.
pub(super) fn find_obstacles(changes: &mut [Summary]) {
    let mut later = LaterChanges::default();
    for change in changes {
        change.is_last = later.subjects.is_empty();
        change.obstacle = later.obstacle(change);
        later.add(change);
    }
}

/// What a change concerns.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Subject {
    /// The row with this id.
    Row(u32),
    /// Any rows.
    Rows,
    /// The threshold with this name.
    Threshold(String),
}

/// The changes after a change. A change and its reversal are both left out if they have the same ids of rows.
#[derive(Default)]
struct LaterChanges {
    /// What each of the changes concerns, and the id of the change.
    subjects: BTreeSet<(Subject, u64)>,
    /// By the id of a change that was reversed: the ids of the rows of its reversal, and the last change of the chain that begins with
    /// this reversal; see [`add`](Self::add).
    reversals: HashMap<u64, (Vec<u32>, u64)>,
}

impl LaterChanges {
    /// Adds the change that precedes all changes that were added before. The ids of its rows must be distinct, because an id that occurs
    /// twice would add its subject and remove it again.
    fn add(&mut self, change: &Summary) {
        // A change, its reversal, the reversal of this reversal and so on are a chain as long as their rows have the same ids. They concern
        // the same rows or the same threshold. If their number is even, all of them are left out; if it is odd, all but the last one.
        let last = match self.reversals.remove(&change.id) {
            Some((ids, last)) if ids == change.ids => last,
            _ => change.id,
        };
        let whole = match change.kind {
            Kind::Insert | Kind::Remove | Kind::Relabel => Subject::Rows,
            Kind::Threshold => Subject::Threshold(change.name.clone()),
        };
        for subject in change.ids.iter().map(|&id| Subject::Row(id)).chain([whole]) {
            let entry = (subject, last);
            if !self.subjects.remove(&entry) {
                self.subjects.insert(entry);
            }
        }
        if let Some(undone) = change.undoes {
            self.reversals.insert(undone, (change.ids.clone(), last));
        }
    }

    /// The id of the first change of a subject.
    fn first_of(&self, subject: Subject) -> Option<u64> {
        let end = (subject.clone(), u64::MAX);
        self.subjects.range((subject, 0)..=end).next().map(|(_, id)| *id)
    }

    /// Why the change that precedes these changes cannot be undone.
    fn obstacle(&self, change: &Summary) -> Option<Obstacle> {
        if let Some(by) = change.undone_by {
            return Some(Obstacle::Undone(by));
        }
        match change.kind {
            Kind::Insert | Kind::Relabel => {
                let later = change.ids.iter().filter_map(|&id| self.first_of(Subject::Row(id)));
                later.min().map(Obstacle::SameRows)
            }
            // The removed rows are inserted again, with other ids if other rows have their former ids.
            Kind::Remove => None,
            Kind::Threshold => self.first_of(Subject::Rows).map(Obstacle::Rows).or_else(|| {
                self.first_of(Subject::Threshold(change.name.clone())).map(Obstacle::SameThreshold)
            }),
        }
    }
}
