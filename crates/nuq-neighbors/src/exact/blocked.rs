//! Scores of many queries against many rows at once: one matrix product per block, scanned while it is warm.

use faer::linalg::matmul::matmul;
use faer::{Accum, MatMut, MatRef, Par};
use rayon::prelude::*;

use super::ExactIndex;
use super::rescaler::Rescaler;
use super::shortlist::{Exact, Shortlist, distance_error};
use crate::NeighborIndex;
use crate::neighbors::Neighbor;

/// Queries per task: enough that laying out a block of rows is a small part of multiplying it.
const QUERIES: usize = 1024;
/// Training rows per product: few enough that the products are still in the cache when they are scanned.
const ROWS: usize = 256;
/// Bytes of laid-out training rows, and of shortlists, per task.
const ROW_BYTES: usize = 16 << 20;
const LIST_BYTES: usize = 32 << 20;
/// With fewer queries per block than this the product is slower than direct distances.
const FEWEST_QUERIES: usize = 8;
/// Beyond this length a query's products with the training rows may overflow `f32`.
const LONGEST_QUERY: f64 = 1e30;

/// Whether `k` of `len` neighbors are few enough for shortlists to be short.
pub(super) fn pays_for(k: usize, len: usize) -> bool {
    k <= len / 4 && LIST_BYTES / Shortlist::bytes(k) >= FEWEST_QUERIES
}

/// The nearest rows of each query (row-major), one task per block of queries.
pub(super) fn search(
    index: &ExactIndex<'_>,
    rescaler: &Rescaler,
    queries: &[f32],
    k: usize,
    excluded: Option<&[u32]>,
) -> Vec<Vec<Neighbor>> {
    let (dim, count) = (index.dim(), queries.len() / index.dim());
    let most = QUERIES.min(LIST_BYTES / Shortlist::bytes(k));
    // A whole number of rounds over the threads, so that none waits for a last half-empty block.
    let tasks = count.div_ceil(most).next_multiple_of(rayon::current_num_threads());
    let per_task = count.div_ceil(tasks).max(FEWEST_QUERIES);
    queries
        .par_chunks(per_task * dim)
        .enumerate()
        .flat_map_iter(|(task, block)| {
            let first = task * per_task;
            let excluded = excluded.map(|ids| &ids[first..first + block.len() / dim]);
            Block::new(index, rescaler, block, k, excluded).search()
        })
        .collect()
}

/// One block of queries on its way through all training rows.
struct Block<'b> {
    index: &'b ExactIndex<'b>,
    rescaler: &'b Rescaler,
    queries: Vec<Query<'b>>,
    /// The queries in the rescaler, row-major.
    rescaled: Vec<f32>,
}

struct Query<'b> {
    row: &'b [f32],
    sq_norm: f64,
    excluded: Option<u32>,
    /// `None` for a query too long for `f32` products, which is answered directly.
    list: Option<Shortlist>,
    k: usize,
}

impl<'b> Block<'b> {
    fn new(
        index: &'b ExactIndex<'b>,
        rescaler: &'b Rescaler,
        block: &'b [f32],
        k: usize,
        excluded: Option<&[u32]>,
    ) -> Self {
        let dim = index.dim();
        let mut rescaled = vec![0f32; block.len()];
        let queries = block
            .chunks_exact(dim)
            .zip(rescaled.chunks_exact_mut(dim))
            .enumerate()
            .map(|(i, (row, rescaled))| {
                let (sq_norm, excluded) = (rescaler.sq_norm(row), excluded.map(|ids| ids[i]));
                rescaler.rescale(row, rescaled);
                let fits = sq_norm < LONGEST_QUERY * LONGEST_QUERY && rescaled.iter().all(|a| a.is_finite());
                if !fits {
                    rescaled.fill(0.0);
                }
                Query { row, sq_norm, excluded, k, list: fits.then(|| Shortlist::new(k, excluded)) }
            })
            .collect();
        Self { index, rescaler, queries, rescaled }
    }

    fn search(mut self) -> Vec<Vec<Neighbor>> {
        let dim = self.index.dim();
        let per_block = (ROW_BYTES / (4 * dim)).clamp(16, ROWS).min(self.index.ids());
        let mut rows = vec![0f32; per_block * dim];
        let mut products = vec![0f32; self.queries.len() * per_block];
        for (i, half_sq_norms) in self.rescaler.half_sq_norms().chunks(per_block).enumerate() {
            let (first, n) = (i * per_block, half_sq_norms.len());
            self.rescaler.rescale(&self.index.rows.block(first..first + n), &mut rows);
            multiply_transposed(
                &self.rescaled,
                &rows[..n * dim],
                dim,
                &mut products[..self.queries.len() * n],
            );
            self.offer(first as u32, &products, half_sq_norms);
        }
        let index = self.index;
        let unit = self.rescaler.unit();
        self.queries
            .into_iter()
            .map(|query| {
                let Query { row, sq_norm, excluded, list, k } = query;
                let distance = |id| index.distance(row, id);
                match list {
                    Some(list) => {
                        list.finish(&Exact { distance: &distance, dim: index.dim(), unit, sq_norm })
                    }
                    None => index.search_directly(row, k, excluded),
                }
            })
            .collect()
    }

    fn offer(&mut self, first: u32, products: &[f32], half_sq_norms: &[f32]) {
        // What underflows to a norm of zero is below the smallest number; rows that are gone have an infinite one.
        let present = half_sq_norms.iter().copied().filter(|norm| norm.is_finite());
        let largest = present.fold(0.0, f32::max) + f32::MIN_POSITIVE;
        let longest = (2.0 * f64::from(largest)).sqrt();
        let dim = self.index.dim();
        for (query, products) in self.queries.iter_mut().zip(products.chunks_exact(half_sq_norms.len())) {
            let Some(list) = &mut query.list else { continue };
            let distance = |id| self.index.distance(query.row, id);
            let exact =
                Exact { distance: &distance, dim, unit: self.rescaler.unit(), sq_norm: query.sq_norm };
            let error = score_error(dim, query.sq_norm.sqrt(), longest);
            list.offer(first, products, half_sq_norms, error, &exact);
        }
    }
}

/// A bound on how far a score `½‖b‖² − a·b` computed in `f32` from rescaled rows may be from the one that half the
/// computed `f64` distance implies.
///
/// With $u = 2^{-24}$: a product of $d$ terms errs by at most $\gamma_d \|a\|\|b\|$ in any order of summation,
/// $\gamma_d = du/(1 - du)$; the coordinates err by $3u$ each, the norm and the difference by a rounding each. The
/// next term is for products that underflow, the last for the rounding of the distance that ranks.
fn score_error(dim: usize, query_norm: f64, row_norm: f64) -> f64 {
    const U: f64 = 1.0 / (1u64 << 24) as f64;
    let d = dim as f64;
    let gamma = d * U / (1.0 - d * U);
    (1.01 * gamma + 16.0 * U) * query_norm * row_norm
        + 8.0 * U * row_norm * row_norm
        + d * (1.0 + query_norm) * 1e-43
        + distance_error(dim, (query_norm + row_norm).powi(2))
}

/// `products = queries · rowsᵀ`, all row-major, on the calling thread.
fn multiply_transposed(queries: &[f32], rows: &[f32], dim: usize, products: &mut [f32]) {
    let (m, n) = (queries.len() / dim, rows.len() / dim);
    let queries = MatRef::from_row_major_slice(queries, m, dim);
    let rows = MatRef::from_row_major_slice(rows, n, dim);
    let products = MatMut::from_row_major_slice_mut(products, m, n);
    matmul(products, Accum::Replace, queries, rows.transpose(), 1.0, Par::Seq);
}
