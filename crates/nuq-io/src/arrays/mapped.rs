//! All values of an array: used in place in the mapped file if it stores them uncompressed as `f32` in C order, otherwise read into
//! memory.

use std::fs::File;
use std::sync::Arc;
use std::time::SystemTime;

use nuq::nuq_neighbors::SharedSlice;

use super::element::Element;
use super::source::Source;
use super::{ArraySpec, EmbeddingsFile, RowSource, StoredArray};
use crate::Error;
use crate::file_bytes::FileBytes;
use crate::mapped_array::MappedArray;

/// Smaller arrays are read: their copy takes little memory, and later changes of the file do not affect it.
const MIN_BYTES: usize = 64 << 20;

/// The values of all rows of a file. The result of [`EmbeddingsFile::map`].
pub struct AllValues {
    /// The values in row-major order. They may be NaN or infinite.
    pub values: SharedSlice<'static, f32>,
    /// The file that holds the values; `None` if they are in memory.
    pub mapped: Option<MappedInput>,
}

/// A file whose values are used in place. It must not change while they are in use.
#[derive(Debug)]
pub struct MappedInput {
    spec: ArraySpec,
    file: File,
    state: FileState,
}

/// Length and time of the last change of a file. The time is `None` if the system does not report it.
#[derive(Debug, PartialEq, Eq)]
struct FileState {
    len: u64,
    modified: Option<SystemTime>,
}

impl FileState {
    fn of(spec: &ArraySpec, file: &File) -> Result<Self, Error> {
        let metadata = file.metadata().map_err(|source| Error::Read { path: spec.path.clone(), source })?;
        Ok(Self { len: metadata.len(), modified: metadata.modified().ok() })
    }
}

impl MappedInput {
    /// Verifies that the file was not written since it was mapped. Call it before a result that was computed from the
    /// values is stored. Replacing the file by another one of the same name does not change the mapped values and is
    /// no error.
    ///
    /// # Errors
    /// [`Error::BadFile`] if the length or the time of the last change differs, [`Error::Read`] if the system cannot report them.
    pub fn verify_unchanged(&self) -> Result<(), Error> {
        if FileState::of(&self.spec, &self.file)? == self.state {
            return Ok(());
        }
        let problem = "it was changed while it was in use: run the command again".to_owned();
        Err(Error::BadFile { spec: self.spec.clone(), problem })
    }
}

impl EmbeddingsFile {
    /// Maps the file if it stores the values uncompressed as `f32` in C order, at an offset that is a multiple of 4 bytes, and if the
    /// array has at least 64 MiB. Otherwise all rows are read. Pages of a mapped file are not copied, and the system can reclaim them.
    ///
    /// A value is read from the file when it is used. If another process shortens the file meanwhile, the operating
    /// system ends this process; see [`guard_mapped_files`](crate::guard_mapped_files).
    ///
    /// # Errors
    /// The errors of [`values`](Self::values).
    pub fn map(self) -> Result<AllValues, Error> {
        if let RowSource::Stored(stored) = &self.source
            && let Some(mapped) = stored.map(&self.spec)?
        {
            return Ok(mapped);
        }
        Ok(AllValues { values: self.into_values()?.into(), mapped: None })
    }
}

impl StoredArray {
    /// The values in the mapped file; `None` if the file stores them in another form, or if the array is small.
    fn map(&self, spec: &ArraySpec) -> Result<Option<AllValues>, Error> {
        let Source::File(file, offset) = &self.source else { return Ok(None) };
        let len = self.len() * self.element.size();
        self.source.verify_length(spec, len)?;
        let is_in_place = self.element == Element::F32 && !self.is_fortran && offset.is_multiple_of(4);
        let Some(start) = usize::try_from(*offset).ok().filter(|_| is_in_place && len >= MIN_BYTES) else {
            return Ok(None);
        };
        let failed = |source| Error::Read { path: spec.path.clone(), source };
        let file = file.try_clone().map_err(failed)?;
        let state = FileState::of(spec, &file)?;
        let map = FileBytes::map(&file, &spec.path).map_err(failed)?;
        if map.len() < start + len {
            return Err(super::source::truncated(spec));
        }
        let values = MappedArray::<f32>::new(Arc::new(map), start..start + len);
        let mapped = Some(MappedInput { spec: spec.clone(), file, state });
        Ok(Some(AllValues { values: SharedSlice::shared(Arc::new(values)), mapped }))
    }
}
