//! The k nearest rows of one query among the rows that were measured.

use std::collections::BinaryHeap;

use super::axes::F32_ROUNDOFF;
use super::lanes::exceeds;
use crate::neighbors::Neighbor;
use crate::{RowStorage, StoredRows};

/// The nearest measured rows of a query. A row is measured when its squared distance to the query is computed in `f64`.
pub(super) struct Nearest<'b> {
    rows: &'b StoredRows<'b>,
    query: &'b [f32],
    k: usize,
    /// The bits of the squared distances, and the ids. The bits of nonnegative numbers have the order of the numbers.
    heap: BinaryHeap<(u64, u32)>,
    /// A row with a larger squared distance, as computed in `f32`, is provably farther than the k-th nearest.
    cutoff: f32,
}

/// With fewer columns, `f64` distances are as fast as `f32` distances.
const MIN_F32_COLUMNS: usize = 32;

impl<'b> Nearest<'b> {
    pub(super) fn new(rows: &'b StoredRows<'b>, query: &'b [f32], k: usize) -> Self {
        Self { rows, query, k, heap: BinaryHeap::with_capacity(k + 1), cutoff: f32::INFINITY }
    }

    /// Whether k rows are known.
    pub(super) fn is_full(&self) -> bool {
        self.heap.len() == self.k
    }

    /// The squared distance of the k-th nearest row; infinite if fewer rows are known.
    pub(super) fn kth_sq_distance(&self) -> f64 {
        match self.heap.peek() {
            Some(&(bits, _)) if self.is_full() => f64::from_bits(bits),
            _ => f64::INFINITY,
        }
    }

    /// Loads a row into the cache before it is measured.
    pub(super) fn prefetch(&self, id: u32) {
        self.rows.prefetch(id);
    }

    /// Measures a row, unless its `f32` distance proves that it is farther than the k-th nearest. Returns whether the row is now among
    /// the k nearest.
    pub(super) fn compare(&mut self, id: u32) -> bool {
        !self.is_provably_farther(id) && self.measure(id)
    }

    /// Measures a row. Returns whether it is now among the k nearest.
    pub(super) fn measure(&mut self, id: u32) -> bool {
        let measured = (self.rows.sq_distance(self.query, id).to_bits(), id);
        if self.is_full() {
            if self.heap.peek().is_some_and(|farthest| measured >= *farthest) {
                return false;
            }
            self.heap.pop();
        }
        self.heap.push(measured);
        self.lower_cutoff();
        true
    }

    fn lower_cutoff(&mut self) {
        // A sum of d squares of differences has a relative error of at most (d + 4) u, where u is the unit roundoff. Small sums may have
        // underflowed.
        let rounding = 1.0 + (self.query.len() as f64 + 8.0) * 1.01 * F32_ROUNDOFF;
        let cutoff = (self.kth_sq_distance() * rounding + 1e-30) as f32;
        self.cutoff = if cutoff < 1e30 { cutoff.next_up() } else { f32::INFINITY };
    }

    /// Whether an `f32` distance proves that a row is farther than the k-th nearest.
    fn is_provably_farther(&self, id: u32) -> bool {
        match (self.rows.floats(), self.rows.scale()) {
            (Some(floats), None) if self.query.len() >= MIN_F32_COLUMNS && self.cutoff < f32::INFINITY => {
                exceeds(self.query, floats.row(id as usize), self.cutoff)
            }
            _ => false,
        }
    }

    /// The rows, nearest first.
    pub(super) fn into_sorted(self) -> Vec<Neighbor> {
        let nearest = self.heap.into_sorted_vec();
        nearest.into_iter().map(|(bits, id)| (f64::from_bits(bits), id)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Embeddings, Precision};

    #[test]
    fn equal_distances_are_ordered_by_id() {
        // 40 columns, so that `f32` distances are compared too.
        let row = |first: f32| (0..40).map(move |column| if column == 0 { first } else { 0.0 });
        let values: Vec<f32> = [3.0, -1.0, 1.0, 2.0, 1.0].into_iter().flat_map(row).collect();
        let rows = StoredRows::new(&Embeddings::new(values, 40).unwrap(), Precision::F32).unwrap();
        let query = [0f32; 40];
        let mut nearest = Nearest::new(&rows, &query, 2);
        assert!(nearest.compare(4) && nearest.compare(2));
        assert_eq!(nearest.kth_sq_distance(), 1.0);
        assert!(!nearest.compare(0) && !nearest.compare(3));
        assert!(nearest.compare(1));
        assert_eq!(nearest.into_sorted(), [(1.0, 1), (1.0, 2)]);
    }
}
