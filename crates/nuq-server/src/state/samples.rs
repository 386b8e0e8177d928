//! Bounded samples of scored rows: the most recent rows, and the most recent rejected rows.

use std::collections::VecDeque;
use std::sync::Arc;

use super::Observation;

/// Largest number of rows of each sample.
const ROWS: usize = 500;

/// Largest number of bytes of the embeddings of each sample. If rows have many columns, a sample has fewer rows.
const BYTES: usize = 8 << 20;

/// One of the two samples of a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SampleKind {
    Recent,
    Rejected,
}

impl SampleKind {
    pub(crate) const ALL: [SampleKind; 2] = [SampleKind::Recent, SampleKind::Rejected];

    pub(crate) fn name(self) -> &'static str {
        match self {
            SampleKind::Recent => "recent",
            SampleKind::Rejected => "rejected",
        }
    }
}

/// A sampled row. Ids ascend in the order of scoring.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Sample {
    pub(crate) id: u64,
    pub(crate) observation: Observation,
}

/// The two samples of a model.
#[derive(Debug, Default)]
pub(crate) struct Samples {
    recent: VecDeque<Arc<Sample>>,
    rejected: VecDeque<Arc<Sample>>,
    next_id: u64,
    is_changed: bool,
}

impl Samples {
    /// The samples with these stored rows, which are in ascending order of their ids.
    pub(super) fn restored(recent: Vec<Sample>, rejected: Vec<Sample>) -> Self {
        let last = recent.last().into_iter().chain(rejected.last()).map(|sample| sample.id).max();
        let shared = |samples: Vec<Sample>| samples.into_iter().map(Arc::new).collect();
        let next_id = last.map_or(0, |id| id + 1);
        Self { recent: shared(recent), rejected: shared(rejected), next_id, is_changed: false }
    }

    pub(super) fn add(&mut self, observation: Observation) {
        let sample = Arc::new(Sample { id: self.next_id, observation });
        self.next_id += 1;
        self.mark_changed();
        let row_bytes = 4 * sample.observation.embedding.len().max(1);
        let rows = ROWS.min((BYTES / row_bytes).max(1));
        if sample.observation.is_rejected() {
            push(&mut self.rejected, sample.clone(), rows);
        }
        push(&mut self.recent, sample, rows);
    }

    fn of(&self, which: SampleKind) -> &VecDeque<Arc<Sample>> {
        match which {
            SampleKind::Recent => &self.recent,
            SampleKind::Rejected => &self.rejected,
        }
    }

    /// Up to `limit` rows, newest first.
    pub(crate) fn newest(&self, which: SampleKind, limit: usize) -> Vec<Arc<Sample>> {
        self.of(which).iter().rev().take(limit).cloned().collect()
    }

    /// The row with this id, if a sample still contains it.
    pub(crate) fn get(&self, id: u64) -> Option<Arc<Sample>> {
        SampleKind::ALL.into_iter().find_map(|which| {
            let rows = self.of(which);
            let at = rows.partition_point(|sample| sample.id < id);
            rows.get(at).filter(|sample| sample.id == id).cloned()
        })
    }

    /// Marks the samples as different from the database.
    pub(super) fn mark_changed(&mut self) {
        self.is_changed = true;
    }

    /// Whether the samples were marked as changed since the last call.
    pub(super) fn take_changed(&mut self) -> bool {
        std::mem::take(&mut self.is_changed)
    }
}

fn push(rows: &mut VecDeque<Arc<Sample>>, sample: Arc<Sample>, limit: usize) {
    while rows.len() >= limit {
        rows.pop_front();
    }
    rows.push_back(sample);
}
