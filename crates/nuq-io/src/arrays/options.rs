//! Options for reading arrays: format, header, expected numbers of rows and columns.

use nuq::{Embeddings, Label};

use super::{ArraySpec, EmbeddingsFile, Format, Header};
use crate::Error;

/// Options for reading arrays.
///
/// ```
/// use nuq_io::{ArraySpec, Header, ReadOptions};
/// let path = std::env::temp_dir().join(format!("nuq-header-{}.csv", std::process::id()));
/// std::fs::write(&path, "1,2,3\n0.5,0.5,0.5\n")?;
/// let spec = ArraySpec { path: path.clone(), name: None };
/// assert_eq!(ReadOptions::new().header(Header::Yes).embeddings(&spec, &[])?.len(), 1);
/// assert_eq!(ReadOptions::new().header(Header::No).embeddings(&spec, &[])?.len(), 2);
/// assert!(ReadOptions::new().embeddings(&spec, &[]).is_err());
/// # std::fs::remove_file(&path)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[must_use]
pub struct ReadOptions {
    pub(super) header: Header,
    pub(super) format: Option<Format>,
    pub(super) rows: Option<usize>,
    pub(super) columns: Option<usize>,
    pub(super) in_blocks: bool,
}

impl ReadOptions {
    /// The defaults: formats and headers of tables are detected.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets whether the first line of a csv or tsv file is a header.
    pub fn header(self, header: Header) -> Self {
        Self { header, ..self }
    }

    /// Sets the format of the file. By default, the format is recognized by the contents and the name.
    pub fn format(self, format: Format) -> Self {
        Self { format: Some(format), ..self }
    }

    /// Sets the expected number of rows. Another number gives [`Error::RowCount`]. If the format declares the number
    /// of rows, the error is returned before values are read.
    pub fn rows(self, rows: usize) -> Self {
        Self { rows: Some(rows), ..self }
    }

    /// Sets the expected number of columns. Another number gives [`Error::ColumnCount`], before all rows are read.
    pub fn columns(self, columns: usize) -> Self {
        Self { columns: Some(columns), ..self }
    }

    /// Reads csv and tsv files in blocks, like other formats, instead of copying them into memory. Every line is parsed twice:
    /// when the file is opened, and when its block is read. Tables that cannot be opened again, from a pipe or
    /// standard input, are read into memory nevertheless.
    pub fn in_blocks(self) -> Self {
        Self { in_blocks: true, ..self }
    }

    /// Opens a file as [`EmbeddingsFile::open_excluding`] does, with these options.
    ///
    /// # Errors
    /// The errors of [`EmbeddingsFile::open_excluding`].
    pub fn embeddings(self, spec: &ArraySpec, others: &[&ArraySpec]) -> Result<EmbeddingsFile, Error> {
        EmbeddingsFile::open_with(self, spec, others, &[])
    }

    /// Opens a file as [`embeddings`](Self::embeddings) does. The columns `kept` of the table are not coordinates;
    /// [`EmbeddingsFile::kept`] reads them.
    ///
    /// # Errors
    /// The errors of [`EmbeddingsFile::open_excluding`], and an error if the file has no such columns.
    ///
    /// ```
    /// use nuq_io::{ArraySpec, KeptColumn, ReadOptions};
    /// let path = std::env::temp_dir().join(format!("nuq-kept-{}.csv", std::process::id()));
    /// std::fs::write(&path, "id,x\nimage 7,0.5\nimage 9,1.5\n")?;
    /// let spec = ArraySpec { path, name: None };
    /// let mut file = ReadOptions::new().embeddings_keeping(&spec, &[], &["id".to_owned()])?;
    /// assert_eq!(file.values(1..2)?, [1.5]);
    /// assert_eq!(file.kept(1..2)?, [KeptColumn::Strings(vec![Some("image 9".to_owned())])]);
    /// # std::fs::remove_file(&spec.path)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn embeddings_keeping(
        self,
        spec: &ArraySpec,
        others: &[&ArraySpec],
        kept: &[String],
    ) -> Result<EmbeddingsFile, Error> {
        EmbeddingsFile::open_with(self, spec, others, kept)
    }

    /// The names of the columns of a table, or of the arrays of an npz or safetensors file with several arrays. Empty if there are no
    /// names, if the file holds a single array, or if the file cannot be read.
    #[must_use]
    pub fn names(self, spec: &ArraySpec) -> Vec<String> {
        super::names_with(self, spec)
    }

    /// Reads labels as [`read_labels`](crate::read_labels) does, with these options.
    ///
    /// # Errors
    /// The errors of [`read_labels`](crate::read_labels).
    pub fn labels(self, spec: &ArraySpec) -> Result<Vec<Label>, Error> {
        super::read_labels_with(self, spec)
    }

    /// Reads targets as [`read_targets`](crate::read_targets) does, with these options.
    ///
    /// # Errors
    /// The errors of [`read_targets`](crate::read_targets).
    pub fn targets(self, spec: &ArraySpec) -> Result<Vec<f64>, Error> {
        super::read_targets_with(self, spec)
    }

    /// Reads the logits of ensemble members as [`read_members`](crate::read_members) does, with these options. The expected numbers of rows
    /// and columns apply to each member.
    ///
    /// # Errors
    /// The errors of [`read_members`](crate::read_members).
    pub fn members(self, spec: &ArraySpec) -> Result<Vec<Embeddings<'static>>, Error> {
        super::members::read_members_with(self, spec)
    }

    pub(super) fn check_rows(self, spec: &ArraySpec, got: usize) -> Result<(), Error> {
        match self.rows {
            Some(expected) if got != expected => {
                Err(Error::RowCount { spec: spec.clone(), got: Some(got), expected })
            }
            _ => Ok(()),
        }
    }

    pub(super) fn check_columns(self, spec: &ArraySpec, got: usize) -> Result<(), Error> {
        match self.columns {
            Some(expected) if got != expected => {
                Err(Error::ColumnCount { spec: spec.clone(), got, expected })
            }
            _ => Ok(()),
        }
    }
}
