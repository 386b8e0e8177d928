//! The sizes of the blocks and passes of a search.

use crate::projection::{self, Images};
use crate::shard::width;

/// Queries per block, and rows per product. More rows per product are not faster and need more memory.
const QUERIES: usize = 8192;
const ROWS: usize = 8192;
/// Blocks of more queries than this are halved if there is too little memory.
const MIN_QUERIES: usize = 128;
/// An upper limit on the ratio of the rows of the last pass to the rows of the pass before it. [`strides`] rounds the ratio up to a prime,
/// which may exceed this limit.
const LAST_RATIO: usize = 24;

/// Sizes of one search.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Sizes {
    pub(crate) dim: usize,
    pub(crate) k: usize,
    /// Queries per block.
    pub(crate) queries: usize,
    /// Rows per product, a multiple of 4.
    pub(crate) rows: usize,
    /// Entries of a candidate list.
    pub(crate) capacity: usize,
}

impl Sizes {
    /// The sizes for `queries` queries and `rows` rows. If there is too little memory, the caller halves them.
    pub(crate) fn new(dim: usize, k: usize, queries: usize, rows: usize) -> Self {
        let capacity = if k <= 32 { 2048 } else { 4096 };
        let rows = ROWS.min(rows.next_multiple_of(4));
        Self { dim, k, queries: QUERIES.min(queries.max(1)), rows, capacity }
    }

    /// Sizes that need about half of the memory, or `None` if the blocks are already small.
    pub(crate) fn halved(self) -> Option<Self> {
        let rows = (self.rows / 2).next_multiple_of(4).max(1024).min(self.rows);
        (self.queries > MIN_QUERIES).then_some(Self { queries: self.queries / 2, rows, ..self })
    }

    /// The memory that a search needs in addition to the rows, in bytes.
    pub(crate) fn bytes(self) -> usize {
        // There are two buffers for queries in `f32`: for this block and for the next one.
        let query =
            8 * self.dim + 2 * width(self.dim) + 16 + 16 + 12 * self.capacity + 2 * self.rows + 12 * self.k;
        let points = Images::bytes(self.dim) + self.queries * (projection::POINT_BYTES + 8);
        // The last term is for memory that cuBLAS allocates.
        self.queries * query + points + (64 << 20)
    }
}

/// The stride of each pass: a pass reads every `stride`-th row. All rows of the first pass fit into the candidate list.
///
/// Strides are prime, because classes may alternate in the order of the rows. Other strides could read rows of some classes only.
pub(crate) fn strides(rows: usize, k: usize, capacity: usize) -> Vec<usize> {
    let first = prime(rows.div_ceil(capacity));
    // With this ratio, the expected number of candidates is 0.4 of the capacity.
    let ratio = (2 * capacity / (5 * k)).max(2);
    let mut strides = vec![1];
    let mut stride = prime(ratio.min(LAST_RATIO));
    while stride < first {
        strides.push(stride);
        stride = prime(stride * ratio);
    }
    if first > 1 {
        strides.push(first);
    }
    strides.reverse();
    strides
}

/// The smallest prime that is at least `n`; 1 if `n` is at most 1.
fn prime(n: usize) -> usize {
    let is_prime = |n: usize| (2..).take_while(|d| d * d <= n).all(|d| !n.is_multiple_of(d));
    (n.max(1)..).find(|&n| is_prime(n)).unwrap_or(n)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passes_end_with_all_rows_and_candidates_fit_into_their_lists() {
        for (rows, k) in [
            (1, 1),
            (2048, 20),
            (2049, 20),
            (50_000, 20),
            (1_281_167, 20),
            (1_281_167, 1024),
            (4_000_000_000, 1),
        ] {
            let capacity = Sizes::new(8, k, 1, rows).capacity;
            let strides = strides(rows, k, capacity);
            assert_eq!(strides.last(), Some(&1), "{rows} rows");
            assert!(rows.div_ceil(strides[0]) <= capacity, "{rows} rows: {strides:?}");
            for pair in strides.windows(2) {
                assert!(
                    pair[0] > pair[1] && pair[0].div_ceil(pair[1]) * k <= capacity,
                    "{rows} rows: {strides:?}"
                );
            }
        }
    }

    #[test]
    fn a_column_of_a_query_is_stored_twice_in_f32_and_once_in_f16() {
        let bytes = |dim: usize| Sizes::new(dim, 20, 1000, 8192).bytes() - Images::bytes(dim);
        assert_eq!(bytes(32) - bytes(16), 1000 * 16 * (4 + 4 + 2));
    }

    #[test]
    fn halved_blocks_end_at_a_minimum() {
        let mut sizes = Sizes::new(2048, 20, 50_000, 1_281_167);
        assert_eq!((sizes.queries, sizes.rows, sizes.capacity), (8192, 8192, 2048));
        while let Some(half) = sizes.halved() {
            assert!(half.bytes() < sizes.bytes() && half.rows % 4 == 0);
            sizes = half;
        }
        assert!(sizes.queries <= MIN_QUERIES && sizes.bytes() < 120 << 20);
    }
}
