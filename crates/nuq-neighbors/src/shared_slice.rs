//! Numbers that may lie in the caller's memory, in ours, or in a mapped file.

use std::ops::Deref;
use std::sync::Arc;

/// A slice that is borrowed, owned or shared; a clone costs nothing.
///
/// ```
/// use nuq_neighbors::SharedSlice;
/// let mut ours = SharedSlice::from(vec![1u32, 2]);
/// let theirs = ours.clone();
/// ours.to_mut().push(3);
/// assert_eq!((&ours[..], &theirs[..]), (&[1, 2, 3][..], &[1, 2][..]));
/// ```
#[derive(Clone)]
pub struct SharedSlice<'a, T>(Kept<'a, T>);

#[derive(Clone)]
enum Kept<'a, T> {
    Borrowed(&'a [T]),
    Owned(Arc<Vec<T>>),
    Shared(Arc<dyn AsRef<[T]> + Send + Sync + 'a>),
}

impl<'a, T> SharedSlice<'a, T> {
    /// Looks at the caller's slice.
    pub fn borrowed(slice: &'a [T]) -> Self {
        Self(Kept::Borrowed(slice))
    }

    /// Shares what others hold too: a memory map, an array of another language.
    pub fn shared(values: Arc<dyn AsRef<[T]> + Send + Sync + 'a>) -> Self {
        Self(Kept::Shared(values))
    }
}

impl<T: Clone> SharedSlice<'_, T> {
    /// The values for writing: copied first, unless they are ours alone.
    pub fn to_mut(&mut self) -> &mut Vec<T> {
        if !matches!(self.0, Kept::Owned(_)) {
            self.0 = Kept::Owned(Arc::new(self.to_vec()));
        }
        match &mut self.0 {
            Kept::Owned(values) => Arc::make_mut(values),
            _ => unreachable!("made ours above"),
        }
    }
}

impl<T> Deref for SharedSlice<'_, T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        match &self.0 {
            Kept::Borrowed(slice) => slice,
            Kept::Owned(values) => values,
            Kept::Shared(values) => (**values).as_ref(),
        }
    }
}

impl<T> From<Vec<T>> for SharedSlice<'_, T> {
    fn from(values: Vec<T>) -> Self {
        Self(Kept::Owned(Arc::new(values)))
    }
}
