//! Measurement of recall, and tuning of `ef_search` to a target recall.

use super::HnswIndex;
use crate::cancel::all_or_nothing;
use crate::progress;
use crate::{Error, MeasuredRecall, NeighborIndex, Neighbors, RowStorage, SeededRng};

/// The number of training rows on which recall is measured.
const SAMPLE: usize = 500;
/// The largest `ef_search` that tuning tries.
const MAX_EF: usize = 10_000;

impl HnswIndex<'_> {
    /// Measures recall: the share of the true `k` nearest other rows that leave-one-out search returns, on a seeded sample
    /// of 500 training rows. As for a new query, the walk does not visit the row itself. A returned row counts when it is
    /// at most as far as the true k-th neighbor. The result is stored for [`describe`](NeighborIndex::describe).
    ///
    /// # Errors
    /// The errors of [`leave_one_out`](NeighborIndex::leave_one_out).
    pub fn recall(&mut self, k: usize) -> Result<MeasuredRecall, Error> {
        let truth = self.ground_truth(k)?;
        self.recall_against(&truth)
    }

    /// Sets `ef_search` to the smallest value, within 2 %, at which [`recall`](Self::recall) reaches `target`, and
    /// returns that recall. The recall is below `target` only if the largest `ef_search` is not enough. The largest
    /// value is 10,000, or the number of rows if that is smaller, but at least `k`.
    ///
    /// # Errors
    /// [`Error::BadRecall`] unless `target` is above 0 and at most 1, and the errors of [`recall`](Self::recall).
    pub fn tune(&mut self, target: f64, k: usize) -> Result<MeasuredRecall, Error> {
        if !(target > 0.0 && target <= 1.0) {
            return Err(Error::BadRecall { value: target });
        }
        let truth = self.ground_truth(k)?;
        let (ef, recall) = (self.params.ef_search, self.recall);
        all_or_nothing(
            self,
            |index| index.tune_against(&truth, target, k),
            |index| {
                index.params.ef_search = ef;
                index.recall = recall;
            },
        )
    }

    fn tune_against(&mut self, truth: &GroundTruth, target: f64, k: usize) -> Result<MeasuredRecall, Error> {
        let max_ef = self.len().min(MAX_EF).max(k);
        // Recall increases with ef: double ef until it is sufficient, then bisect.
        let (mut too_small, mut sufficient) = (k.saturating_sub(1), k);
        loop {
            self.set_ef_search(sufficient);
            if self.recall_against(truth)?.share >= target {
                break;
            }
            if sufficient >= max_ef {
                return self.recall_against(truth);
            }
            too_small = sufficient;
            sufficient = (2 * sufficient).min(max_ef);
        }
        while sufficient - too_small > 1 + sufficient / 64 {
            let middle = too_small.midpoint(sufficient);
            self.set_ef_search(middle);
            if self.recall_against(truth)?.share >= target {
                sufficient = middle;
            } else {
                too_small = middle;
            }
        }
        self.set_ef_search(sufficient);
        self.recall_against(truth)
    }

    fn ground_truth(&self, k: usize) -> Result<GroundTruth, Error> {
        let live = self.stored_rows().live_ids();
        let sample = SeededRng::new(self.params.seed).sample(live.len(), SAMPLE);
        let ids: Vec<u32> = sample.into_iter().map(|i| live[i as usize]).collect();
        progress::start("measuring the recall of the graph", 0);
        let nearest = self.data.exact.leave_one_out(&ids, k)?;
        Ok(GroundTruth { ids, nearest })
    }

    fn recall_against(&mut self, truth: &GroundTruth) -> Result<MeasuredRecall, Error> {
        let GroundTruth { ids, nearest } = truth;
        let neighbors = self.leave_one_out(ids, nearest.k())?;
        let count_hits = |i: usize| {
            let limit = nearest.sq_distances(i)[nearest.k() - 1];
            neighbors.sq_distances(i).iter().filter(|&&sq| sq <= limit).count()
        };
        let hits: usize = (0..ids.len()).map(count_hits).sum();
        let share = hits as f64 / (ids.len() * nearest.k()) as f64;
        let measured = MeasuredRecall { share, k: nearest.k(), points: ids.len() };
        self.recall = Some(measured);
        Ok(measured)
    }
}

/// Sampled training rows and their exact neighbors.
struct GroundTruth {
    ids: Vec<u32>,
    nearest: Neighbors,
}
