//! A slice in the caller's memory, in owned memory or in a mapped file.

use std::ops::Deref;
use std::sync::Arc;

/// A borrowed, owned or shared slice with cheap clones and copy-on-write updates.
///
/// ```
/// use nuq_neighbors::SharedSlice;
/// let mut updated = SharedSlice::from(vec![1u32, 2]);
/// let original = updated.clone();
/// updated.to_mut().push(3);
/// assert_eq!((&updated[..], &original[..]), (&[1, 2, 3][..], &[1, 2][..]));
/// ```
#[derive(Clone)]
pub struct SharedSlice<'a, T>(Storage<'a, T>);

#[derive(Clone)]
enum Storage<'a, T> {
    Borrowed(&'a [T]),
    Owned(Arc<Vec<T>>),
    Shared(Arc<dyn AsRef<[T]> + Send + Sync + 'a>),
}

impl<'a, T> SharedSlice<'a, T> {
    /// Borrows the caller's slice.
    #[must_use]
    pub fn borrowed(slice: &'a [T]) -> Self {
        Self(Storage::Borrowed(slice))
    }

    /// Shares memory with other owners, for example a memory map or an array of another language.
    #[must_use]
    pub fn shared(values: Arc<dyn AsRef<[T]> + Send + Sync + 'a>) -> Self {
        Self(Storage::Shared(values))
    }
}

impl<T: Clone> SharedSlice<'_, T> {
    /// The values for writing. They are copied first unless this slice is their only owner.
    pub fn to_mut(&mut self) -> &mut Vec<T> {
        if !matches!(self.0, Storage::Owned(_)) {
            self.0 = Storage::Owned(Arc::new(self.to_vec()));
        }
        match &mut self.0 {
            Storage::Owned(values) => Arc::make_mut(values),
            _ => unreachable!("the values were copied above"),
        }
    }
}

impl<T> Deref for SharedSlice<'_, T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        match &self.0 {
            Storage::Borrowed(slice) => slice,
            Storage::Owned(values) => values,
            Storage::Shared(values) => (**values).as_ref(),
        }
    }
}

impl<T> From<Vec<T>> for SharedSlice<'_, T> {
    fn from(values: Vec<T>) -> Self {
        Self(Storage::Owned(Arc::new(values)))
    }
}
