//! A slice in the caller's memory, in owned memory, in a mapped file or in the memory of a device.

use std::any::Any;
use std::ops::Deref;
use std::sync::Arc;

use crate::Error;

/// Values in the memory of a device, such as a GPU. They are copied to the host when they are first read there.
pub trait DeviceSlice<T>: Send + Sync {
    /// The number of values.
    fn len(&self) -> usize;

    /// Whether there is no value.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The values on the host.
    ///
    /// # Errors
    /// [`Error::Device`] when they cannot be copied.
    fn on_host(&self) -> Result<&[T], Error>;

    /// Copies the values to the host and frees the memory of the device, unless a search uses it.
    ///
    /// # Errors
    /// The errors of [`on_host`](Self::on_host).
    fn release(&self) -> Result<(), Error>;

    /// This value as [`Any`], from which the backend of the device recovers its own type.
    fn as_any(&self) -> &dyn Any;
}

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
    Device(Arc<dyn DeviceSlice<T> + 'a>),
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

    /// Values in the memory of a device.
    ///
    /// Reading them panics when they cannot be copied to the host; [`load`](Self::load) returns an error instead.
    #[must_use]
    pub fn on_device(values: Arc<dyn DeviceSlice<T> + 'a>) -> Self {
        Self(Storage::Device(values))
    }

    /// The values in the memory of a device, if they are there.
    #[must_use]
    pub fn device_slice(&self) -> Option<&(dyn DeviceSlice<T> + 'a)> {
        match &self.0 {
            Storage::Device(values) => Some(&**values),
            _ => None,
        }
    }

    /// The number of values. Values on a device are not copied for this call.
    #[must_use]
    pub fn len(&self) -> usize {
        self.device_slice().map_or_else(|| (**self).len(), |values| values.len())
    }

    /// Whether there is no value.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Copies values on a device to the host, unless a copy is already there.
    ///
    /// # Errors
    /// [`Error::Device`].
    pub fn load(&self) -> Result<(), Error> {
        self.device_slice().map_or(Ok(()), |values| values.on_host().map(drop))
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
            Storage::Device(values) => values.on_host().unwrap_or_else(|error| panic!("{error}")),
        }
    }
}

impl<T> From<Vec<T>> for SharedSlice<'_, T> {
    fn from(values: Vec<T>) -> Self {
        Self(Storage::Owned(Arc::new(values)))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::OnceLock;

    use super::*;

    /// Stands for values on a device. It keeps the copy of the first read; without values, a read fails.
    struct Remote {
        values: Option<Vec<f32>>,
        copy: OnceLock<Vec<f32>>,
    }

    impl DeviceSlice<f32> for Remote {
        fn len(&self) -> usize {
            2
        }

        fn on_host(&self) -> Result<&[f32], Error> {
            let values = self.values.as_ref().ok_or_else(|| Error::Device { problem: "lost".to_owned() })?;
            Ok(self.copy.get_or_init(|| values.clone()))
        }

        fn release(&self) -> Result<(), Error> {
            self.on_host().map(drop)
        }

        fn as_any(&self) -> &dyn Any {
            self
        }
    }

    fn is_copied(slice: &SharedSlice<'_, f32>) -> bool {
        let remote = slice.device_slice().and_then(|values| values.as_any().downcast_ref::<Remote>());
        remote.is_some_and(|remote| remote.copy.get().is_some())
    }

    #[test]
    fn values_on_a_device_are_copied_when_they_are_read_or_changed() {
        let remote = Remote { values: Some(vec![1.0, 2.0]), copy: OnceLock::new() };
        let slice = SharedSlice::on_device(Arc::new(remote));
        assert!(slice.len() == 2 && !slice.is_empty() && !is_copied(&slice));
        assert_eq!(&slice[..], [1.0, 2.0]);
        assert!(is_copied(&slice));
        let mut changed = slice.clone();
        changed.to_mut().push(3.0);
        assert!(changed.device_slice().is_none() && slice.device_slice().is_some());
        assert_eq!((changed.len(), slice.len()), (3, 2));
    }

    #[test]
    fn a_lost_device_is_an_error_of_load() {
        let remote = Remote { values: None, copy: OnceLock::new() };
        let slice: SharedSlice<'_, f32> = SharedSlice::on_device(Arc::new(remote));
        assert_eq!(slice.load(), Err(Error::Device { problem: "lost".to_owned() }));
        assert_eq!(SharedSlice::from(vec![1]).load(), Ok(()));
    }
}
