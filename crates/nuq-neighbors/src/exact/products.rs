//! Comparison of the survivors of many queries by matrix products.
//!
//! Queries of one cluster have survivors in common. Where most pairs of some queries and some rows have to be compared, one
//! product of all of them takes less time than the comparison of each pair. The scores of the product have a bound on
//! their error, and only rows that the bound does not exclude are measured.

use std::ops::Range;

use super::axes::F32_ROUNDOFF;
use super::blocked::{multiply_transposed, score_error};
use super::partition::{NODE, Partition};
use super::query::{Compared, MIN_ROUGH, Query};
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
const ROW_COST: usize = 30;
const PAIR_COST: usize = 14;

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

    /// Bounds the distance of the k-th nearest row of some queries by the rows of one node.
    pub(super) fn seed(
        &mut self,
        partition: &Partition,
        tile: &mut [Query<'_>],
        chosen: Range<usize>,
        node: usize,
    ) {
        let sq_unit = self.rescaler.sq_unit();
        let mut uppers: Vec<Vec<f32>> = vec![Vec::with_capacity(NODE); chosen.len()];
        for first in (node * NODE..(node + 1) * NODE).step_by(self.places.len()) {
            let positions = first as u32..(first + self.places.len()) as u32;
            let ids: Vec<u32> = positions.filter_map(|position| partition.id(position)).collect();
            if ids.is_empty() {
                continue;
            }
            let longest = self.multiply(&ids, chosen.clone());
            for (i, (uppers, products)) in
                uppers.iter_mut().zip(self.scores.chunks_exact(ids.len())).enumerate()
            {
                let at = chosen.start + i;
                let error = score_error(self.stored.dim(), self.sq_norms[at].sqrt(), longest) as f32;
                let scores = self.half_sq_norms.iter().zip(products).zip(&ids);
                let scores = scores.filter(|(_, id)| !tile[at].excludes(**id));
                uppers.extend(scores.map(|((half_sq_norm, product), _)| (half_sq_norm - product) + error));
            }
        }
        for (at, mut uppers) in chosen.zip(uppers) {
            let k = tile[at].k();
            if tile[at].is_in_range() && uppers.len() >= k {
                let (_, &mut kth, _) = uppers.select_nth_unstable_by(k - 1, f32::total_cmp);
                // The score and its error were rounded once each.
                let (kth, sq_norm) = (f64::from(kth), self.sq_norms[at]);
                let rounding = 4.0 * F32_ROUNDOFF * kth.abs()
                    + distance_error(self.stored.dim(), sq_norm + 2.0 * kth.abs());
                tile[at].set_limit(((sq_norm + 2.0 * (kth + rounding)) / sq_unit).max(0.0));
            }
        }
    }

    /// Measures the survivors at these positions. Rows with survivors of many queries are part of a product.
    pub(super) fn measure(&mut self, partition: &Partition, tile: &mut [Query<'_>], positions: Range<u32>) {
        let Some((ids, chosen)) = self.choose(partition, tile, &positions) else { return };
        let longest = self.multiply(&ids, chosen.clone());
        let (dim, sq_unit) = (self.stored.dim(), self.rescaler.sq_unit());
        let each = tile[chosen.clone()].iter_mut().zip(&self.sq_norms[chosen]);
        for ((query, &sq_norm), products) in each.zip(self.scores.chunks_exact(ids.len())) {
            let error = score_error(dim, sq_norm.sqrt(), longest);
            query.measure_before(positions.end, |position, kth| {
                let place = self.places[(position - positions.start) as usize] as usize;
                if place == NO_ROW as usize || kth == f64::INFINITY {
                    return Compared::Unknown;
                }
                let score = f64::from(self.half_sq_norms[place] - products[place]);
                let kth = kth * sq_unit;
                let limit = 0.5 * (kth - sq_norm) + distance_error(dim, kth + sq_norm);
                if score - error <= limit { Compared::Candidate } else { Compared::Farther }
            });
        }
    }

    /// Multiplies some queries with some rows. Returns the norm of the longest row.
    fn multiply(&mut self, ids: &[u32], chosen: Range<usize>) -> f64 {
        let (dim, n) = (self.stored.dim(), ids.len());
        self.rows.resize(self.rows.len().max(n * dim), 0.0);
        for (&id, rescaled) in ids.iter().zip(self.rows.chunks_exact_mut(dim)) {
            self.rescaler.rescale(&self.stored.row(id), rescaled);
        }
        self.half_sq_norms.clear();
        self.half_sq_norms.extend(ids.iter().map(|&id| self.rescaler.half_sq_norms()[id as usize]));
        self.scores.resize(chosen.len() * n, 0.0);
        let queries = &self.queries[chosen.start * dim..chosen.end * dim];
        multiply_transposed(queries, &self.rows[..n * dim], dim, &mut self.scores);
        let largest = self.half_sq_norms.iter().copied().fold(0.0, f32::max) + f32::MIN_POSITIVE;
        (2.0 * f64::from(largest)).sqrt()
    }

    /// Chooses the rows and queries of a product; `None` if it is not faster for any row.
    fn choose(
        &mut self,
        partition: &Partition,
        tile: &[Query<'_>],
        positions: &Range<u32>,
    ) -> Option<(Vec<u32>, Range<usize>)> {
        let node = positions.start as usize / NODE;
        let mut pairs = vec![0; self.places.len()];
        let mut chosen = tile.len()..0;
        for (i, query) in tile.iter().enumerate() {
            let cutoff = query.cutoff(node);
            let survivors = query.survivors_before(positions.end);
            for &(_, position) in survivors.iter().filter(|survivor| survivor.0 <= cutoff) {
                pairs[(position - positions.start) as usize] += 1;
                chosen = chosen.start.min(i)..i + 1;
            }
        }
        let mut ids = Vec::new();
        for ((position, pairs), place) in positions.clone().zip(pairs).zip(&mut self.places) {
            let is_faster = chosen.len() + ROW_COST < pairs * PAIR_COST;
            let id = partition.id(position).filter(|_| is_faster);
            *place = id.map_or(NO_ROW, |_| ids.len() as u16);
            ids.extend(id);
        }
        (!ids.is_empty()).then_some((ids, chosen))
    }
}
