//! The candidates for the k nearest rows of one query, selected by approximate scores with a bounded error.
//!
//! After rescaling, with query a and row b, the squared distance is `‖a‖² + 2s` with the score `s = ½‖b‖² − a·b`. The
//! product gives s̃ with `|s̃ − s| ≤ ε`. A row stays on the list until k rows are proven to be nearer, that is, until
//! its `s̃ − ε` exceeds the k-th smallest `s̃ + ε`.

use crate::neighbors::{Neighbor, keep_nearest};

/// A row that may be among the k nearest, with an interval that contains its score.
#[derive(Clone, Copy)]
struct Bounds {
    lower: f32,
    upper: f32,
    id: u32,
}

/// The candidates of one query.
pub(super) struct Shortlist {
    k: usize,
    excluded: Option<u32>,
    /// At least k rows have a score of at most this limit; rows with a provably larger score are dropped.
    limit: f64,
    candidates: Vec<Bounds>,
    /// The nearest rows with a computed distance. Distances are computed when near-ties (rows whose scores differ by less than their
    /// errors) fill the list, and at the end.
    measured: Vec<Neighbor>,
}

/// Exact distances of one query.
pub(super) struct ExactDistance<'a> {
    /// The squared distance of a row.
    pub(super) sq_distance: &'a dyn Fn(u32) -> f64,
    /// An upper bound on the score of a row with the given squared distance.
    pub(super) upper_score: &'a dyn Fn(f64) -> f64,
    /// Loads a row into the cache before it is measured.
    pub(super) prefetch: &'a dyn Fn(u32),
}

/// The number of rows between the row that is loaded into the cache and the row that is measured.
const AHEAD: usize = 2;

/// A bound on the rounding error of a sum of `dim` squares in `f64` and of its scaling; `size` is the sum of the terms.
pub(super) fn distance_error(dim: usize, size: f64) -> f64 {
    (dim as f64 + 8.0) * f64::EPSILON * size
}

impl Shortlist {
    pub(super) fn capacity(k: usize) -> usize {
        2 * k + 64
    }

    /// The memory of one list for `k` neighbors, in bytes.
    pub(super) fn bytes(k: usize) -> usize {
        Self::capacity(k) * size_of::<Bounds>()
    }

    pub(super) fn new(k: usize, excluded: Option<u32>) -> Self {
        let candidates = Vec::with_capacity(Self::capacity(k));
        Self { k, excluded, limit: f64::INFINITY, candidates, measured: vec![] }
    }

    /// Adds the rows with the ids `first..` that are not provably too far, given their products `a·b` and halved
    /// squared norms (infinite for removed rows). The error of each score is at most `error`.
    pub(super) fn add_rows(
        &mut self,
        first: u32,
        products: &[f32],
        half_sq_norms: &[f32],
        error: f64,
        exact: &ExactDistance<'_>,
    ) {
        let mut from = 0;
        while let Some(at) = next_at_most(half_sq_norms, products, self.cutoff(error), from) {
            from = at + 1;
            let id = first + at as u32;
            if Some(id) == self.excluded || half_sq_norms[at] == f32::INFINITY {
                continue;
            }
            let score = f64::from(half_sq_norms[at] - products[at]);
            self.add(id, [score - error, score + error], exact);
        }
    }

    /// Adds a row whose score is in an interval.
    pub(super) fn add(&mut self, id: u32, [lower, upper]: [f64; 2], exact: &ExactDistance<'_>) {
        let (lower, upper) = ((lower as f32).next_down(), (upper as f32).next_up());
        self.candidates.push(Bounds { lower, upper, id });
        if self.candidates.len() == Self::capacity(self.k) {
            self.prune(exact);
        }
    }

    /// The largest score at which a row is not dropped.
    fn cutoff(&self, error: f64) -> f32 {
        ((self.limit + error) as f32).next_up()
    }

    /// Lowers the limit and drops the candidates above it. Computes distances when near-ties leave too many.
    fn prune(&mut self, exact: &ExactDistance<'_>) {
        if self.measured.is_empty() {
            let by_upper = |a: &Bounds, b: &Bounds| a.upper.total_cmp(&b.upper);
            let (_, kth, _) = self.candidates.select_nth_unstable_by(self.k - 1, by_upper);
            self.limit = self.limit.min(f64::from(kth.upper));
        }
        self.drop_farther();
        let is_full = |list: &Self| list.candidates.len() > Self::capacity(list.k) - list.k.min(32);
        if is_full(self) {
            self.measure_lowest(exact);
        }
        if is_full(self) {
            self.measure(exact);
        }
    }

    /// Drops the candidates above the limit.
    fn drop_farther(&mut self) {
        let limit = self.limit;
        self.candidates.retain(|candidate| f64::from(candidate.lower) <= limit);
    }

    /// Measures the k candidates with the lowest scores, and drops the candidates above the resulting limit.
    fn measure_lowest(&mut self, exact: &ExactDistance<'_>) {
        if self.candidates.len() > self.k {
            let by_lower = |a: &Bounds, b: &Bounds| a.lower.total_cmp(&b.lower);
            self.candidates.select_nth_unstable_by(self.k - 1, by_lower);
            let others = self.candidates.split_off(self.k);
            self.measure(exact);
            self.candidates.extend(others);
            self.drop_farther();
        }
    }

    /// Measures all candidates, keeps the k nearest of all measured rows, and lowers the limit to the k-th distance.
    fn measure(&mut self, exact: &ExactDistance<'_>) {
        for (i, row) in self.candidates.iter().enumerate() {
            if let Some(next) = self.candidates.get(i + AHEAD) {
                (exact.prefetch)(next.id);
            }
            self.measured.push(((exact.sq_distance)(row.id), row.id));
        }
        self.candidates.clear();
        keep_nearest(&mut self.measured, self.k);
        if let Some(&(kth, _)) = self.measured.get(self.k - 1) {
            self.limit = self.limit.min((exact.upper_score)(kth));
        }
    }

    /// The k nearest rows by exact distance.
    pub(super) fn finish(mut self, exact: &ExactDistance<'_>) -> Vec<Neighbor> {
        if self.candidates.len() > self.k && self.measured.is_empty() {
            self.prune(exact);
        }
        self.measure_lowest(exact);
        self.measure(exact);
        self.measured
    }
}

/// The first index from `from` on whose score `half_sq_norms[i] - products[i]` is at most `cutoff`.
fn next_at_most(half_sq_norms: &[f32], products: &[f32], cutoff: f32, from: usize) -> Option<usize> {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx2") {
        // SAFETY: the processor supports AVX2, the only requirement of the function.
        return unsafe { next_at_most_avx2(half_sq_norms, products, cutoff, from) };
    }
    next_at_most_any(half_sq_norms, products, cutoff, from)
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn next_at_most_avx2(half_sq_norms: &[f32], products: &[f32], cutoff: f32, from: usize) -> Option<usize> {
    next_at_most_any(half_sq_norms, products, cutoff, from)
}

#[inline(always)]
fn next_at_most_any(half_sq_norms: &[f32], products: &[f32], cutoff: f32, from: usize) -> Option<usize> {
    const LANES: usize = 32;
    let (norms, products) = (&half_sq_norms[from..], &products[from..]);
    let (norm_chunks, _) = norms.as_chunks::<LANES>();
    let (product_chunks, _) = products.as_chunks::<LANES>();
    let mut at = 0;
    for (norm, product) in norm_chunks.iter().zip(product_chunks) {
        let mut lowest = [f32::INFINITY; 8];
        for (norm, product) in norm.as_chunks::<8>().0.iter().zip(product.as_chunks::<8>().0) {
            for lane in 0..8 {
                let score = norm[lane] - product[lane];
                lowest[lane] = if score < lowest[lane] { score } else { lowest[lane] };
            }
        }
        if lowest.iter().any(|&score| score <= cutoff) {
            break;
        }
        at += LANES;
    }
    let rest = norms[at..].iter().zip(&products[at..]);
    rest.map(|(norm, product)| norm - product).position(|score| score <= cutoff).map(|i| from + at + i)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_score_at_or_below_the_cutoff_is_found() {
        let norms: Vec<f32> = (0..100).map(|i| (i * 37 % 100) as f32).collect();
        let zeros = vec![0f32; 100];
        let (mut scores, mut from) = (vec![], 0);
        while let Some(i) = next_at_most(&norms, &zeros, 7.0, from) {
            scores.push(norms[i]);
            from = i + 1;
        }
        let expected: Vec<f32> = norms.iter().copied().filter(|&v| v <= 7.0).collect();
        assert_eq!(scores, expected);
    }

    #[test]
    fn ties_within_the_error_are_ranked_by_distance() {
        // The order of the scores is opposite to the order of the distances; all differences are within the error.
        let exact = ExactDistance {
            sq_distance: &|id| f64::from(1000 - id),
            upper_score: &|sq_distance| 0.5 * sq_distance,
            prefetch: &|_| {},
        };
        let mut list = Shortlist::new(3, Some(999));
        let products: Vec<f32> = (0..1000).map(|i| -(i as f32) * 1e-3).collect();
        list.add_rows(0, &products, &vec![0.0; 1000], 1000.0, &exact);
        let ids: Vec<u32> = list.finish(&exact).iter().map(|neighbor| neighbor.1).collect();
        assert_eq!(ids, [998, 997, 996]);
    }
}
