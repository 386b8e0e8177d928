//! Where a walk measures: rows in one of three forms, and the squared distances between them.
//!
//! | form | bytes a coordinate | who walks on it |
//! | --- | --- | --- |
//! | [`CodeBlock`] of 7-bit codes | 1 | rows kept in `f32`, where [codes](super::codes) tell neighbors apart |
//! | [`Half`] | 2 | rows kept in `f16` |
//! | `f32` | 4 | rows that codes do not tell apart, and queries beyond their reach |
//!
//! Distances of the walk only steer it: what is returned is measured again, in `f64`.

use half::f16;

use super::kernels;

/// Sixty-four coordinates of 7 bits, a cache line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C, align(64))]
pub struct CodeBlock(pub [u8; 64]);

/// The bits of an IEEE half: ordinary memory to files and maps.
pub(crate) type Half = u16;

/// Squared distances of one row to several others: the query, all rows, which of them, and where the answers go.
pub(super) type DistanceKernel<T> = fn(&[T], &[T], &[u32], &mut [f32]);

/// A form in which rows can be kept for walking.
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

/// Rows of one form, `width` elements each.
#[derive(Clone, Copy)]
pub(super) struct Vectors<'s, T> {
    rows: &'s [T],
    width: usize,
    kernel: DistanceKernel<T>,
}

impl<'s, T: Element> Vectors<'s, T> {
    pub(super) fn new(rows: &'s [T], width: usize) -> Self {
        Self { rows, width, kernel: T::kernel() }
    }

    pub(super) fn row(&self, id: u32) -> &'s [T] {
        &self.rows[id as usize * self.width..][..self.width]
    }

    /// The squared distances of `query` to the rows `ids`.
    pub(super) fn measure(&self, query: &[T], ids: &[u32], distances: &mut [f32]) {
        (self.kernel)(query, self.rows, ids, distances);
    }

    /// The squared distance of `query` to one row.
    pub(super) fn distance(&self, query: &[T], id: u32) -> f32 {
        let mut distance = [0.0];
        self.measure(query, &[id], &mut distance);
        distance[0]
    }

    /// Asks for the first lines of a row before they are needed.
    #[inline]
    pub(super) fn prefetch(&self, id: u32) {
        kernels::prefetch(self.row(id));
    }
}

/// The rows of an index in the form that its walks read.
#[derive(Clone, Copy)]
pub(super) enum AnyVectors<'s> {
    Codes(Vectors<'s, CodeBlock>),
    Halves(Vectors<'s, Half>),
    Floats(Vectors<'s, f32>),
}

/// Does the same in whatever form the rows are.
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

/// A row rounded to halves; `None` when a coordinate is beyond their range.
pub(super) fn halves(values: &[f32]) -> Option<Vec<Half>> {
    values.iter().map(|&v| Some(f16::from_f32(v)).filter(|h| h.is_finite()).map(f16::to_bits)).collect()
}
