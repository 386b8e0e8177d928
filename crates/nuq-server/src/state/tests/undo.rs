//! The undo of changes, and the later changes that prevent it.

use std::collections::BTreeMap;

use nuq_neighbors::SeededRng;

use super::*;
use crate::state::obstacle::Obstacle;

#[test]
fn undo_restores_rows_and_rules() {
    let fixture = Fixture::new(&classifier());
    let served = fixture.load();
    let before = served.rules();
    let inserted = served.insert(100, 3);
    assert!(served.rules().thresholds.is_empty());
    let undone = served.undo(inserted.id).unwrap();
    assert_eq!((undone.change.kind, &undone.change.ids), (Kind::Remove, &inserted.change.ids));
    assert_eq!(served.rules(), before);
    let again = served.undo(inserted.id).unwrap_err();
    assert_eq!(again.status, StatusCode::CONFLICT);
    // An undo is itself a change, which can be undone.
    served.undo(undone.id).unwrap();
    assert!(served.rules().thresholds.is_empty());
    assert_eq!(served.model.read().unwrap().index().len(), 63);

    let removed = served.change(|model| Change::remove(model, &[5, 4])).unwrap();
    let restored = served.undo(removed.id).unwrap();
    assert_eq!(restored.change.ids, [4, 5]);
    let relabeled =
        served.change(|model| Change::relabel(model, &[4], Labels::Classes(vec![Label::from("z")])));
    let relabeled = relabeled.unwrap();
    assert_eq!(relabeled.change.former_labels, Labels::Classes(vec![Label::from("b")]));
    assert_eq!(served.undo(relabeled.id).unwrap().change.labels, Labels::Classes(vec![Label::from("b")]));
    let unknown = served.undo(999).unwrap_err();
    assert_eq!(unknown.status, StatusCode::NOT_FOUND);
    let expected = served.bytes();
    drop(served);
    assert_eq!(fixture.load().bytes(), expected);
}

#[test]
fn rows_that_changed_later_are_not_removed_by_an_undo() {
    let fixture = Fixture::new(&classifier());
    let served = fixture.load();
    let first = served.insert(100, 1);
    let removed = served.change(|model| Change::remove(model, &first.change.ids)).unwrap();
    // The same id names another row now.
    let second = served.insert(300, 1);
    assert_eq!(second.change.ids, first.change.ids);
    let error = served.undo(first.id).unwrap_err();
    assert_eq!(error.status, StatusCode::CONFLICT);
    assert!(error.message.contains(&format!("change {}", removed.id)), "{}", error.message);
    // After both later changes are undone, the first one can be undone.
    served.undo(second.id).unwrap();
    served.undo(removed.id).unwrap();
    served.undo(first.id).unwrap();
    assert_eq!(served.model.read().unwrap().index().len(), 60);
}

#[test]
fn an_undo_restores_only_its_threshold_and_fails_after_a_change_of_rows() {
    let fixture = Fixture::new(&classifier());
    let served = fixture.load();
    let (replaced, added) = (served.set("epistemic"), served.set("other"));
    served.undo(replaced).unwrap();
    assert_eq!(served.rules().held_out_scores("epistemic").unwrap().len(), 50);
    assert_eq!(served.rules().held_out_scores("other").unwrap().len(), 3);
    // A later change of the same threshold must be undone first.
    let (first, second) = (served.set("twice"), served.set("twice"));
    let error = served.undo(first).unwrap_err();
    assert_eq!(error.status, StatusCode::CONFLICT);
    assert!(error.message.contains("of the same threshold"), "{}", error.message);
    served.undo(second).unwrap();
    served.undo(first).unwrap();
    assert!(served.rules().held_out_scores("twice").is_none());
    served.insert(100, 1);
    let error = served.undo(added).unwrap_err();
    assert_eq!(error.status, StatusCode::CONFLICT);
}

#[test]
fn the_list_of_changes_names_the_obstacle_of_each_undo() {
    let fixture = Fixture::new(&classifier());
    let served = fixture.load();
    let obstacles = || {
        let changes = served.state.changes(100).unwrap();
        changes.iter().map(|change| (change.id, change.obstacle)).collect::<BTreeMap<_, _>>()
    };
    let (first, second, other) = (served.set("twice"), served.set("twice"), served.set("other"));
    let found = obstacles();
    assert_eq!(found[&first], Some(Obstacle::SameThreshold(second)));
    assert_eq!((found[&second], found[&other]), (None, None));

    let inserted = served.insert(100, 2).id;
    let relabeled = served.relabel(60);
    let found = obstacles();
    assert_eq!((found[&second], found[&relabeled]), (Some(Obstacle::Rows(inserted)), None));
    assert_eq!(found[&inserted], Some(Obstacle::SameRows(relabeled)));
    let undone = served.undo(relabeled).unwrap().id;
    let found = obstacles();
    assert_eq!((found[&inserted], found[&relabeled]), (None, Some(Obstacle::Undone(undone))));
    // The reversal of the reversal is again a change of the row.
    let again = served.undo(undone).unwrap().id;
    assert_eq!(obstacles()[&inserted], Some(Obstacle::SameRows(again)));

    let removed = served.change(|model| Change::remove(model, &[60])).unwrap().id;
    served.insert(200, 1);
    // The row gets another id, because 60 is the id of the inserted row. So the removal and its reversal have different ids, and the
    // removal is still an obstacle.
    assert_eq!(served.undo(removed).unwrap().change.ids, [62]);
    assert_eq!(obstacles()[&again], Some(Obstacle::SameRows(removed)));
    for (id, obstacle) in obstacles() {
        if let Some(obstacle) = obstacle {
            let error = served.undo(id).unwrap_err();
            assert_eq!((error.status, error.message), (StatusCode::CONFLICT, obstacle.message(id)));
        }
    }
}

/// The later changes of `changes[at]`, from the definition. They are read from the oldest to the newest.
fn direct_later_changes(changes: &[Summary], at: usize) -> Vec<&Summary> {
    let mut remaining: Vec<&Summary> = vec![];
    for later in changes[..at].iter().rev() {
        match remaining.iter().position(|other| Some(other.id) == later.undoes && other.ids == later.ids) {
            Some(undone) => {
                remaining.remove(undone);
            }
            None => remaining.push(later),
        }
    }
    remaining
}

/// The obstacle of the undo of a change with these later changes, from the definition.
fn direct_obstacle(change: &Summary, later: &[&Summary]) -> Option<Obstacle> {
    if let Some(by) = change.undone_by {
        return Some(Obstacle::Undone(by));
    }
    let first = |is: &dyn Fn(&Summary) -> bool| later.iter().find(|later| is(later)).map(|later| later.id);
    let is_threshold = |later: &Summary| later.kind == Kind::Threshold;
    match change.kind {
        Kind::Insert | Kind::Relabel => {
            first(&|later| later.ids.iter().any(|id| change.ids.contains(id))).map(Obstacle::SameRows)
        }
        Kind::Remove => None,
        Kind::Threshold => first(&|later| !is_threshold(later)).map(Obstacle::Rows).or_else(|| {
            first(&|later| is_threshold(later) && later.name == change.name).map(Obstacle::SameThreshold)
        }),
    }
}

#[test]
fn obstacles_of_random_changes_are_those_of_the_definition() {
    let fixture = Fixture::new(&classifier());
    let served = fixture.load();
    let mut rng = SeededRng::new(3);
    let mut undone = 0;
    for step in 0..120 {
        let changes = served.state.changes(usize::MAX).unwrap();
        assert_eq!(served.state.changes(7).unwrap(), changes[..changes.len().min(7)]);
        for (at, change) in changes.iter().enumerate() {
            let later = direct_later_changes(&changes, at);
            let expected = (direct_obstacle(change, &later), later.is_empty());
            assert_eq!((change.obstacle, change.is_last), expected, "step {step}, change {}", change.id);
        }
        // The same few rows are changed again and again.
        let id = served.model.read().unwrap().index().rows().live_ids()[rng.below(3)];
        match rng.below(7) {
            0 => {
                served.insert(100 + step, 1);
            }
            1 => {
                served.change(|model| Change::remove(model, &[id])).unwrap();
            }
            2 => {
                served.relabel(id);
            }
            3 => {
                served.set(["s", "t"][rng.below(2)]);
            }
            _ => {
                let possible = changes.iter().filter(|change| change.obstacle.is_none());
                let possible: Vec<u64> = possible.map(|change| change.id).collect();
                if !possible.is_empty() {
                    served.undo(possible[rng.below(possible.len())]).unwrap();
                    undone += 1;
                }
            }
        }
    }
    assert!(undone > 30, "{undone}");
}
