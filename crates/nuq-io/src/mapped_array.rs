//! An array in the bytes of a file, which are mapped or copied into memory.

use std::marker::PhantomData;
use std::ops::Range;
use std::sync::Arc;

use bytemuck::AnyBitPattern;

use crate::file_bytes::FileBytes;

/// An array in the bytes of a file, which are mapped or copied into memory. It stores its byte range, so an access to an
/// array of a model file does not search the table of sections of the file.
pub(crate) struct MappedArray<T> {
    map: Arc<FileBytes>,
    /// The range is aligned for `T`, and its length is a multiple of the size of `T`.
    bytes: Range<usize>,
    element: PhantomData<fn() -> T>,
}

impl<T: AnyBitPattern> MappedArray<T> {
    /// An array in some bytes of a map. The bytes must be aligned for `T`, and their number must be a multiple of the
    /// size of `T`.
    pub(crate) fn new(map: Arc<FileBytes>, bytes: Range<usize>) -> Self {
        Self { map, bytes, element: PhantomData }
    }
}

impl<T: AnyBitPattern> AsRef<[T]> for MappedArray<T> {
    fn as_ref(&self) -> &[T] {
        bytemuck::cast_slice(&self.map[self.bytes.clone()])
    }
}
