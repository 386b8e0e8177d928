//! An array in a mapped file.

use std::marker::PhantomData;
use std::ops::Range;
use std::sync::Arc;

use bytemuck::AnyBitPattern;

use crate::file_bytes::FileBytes;

/// An array in a mapped file. It stores its byte range, so that an access to a row does not search for it.
pub(crate) struct MappedArray<T> {
    map: Arc<FileBytes>,
    /// Aligned for `T` and a multiple of its size.
    bytes: Range<usize>,
    element: PhantomData<fn() -> T>,
}

impl<T: AnyBitPattern> MappedArray<T> {
    /// An array in some bytes of a map. They must be aligned for `T`, and their number a multiple of its size.
    pub(crate) fn new(map: Arc<FileBytes>, bytes: Range<usize>) -> Self {
        Self { map, bytes, element: PhantomData }
    }
}

impl<T: AnyBitPattern> AsRef<[T]> for MappedArray<T> {
    fn as_ref(&self) -> &[T] {
        bytemuck::cast_slice(&self.map[self.bytes.clone()])
    }
}
