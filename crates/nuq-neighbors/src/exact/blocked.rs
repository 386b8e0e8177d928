//! Scores `½‖b‖² − a·b` of many queries `a` and many rows `b`. The products `a·b` of a block are one matrix product, which is scanned
//! while it is in the cache.

use faer::linalg::matmul::matmul;
use faer::{Accum, MatMut, MatRef, Par};
use rayon::prelude::*;

use super::ExactIndex;
use super::rescaler::Rescaler;
use super::shortlist::{ExactDistance, Shortlist, distance_error};
use crate::cancel::{Checkpoint, checkpoint};
use crate::neighbors::Neighbor;
use crate::progress::Steps;
use crate::{NeighborIndex, RowStorage};

/// Queries per task: enough to make the cost of rescaling a block of rows small compared with the cost of its product.
const QUERIES: usize = 1024;
/// Training rows per product: few enough to keep the product in the cache until it is scanned.
const ROWS: usize = 256;
/// Limits of the memory per task for rescaled training rows and for shortlists.
const ROW_BYTES: usize = 16 << 20;
pub(super) const LIST_BYTES: usize = 32 << 20;
/// With fewer queries per task than this, direct distances are faster than a product.
const MIN_QUERIES: usize = 8;
/// Products of training rows with a rescaled query longer than this may overflow `f32`.
const MAX_QUERY_NORM: f64 = 1e30;

/// Whether the matrix product is faster than direct distances. This is the case if the shortlists for `k` neighbors
/// among `len` rows are short.
pub(super) fn is_efficient(k: usize, len: usize) -> bool {
    k <= len / 4 && LIST_BYTES / Shortlist::bytes(k) >= MIN_QUERIES
}

/// The nearest rows of each query (row-major), with one task per block of queries.
pub(super) fn search(
    index: &ExactIndex<'_>,
    rescaler: &Rescaler,
    queries: &[f32],
    k: usize,
    excluded: Option<&[u32]>,
) -> Vec<Vec<Neighbor>> {
    in_tasks(
        index.dim(),
        queries,
        excluded,
        TaskSize { max: QUERIES.min(LIST_BYTES / Shortlist::bytes(k)), multiple: 1 },
        |block, excluded| Block::new(index, rescaler, block, k, excluded).search(),
    )
}

/// The number of queries of a task.
#[derive(Clone, Copy)]
pub(super) struct TaskSize {
    pub(super) max: usize,
    /// All tasks but the last have a multiple of this number. It is a divisor of `max`.
    pub(super) multiple: usize,
}

/// Searches blocks of queries, one per task.
pub(super) fn in_tasks<T: Send>(
    dim: usize,
    queries: &[f32],
    excluded: Option<&[u32]>,
    size: TaskSize,
    search: impl Fn(&[f32], Option<&[u32]>) -> Vec<T> + Sync,
) -> Vec<T> {
    let count = queries.len() / dim;
    // With many queries, the number of tasks is a multiple of the number of threads, so that all threads finish at about the same time.
    let tasks = count.div_ceil(size.max).next_multiple_of(rayon::current_num_threads());
    let per_task = count.div_ceil(tasks).max(MIN_QUERIES).next_multiple_of(size.multiple);
    let (here, steps) = (Checkpoint::current(), Steps::current());
    queries
        .par_chunks(per_task * dim)
        .enumerate()
        .flat_map_iter(|(task, block)| {
            let first = task * per_task;
            let excluded = excluded.map(|ids| &ids[first..first + block.len() / dim]);
            let nearest = here.enter(|| search(block, excluded));
            steps.add(nearest.len());
            nearest
        })
        .collect()
}

/// One block of queries, compared with all training rows.
struct Block<'b> {
    index: &'b ExactIndex<'b>,
    rescaler: &'b Rescaler,
    queries: Vec<Query<'b>>,
    /// The rescaled queries, row-major.
    rescaled: Vec<f32>,
}

struct Query<'b> {
    row: &'b [f32],
    sq_norm: f64,
    excluded: Option<u32>,
    /// `None` for a query that is too long for `f32` products; it is searched directly.
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
                let fits =
                    sq_norm < MAX_QUERY_NORM * MAX_QUERY_NORM && rescaled.iter().all(|a| a.is_finite());
                if !fits {
                    rescaled.fill(0.0);
                }
                Query { row, sq_norm, excluded, k, list: fits.then(|| Shortlist::new(k, excluded)) }
            })
            .collect();
        Self { index, rescaler, queries, rescaled }
    }

    fn search(mut self) -> Vec<Vec<Neighbor>> {
        let (dim, stored) = (self.index.dim(), self.index.stored_rows());
        let per_block = (ROW_BYTES / (4 * dim)).clamp(16, ROWS).min(stored.id_bound());
        let mut rows = vec![0f32; per_block * dim];
        let mut products = vec![0f32; self.queries.len() * per_block];
        for (i, half_sq_norms) in self.rescaler.half_sq_norms().chunks(per_block).enumerate() {
            checkpoint();
            let (first, n) = (i * per_block, half_sq_norms.len());
            self.rescaler.rescale(&stored.block(first..first + n), &mut rows);
            multiply_transposed(
                &self.rescaled,
                &rows[..n * dim],
                dim,
                &mut products[..self.queries.len() * n],
            );
            self.add_rows(first as u32, &products, half_sq_norms);
        }
        let index = self.index;
        let sq_unit = self.rescaler.sq_unit();
        self.queries
            .into_iter()
            .map(|query| {
                checkpoint();
                let Query { row, sq_norm, excluded, list, k } = query;
                let sq_distance = |id| stored.sq_distance(row, id);
                let upper_score = |sq_distance| upper_score(dim, sq_distance * sq_unit, sq_norm);
                match list {
                    Some(list) => {
                        let prefetch = |id| stored.prefetch(id);
                        list.finish(&ExactDistance {
                            sq_distance: &sq_distance,
                            upper_score: &upper_score,
                            prefetch: &prefetch,
                        })
                    }
                    None => index.search_directly(row, k, excluded),
                }
            })
            .collect()
    }

    fn add_rows(&mut self, first: u32, products: &[f32], half_sq_norms: &[f32]) {
        // `MIN_POSITIVE` is added because a smaller norm may have underflowed to zero. Removed rows have an infinite
        // norm and are left out.
        let live = half_sq_norms.iter().copied().filter(|norm| norm.is_finite());
        let largest = live.fold(0.0, f32::max) + f32::MIN_POSITIVE;
        let longest = (2.0 * f64::from(largest)).sqrt();
        let (dim, sq_unit) = (self.index.dim(), self.rescaler.sq_unit());
        for (query, products) in self.queries.iter_mut().zip(products.chunks_exact(half_sq_norms.len())) {
            let Some(list) = &mut query.list else { continue };
            let sq_distance = |id| self.index.stored_rows().sq_distance(query.row, id);
            let upper_score = |sq_distance| upper_score(dim, sq_distance * sq_unit, query.sq_norm);
            let prefetch = |id| self.index.stored_rows().prefetch(id);
            let exact =
                ExactDistance { sq_distance: &sq_distance, upper_score: &upper_score, prefetch: &prefetch };
            let error = score_error(dim, query.sq_norm.sqrt(), longest);
            list.add_rows(first, products, half_sq_norms, error, &exact);
        }
    }
}

/// A bound on the difference between two values of the score `½‖b‖² − a·b`: the value computed in `f32` from rescaled
/// rows, and the value that follows from the squared distance computed in `f64`.
///
/// Let u = 2⁻²⁴. A product of d terms has an error of at most `γ_d ‖a‖ ‖b‖` in any order of summation, with
/// `γ_d = d u / (1 − d u)`. Each coordinate has a relative error of at most 3u; the norm and the difference add one
/// rounding each. The third term bounds products that underflow, the last one the rounding of the distance in `f64`.
pub(super) fn score_error(dim: usize, query_norm: f64, row_norm: f64) -> f64 {
    const U: f64 = 1.0 / (1u64 << 24) as f64;
    let d = dim as f64;
    let gamma = d * U / (1.0 - d * U);
    (1.01 * gamma + 16.0 * U) * query_norm * row_norm
        + 8.0 * U * row_norm * row_norm
        + d * (1.0 + query_norm) * 1e-43
        + distance_error(dim, (query_norm + row_norm).powi(2))
}

/// An upper bound on the score of a row whose rescaled squared distance, computed in `f64`, is `sq_distance`.
fn upper_score(dim: usize, sq_distance: f64, sq_norm: f64) -> f64 {
    0.5 * (sq_distance - sq_norm) + distance_error(dim, sq_distance + sq_norm)
}

/// `products = queries · rowsᵀ`, all row-major, on the calling thread.
pub(super) fn multiply_transposed(queries: &[f32], rows: &[f32], dim: usize, products: &mut [f32]) {
    let (m, n) = (queries.len() / dim, rows.len() / dim);
    let queries = MatRef::from_row_major_slice(queries, m, dim);
    let rows = MatRef::from_row_major_slice(rows, n, dim);
    let products = MatMut::from_row_major_slice_mut(products, m, n);
    matmul(products, Accum::Replace, queries, rows.transpose(), 1.0, Par::Seq);
}
