//! How many of the true neighbors a graph finds, and the beam that finds enough.

use super::HnswIndex;
use crate::{Error, MeasuredRecall, NeighborIndex, Neighbors, SeededRng};

/// Training points on which recall is measured.
const SAMPLE: usize = 500;
/// Where tuning gives up.
const WIDEST_BEAM: usize = 10_000;

impl HnswIndex<'_> {
    /// The share of true neighbors found, for the `k` nearest others of a seeded sample of 500 training points, against
    /// exact search. Each looks for them as an unseen query would: the walk does not pass through the point itself.
    /// A row as near as the true k-th nearest counts as found. The result is kept, and
    /// [`describe`](NeighborIndex::describe) tells it.
    pub fn recall(&mut self, k: usize) -> Result<MeasuredRecall, Error> {
        let truth = self.truth(k)?;
        self.recall_against(&truth)
    }

    /// Sets `ef_search` to the smallest at which [`recall`](Self::recall) reaches `target`, and returns what it reaches:
    /// less than `target` only when a beam of 10,000 is not enough.
    pub fn tune(&mut self, target: f64, k: usize) -> Result<MeasuredRecall, Error> {
        if !(target > 0.0 && target <= 1.0) {
            return Err(Error::BadRecall { value: target });
        }
        let truth = self.truth(k)?;
        let widest = self.len().min(WIDEST_BEAM).max(k);
        // Recall grows with the beam: widen it until it is enough, then halve the step that was too wide.
        let (mut too_narrow, mut enough) = (k.saturating_sub(1), k);
        loop {
            self.set_ef_search(enough);
            if self.recall_against(&truth)?.share >= target {
                break;
            }
            if enough >= widest {
                return self.recall_against(&truth);
            }
            too_narrow = enough;
            enough = (2 * enough).min(widest);
        }
        while enough - too_narrow > 1 + enough / 64 {
            let middle = too_narrow.midpoint(enough);
            self.set_ef_search(middle);
            if self.recall_against(&truth)?.share >= target {
                enough = middle;
            } else {
                too_narrow = middle;
            }
        }
        self.set_ef_search(enough);
        self.recall_against(&truth)
    }

    fn truth(&self, k: usize) -> Result<Truth, Error> {
        let present: Vec<u32> = (0..self.ids() as u32).filter(|&id| self.contains(id)).collect();
        let sample = SeededRng::new(self.params.seed).sample(present.len(), SAMPLE);
        let ids: Vec<u32> = sample.into_iter().map(|i| present[i as usize]).collect();
        let nearest = self.data.exact.leave_one_out(&ids, k)?;
        Ok(Truth { ids, nearest })
    }

    fn recall_against(&mut self, truth: &Truth) -> Result<MeasuredRecall, Error> {
        let Truth { ids, nearest } = truth;
        let found = self.leave_one_out(ids, nearest.k())?;
        let near_enough = |i: usize| {
            let limit = nearest.sq_distances(i)[nearest.k() - 1];
            found.sq_distances(i).iter().filter(|&&sq| sq <= limit).count()
        };
        let hits: usize = (0..ids.len()).map(near_enough).sum();
        let share = hits as f64 / (ids.len() * nearest.k()) as f64;
        let measured = MeasuredRecall { share, k: nearest.k(), points: ids.len() };
        self.recall = Some(measured);
        Ok(measured)
    }
}

/// Left-out training points and their nearest others.
struct Truth {
    ids: Vec<u32>,
    nearest: Neighbors,
}
