//! Comparison of the survivors of many queries by matrix products.
//!
//! Queries of one cluster have survivors in common. Where most pairs of some queries and some rows have to be compared, one
//! product of all of them takes less time than the comparison of each pair. The scores of the product have a bound on
//! their error, and only rows that the bound does not exclude are measured.

use std::ops::Range;

use super::blocked::{multiply_transposed, score_error};
use super::partition::{NODE, Partition};
use super::query::{MIN_ROUGH, Query};
use super::rescaler::Rescaler;
use super::shortlist::distance_error;
use crate::{RowStorage, StoredRows};

/// The products of the queries of a task.
pub(super) struct Products<'b> {
    rescaler: &'b Rescaler,
    stored: &'b StoredRows<'b>,
    /// The rescaled queries, row-major, and their squared norms.
    queries: Vec<f32>,
    sq_norms: Vec<f64>,
    /// The rescaled rows of a product, row-major, and their halved squared norms.
    rows: Vec<f32>,
    half_sq_norms: Vec<f32>,
    /// The row of the product at each position; [`NO_ROW`] for those that are not part of it.
    places: Vec<u16>,
    scores: Vec<f32>,
}

const NO_ROW: u16 = u16::MAX;
/// Limit of the memory of the rescaled rows of a product.
const ROW_BYTES: usize = 1 << 20;
/// The costs of rescaling a row and of comparing a pair without a product, relative to that of a pair in a product.
const ROW_COST: usize = 10;
const PAIR_COST: usize = 8;

impl<'b> Products<'b> {
    /// Prepares the products of queries; `None` if direct comparisons are faster.
    pub(super) fn new(
        rescaler: &'b Rescaler,
        stored: &'b StoredRows<'b>,
        tile: &[Query<'_>],
    ) -> Option<Self> {
        let dim = stored.dim();
        if dim < MIN_ROUGH || tile.len() * PAIR_COST <= tile.len() + ROW_COST {
            return None;
        }
        let mut queries = vec![0f32; tile.len() * dim];
        let mut sq_norms = vec![0f64; tile.len()];
        for ((query, rescaled), sq_norm) in tile.iter().zip(queries.chunks_exact_mut(dim)).zip(&mut sq_norms)
        {
            if query.is_in_range() {
                rescaler.rescale(query.row, rescaled);
                *sq_norm = rescaler.sq_norm(query.row);
            }
        }
        let (rows, half_sq_norms, scores) = (vec![], vec![], vec![]);
        let places = vec![NO_ROW; Self::positions(dim)];
        Some(Self { rescaler, stored, queries, sq_norms, rows, half_sq_norms, places, scores })
    }

    /// The number of positions whose rows are multiplied at a time.
    pub(super) fn positions(dim: usize) -> usize {
        let rows = (ROW_BYTES / (4 * dim)).clamp(NODE / 16, NODE);
        1 << rows.ilog2()
    }

    /// Measures the survivors at these positions, if a product of their queries and rows is faster than the comparison of
    /// each pair.
    pub(super) fn measure(&mut self, partition: &Partition, tile: &mut [Query<'_>], positions: Range<u32>) {
        let Some(chosen) = self.choose(partition, tile, &positions) else { return };
        let (dim, n) = (self.stored.dim(), self.half_sq_norms.len());
        self.scores.resize(chosen.len() * n, 0.0);
        let queries = &self.queries[chosen.start * dim..chosen.end * dim];
        multiply_transposed(queries, &self.rows[..n * dim], dim, &mut self.scores[..chosen.len() * n]);
        let largest = self.half_sq_norms.iter().copied().fold(0.0, f32::max) + f32::MIN_POSITIVE;
        let longest = (2.0 * f64::from(largest)).sqrt();
        let sq_unit = self.rescaler.sq_unit();
        let each = tile[chosen.clone()].iter_mut().zip(&self.sq_norms[chosen]);
        for ((query, &sq_norm), products) in each.zip(self.scores.chunks_exact(n)) {
            let error = score_error(dim, sq_norm.sqrt(), longest);
            query.measure_before(positions.end, |position, kth| {
                let place = self.places[(position - positions.start) as usize];
                let Some(kth) = kth.filter(|_| place != NO_ROW) else { return place != NO_ROW };
                let score = f64::from(self.half_sq_norms[place as usize] - products[place as usize]);
                let kth = kth * sq_unit;
                score - error <= 0.5 * (kth - sq_norm) + distance_error(dim, kth + sq_norm)
            });
        }
    }

    /// Chooses the queries and rows of a product and rescales the rows; `None` if a product is not faster.
    fn choose(
        &mut self,
        partition: &Partition,
        tile: &[Query<'_>],
        positions: &Range<u32>,
    ) -> Option<Range<usize>> {
        self.places.fill(NO_ROW);
        let node = positions.start as usize / NODE;
        let (mut ids, mut pairs, mut chosen) = (Vec::new(), 0, tile.len()..0);
        for (i, query) in tile.iter().enumerate() {
            let cutoff = query.cutoff(node);
            for &(_, position) in query.survivors_before(positions.end).iter().filter(|s| s.0 <= cutoff) {
                let place = &mut self.places[(position - positions.start) as usize];
                if *place == NO_ROW {
                    let Some(id) = partition.id(position) else { continue };
                    *place = ids.len() as u16;
                    ids.push(id);
                }
                pairs += 1;
                chosen = chosen.start.min(i)..i + 1;
            }
        }
        if ids.is_empty() || ids.len() * (chosen.len() + ROW_COST) > pairs * PAIR_COST {
            return None;
        }
        let dim = self.stored.dim();
        self.rows.resize(self.rows.len().max(ids.len() * dim), 0.0);
        for (&id, rescaled) in ids.iter().zip(self.rows.chunks_exact_mut(dim)) {
            self.rescaler.rescale(&self.stored.row(id), rescaled);
        }
        self.half_sq_norms.clear();
        self.half_sq_norms.extend(ids.iter().map(|&id| self.rescaler.half_sq_norms()[id as usize]));
        Some(chosen)
    }
}
