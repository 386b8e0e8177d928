//! Whether the first line of a table is a header, and how tables are read.

use nuq::Label;

use super::{ArraySpec, EmbeddingsFile, Format};
use crate::Error;

/// Whether the first line of a csv or tsv file holds the names of the columns. Other formats ignore it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Header {
    /// Decided from the contents; an error if both readings are plausible.
    #[default]
    Auto,
    /// The first line is a header.
    Yes,
    /// The first line is a row.
    No,
}

nuq::nuq_neighbors::choices!(Header, "header", { Auto => "auto", Yes => "yes", No => "no" });

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
}

impl ReadOptions {
    /// The defaults: formats and headers of tables are detected.
    pub fn new() -> Self {
        Self::default()
    }

    /// Whether the first line of a csv or tsv file is a header.
    pub fn header(self, header: Header) -> Self {
        Self { header, ..self }
    }

    /// The format of the file. Without it, the format is recognized by the contents and the name.
    pub fn format(self, format: Format) -> Self {
        Self { format: Some(format), ..self }
    }

    /// As [`EmbeddingsFile::open_excluding`].
    ///
    /// # Errors
    /// As [`EmbeddingsFile::open_excluding`].
    pub fn embeddings(self, spec: &ArraySpec, others: &[&ArraySpec]) -> Result<EmbeddingsFile, Error> {
        EmbeddingsFile::open_with(self, spec, others)
    }

    /// As [`read_labels`](crate::read_labels).
    ///
    /// # Errors
    /// As [`read_labels`](crate::read_labels).
    pub fn labels(self, spec: &ArraySpec) -> Result<Vec<Label>, Error> {
        super::read_labels_with(self, spec)
    }

    /// As [`read_targets`](crate::read_targets).
    ///
    /// # Errors
    /// As [`read_targets`](crate::read_targets).
    pub fn targets(self, spec: &ArraySpec) -> Result<Vec<f64>, Error> {
        super::read_targets_with(self, spec)
    }
}
