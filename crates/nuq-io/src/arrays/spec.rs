//! Which array of which file: `path` or `path:name`.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// A file and, where it holds several arrays, the name of one.
///
/// ```
/// use nuq_io::ArraySpec;
/// let spec: ArraySpec = "train.npz:embeddings".parse()?;
/// assert_eq!((spec.path.to_str(), spec.name.as_deref()), (Some("train.npz"), Some("embeddings")));
/// # Ok::<(), std::convert::Infallible>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArraySpec {
    /// The file.
    pub path: PathBuf,
    /// The array, tensor or column.
    pub name: Option<String>,
}

/// Endings that a name may follow.
const ENDINGS: [&str; 6] = [".npy", ".npz", ".safetensors", ".csv", ".tsv", ".parquet"];

impl FromStr for ArraySpec {
    type Err = std::convert::Infallible;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let whole = Self { path: text.into(), name: None };
        if Path::new(text).exists() {
            return Ok(whole);
        }
        let split = ENDINGS.iter().find_map(|ending| {
            let at = text.to_ascii_lowercase().rfind(&format!("{ending}:"))? + ending.len();
            Some((&text[..at], &text[at + 1..]))
        });
        Ok(match split {
            Some((path, name)) => Self { path: path.into(), name: Some(name.to_owned()) },
            None => whole,
        })
    }
}

impl ArraySpec {
    /// Another array of the same file.
    pub(crate) fn named(&self, name: &str) -> Self {
        Self { path: self.path.clone(), name: Some(name.to_owned()) }
    }

    /// The columns that `file.csv:-a,b` leaves out of a table of embeddings.
    pub(crate) fn left_out(&self) -> Option<Vec<String>> {
        let names = self.name.as_ref()?.strip_prefix('-')?;
        Some(names.split(',').map(|name| name.trim().to_owned()).collect())
    }

    /// Whether both are in one file, under whatever path.
    pub(crate) fn is_beside(&self, other: &Self) -> bool {
        match (self.path.canonicalize(), other.path.canonicalize()) {
            (Ok(one), Ok(other)) => one == other,
            _ => false,
        }
    }
}

impl fmt::Display for ArraySpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.name {
            Some(name) => write!(f, "{}:{name}", self.path.display()),
            None => write!(f, "{}", self.path.display()),
        }
    }
}
