//! The vectors that a walk (a search in the graph) reads, in one of three element types, and their squared distances.
//!
//! | element | bytes per coordinate | use |
//! | --- | --- | --- |
//! | [`CodeBlock`] of 7-bit codes | 1 | scaled rows and rows stored in `f32`, when [codes](super::codes) preserve their neighbors |
//! | [`Half`] | 2 | rows stored in `f16` without a scale |
//! | `f32` | 4 | other rows, and queries outside the range of the codes |
//!
//! Scaled rows are divided by a scale, one divisor per column.
//!
//! These distances only guide the walk. Returned rows are ranked by distances in `f64`.

use half::f16;

use super::kernels;

/// Sixty-four codes of one byte: one cache line. The codes of a graph index have 7 bits, those of exact search have 8 bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C, align(64))]
pub struct CodeBlock(pub [u8; 64]);

/// The bits of an IEEE half, a plain integer for files and memory maps.
pub(crate) type Half = u16;

/// Computes the squared distances of a query to some rows. The arguments are the query, all rows, the ids of the rows to
/// measure, and the output, one distance per id.
pub(super) type DistanceKernel<T> = fn(&[T], &[T], &[u32], &mut [f32]);

/// An element type of vectors.
pub(super) trait Element: Copy + Send + Sync + 'static {
    /// The fastest kernel on this processor.
    fn kernel() -> DistanceKernel<Self>;
}

impl Element for CodeBlock {
    fn kernel() -> DistanceKernel<Self> {
        kernels::code_kernel()
    }
}

impl Element for Half {
    fn kernel() -> DistanceKernel<Self> {
        kernels::half_kernel()
    }
}

impl Element for f32 {
    fn kernel() -> DistanceKernel<Self> {
        kernels::float_kernel()
    }
}

/// Vectors of one element type, `width` elements each.
#[derive(Clone, Copy)]
pub(super) struct Vectors<'v, T> {
    rows: &'v [T],
    width: usize,
    kernel: DistanceKernel<T>,
}

impl<'v, T: Element> Vectors<'v, T> {
    pub(super) fn new(rows: &'v [T], width: usize) -> Self {
        Self { rows, width, kernel: T::kernel() }
    }

    pub(super) fn row(&self, id: u32) -> &'v [T] {
        &self.rows[id as usize * self.width..][..self.width]
    }

    /// Computes the squared distances of `query` to the rows `ids`.
    pub(super) fn measure(&self, query: &[T], ids: &[u32], distances: &mut [f32]) {
        (self.kernel)(query, self.rows, ids, distances);
    }

    /// The squared distance of `query` to one row.
    pub(super) fn distance(&self, query: &[T], id: u32) -> f32 {
        let mut distance = [0.0];
        self.measure(query, &[id], &mut distance);
        distance[0]
    }

    /// Prefetches the first cache lines of a row.
    #[inline]
    pub(super) fn prefetch(&self, id: u32) {
        kernels::prefetch(self.row(id));
    }
}

/// Vectors of any element type.
#[derive(Clone, Copy)]
pub(super) enum AnyVectors<'v> {
    Codes(Vectors<'v, CodeBlock>),
    Halves(Vectors<'v, Half>),
    Floats(Vectors<'v, f32>),
}

/// Evaluates an expression with the vectors of the actual element type.
macro_rules! with_vectors {
    ($any:expr, $vectors:ident => $action:expr) => {
        match $any {
            $crate::hnsw::vectors::AnyVectors::Codes($vectors) => $action,
            $crate::hnsw::vectors::AnyVectors::Halves($vectors) => $action,
            $crate::hnsw::vectors::AnyVectors::Floats($vectors) => $action,
        }
    };
}
pub(super) use with_vectors;

/// Coordinates rounded to halves; `None` when a coordinate is outside the range of `f16`.
pub(super) fn halves(values: &[f32]) -> Option<Vec<Half>> {
    values.iter().map(|&v| Some(f16::from_f32(v)).filter(|h| h.is_finite()).map(f16::to_bits)).collect()
}
