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

/// Endings of files that hold several arrays: a name may follow them.
const SEVERAL: [&str; 4] = [".npz", ".safetensors", ".csv", ".tsv"];

impl FromStr for ArraySpec {
    type Err = std::convert::Infallible;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let whole = Self { path: text.into(), name: None };
        if Path::new(text).exists() {
            return Ok(whole);
        }
        let split = SEVERAL.iter().find_map(|ending| {
            let at = text.to_ascii_lowercase().rfind(&format!("{ending}:"))? + ending.len();
            Some((&text[..at], &text[at + 1..]))
        });
        Ok(match split {
            Some((path, name)) => Self { path: path.into(), name: Some(name.to_owned()) },
            None => whole,
        })
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
