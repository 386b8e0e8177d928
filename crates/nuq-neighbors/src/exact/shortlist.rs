//! The running top-k of one query over approximate scores whose error is bounded.
//!
//! In the rescaler of the index, with query $a$ and row $b$, the squared distance is $\|a\|^2 + 2s$ with the score
//! $s = \tfrac12\|b\|^2 - a \cdot b$. The product gives $\tilde s$ with $|\tilde s - s| \le \varepsilon$. A row
//! stays on the list until some k rows are known to be nearer: until its $\tilde s - \varepsilon$ exceeds the
//! k-th smallest $\tilde s + \varepsilon$.

use crate::neighbors::{Neighbor, keep_nearest};

/// A row that may be among the nearest, with the interval that holds its score.
#[derive(Clone, Copy)]
struct Contender {
    lowest: f32,
    highest: f32,
    id: u32,
}

/// The candidates of one query.
pub(super) struct Shortlist {
    k: usize,
    excluded: Option<u32>,
    /// At least k rows score no more than this: whoever provably scores more is out.
    limit: f64,
    contenders: Vec<Contender>,
    /// Rows whose distance has been computed: only when many near-ties crowd the list.
    settled: Vec<Neighbor>,
}

/// What settling needs to know: exact distances, and how they read as scores.
pub(super) struct Exact<'a> {
    pub(super) distance: &'a dyn Fn(u32) -> f64,
    pub(super) dim: usize,
    /// Squared distance in the rescaler per squared distance outside it.
    pub(super) unit: f64,
    /// $\|a\|^2$.
    pub(super) sq_norm: f64,
}

/// How far a sum of `dim` squares, or its scaling, may be off in `f64` when its terms add up to `size`.
pub(super) fn distance_error(dim: usize, size: f64) -> f64 {
    (dim as f64 + 8.0) * f64::EPSILON * size
}

impl Shortlist {
    pub(super) fn capacity(k: usize) -> usize {
        2 * k + 64
    }

    /// Memory of one list for `k` neighbors.
    pub(super) fn bytes(k: usize) -> usize {
        Self::capacity(k) * size_of::<Contender>()
    }

    pub(super) fn new(k: usize, excluded: Option<u32>) -> Self {
        let contenders = Vec::with_capacity(Self::capacity(k));
        Self { k, excluded, limit: f64::INFINITY, contenders, settled: vec![] }
    }

    /// Considers rows `first..` from their products `a·b` and halved squared norms (infinite for rows that
    /// are gone), known within `error`.
    pub(super) fn offer(
        &mut self,
        first: u32,
        products: &[f32],
        half_sq_norms: &[f32],
        error: f64,
        exact: &Exact<'_>,
    ) {
        let mut at = 0;
        while let Some(found) = next_at_most(half_sq_norms, products, self.cut(error), at) {
            at = found + 1;
            let id = first + found as u32;
            if Some(id) == self.excluded || half_sq_norms[found] == f32::INFINITY {
                continue;
            }
            let score = f64::from(half_sq_norms[found] - products[found]);
            self.contenders.push(Contender {
                lowest: ((score - error) as f32).next_down(),
                highest: ((score + error) as f32).next_up(),
                id,
            });
            if self.contenders.len() == Self::capacity(self.k) {
                self.tighten(exact);
            }
        }
    }

    /// Scores above this are out.
    fn cut(&self, error: f64) -> f32 {
        ((self.limit + error) as f32).next_up()
    }

    /// Lowers the limit and drops who is above it; where ties leave too many, computes their distances.
    fn tighten(&mut self, exact: &Exact<'_>) {
        if self.settled.is_empty() {
            let by_highest = |a: &Contender, b: &Contender| a.highest.total_cmp(&b.highest);
            let (_, kth, _) = self.contenders.select_nth_unstable_by(self.k - 1, by_highest);
            self.limit = self.limit.min(f64::from(kth.highest));
            let limit = self.limit;
            self.contenders.retain(|contender| f64::from(contender.lowest) <= limit);
        }
        if self.contenders.len() > Self::capacity(self.k) - self.k.min(32) {
            self.settle(exact);
        }
    }

    fn settle(&mut self, exact: &Exact<'_>) {
        let limit = self.limit;
        let alive = self.contenders.drain(..).filter(|contender| f64::from(contender.lowest) <= limit);
        self.settled.extend(alive.map(|contender| ((exact.distance)(contender.id), contender.id)));
        keep_nearest(&mut self.settled, self.k);
        if let Some(&(kth, _)) = self.settled.get(self.k - 1) {
            let kth = kth * exact.unit;
            let rounding = distance_error(exact.dim, kth + exact.sq_norm);
            self.limit = self.limit.min(0.5 * (kth - exact.sq_norm) + rounding);
        }
    }

    /// The k nearest, by exact distance.
    pub(super) fn finish(mut self, exact: &Exact<'_>) -> Vec<Neighbor> {
        if self.contenders.len() > self.k {
            self.tighten(exact);
        }
        self.settle(exact);
        self.settled
    }
}

/// The first index from `from` on whose score `half_sq_norms[i] - products[i]` is at most `cut`.
fn next_at_most(half_sq_norms: &[f32], products: &[f32], cut: f32, from: usize) -> Option<usize> {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx2") {
        // SAFETY: the processor has AVX2, which is all that the function asks for.
        return unsafe { next_at_most_avx2(half_sq_norms, products, cut, from) };
    }
    next_at_most_any(half_sq_norms, products, cut, from)
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn next_at_most_avx2(half_sq_norms: &[f32], products: &[f32], cut: f32, from: usize) -> Option<usize> {
    next_at_most_any(half_sq_norms, products, cut, from)
}

#[inline(always)]
fn next_at_most_any(half_sq_norms: &[f32], products: &[f32], cut: f32, from: usize) -> Option<usize> {
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
        if lowest.iter().any(|&score| score <= cut) {
            break;
        }
        at += LANES;
    }
    let rest = norms[at..].iter().zip(&products[at..]);
    rest.map(|(norm, product)| norm - product).position(|score| score <= cut).map(|i| from + at + i)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_scan_finds_every_score_at_or_below_the_cut() {
        let norms: Vec<f32> = (0..100).map(|i| (i * 37 % 100) as f32).collect();
        let zeros = vec![0f32; 100];
        let (mut found, mut at) = (vec![], 0);
        while let Some(i) = next_at_most(&norms, &zeros, 7.0, at) {
            found.push(norms[i]);
            at = i + 1;
        }
        let expected: Vec<f32> = norms.iter().copied().filter(|&v| v <= 7.0).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn near_ties_within_the_error_are_decided_by_distance() {
        // Scores that say the opposite of the distances, all within the error: the distances win.
        let exact = Exact { distance: &|id| f64::from(1000 - id), dim: 1, unit: 1.0, sq_norm: 0.0 };
        let mut list = Shortlist::new(3, Some(999));
        let products: Vec<f32> = (0..1000).map(|i| -(i as f32) * 1e-3).collect();
        list.offer(0, &products, &vec![0.0; 1000], 1000.0, &exact);
        let ids: Vec<u32> = list.finish(&exact).iter().map(|neighbor| neighbor.1).collect();
        assert_eq!(ids, [998, 997, 996]);
    }
}
