//! Reference to an array in a file: `path` or `path:name`. The path `-` is standard input.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// Reference to an array in a file: the path, and the name of the array if the file holds several. The path `-` is standard input.
///
/// ```
/// use nuq_io::ArraySpec;
/// let spec: ArraySpec = "train.npz:embeddings".parse()?;
/// assert_eq!((spec.path.to_str(), spec.name.as_deref()), (Some("train.npz"), Some("embeddings")));
/// # Ok::<(), std::convert::Infallible>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArraySpec {
    /// Path of the file.
    pub path: PathBuf,
    /// Name of the array, tensor or column, if one was given.
    pub name: Option<String>,
}

/// File extensions after which `:name` is recognized.
const EXTENSIONS: [&str; 9] =
    [".npy", ".npz", ".safetensors", ".csv", ".tsv", ".txt", ".parquet", ".gz", ".zst"];

const STDIN: &str = "-";

impl FromStr for ArraySpec {
    type Err = std::convert::Infallible;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let whole = Self { path: text.into(), name: None };
        // The path of an existing file may contain a colon.
        if Path::new(text).exists() {
            return Ok(whole);
        }
        if let Some(name) = text.strip_prefix("-:") {
            return Ok(Self { path: STDIN.into(), name: Some(name.to_owned()) });
        }
        let split = EXTENSIONS.iter().find_map(|extension| {
            let at = text.to_ascii_lowercase().rfind(&format!("{extension}:"))? + extension.len();
            Some((&text[..at], &text[at + 1..]))
        });
        Ok(match split {
            Some((path, name)) => Self { path: path.into(), name: Some(name.to_owned()) },
            None => whole,
        })
    }
}

impl ArraySpec {
    /// Reference to the array `name` in the same file.
    pub(crate) fn named(&self, name: &str) -> Self {
        Self { path: self.path.clone(), name: Some(name.to_owned()) }
    }

    /// Whether the array is read from standard input.
    #[must_use]
    pub fn is_stdin(&self) -> bool {
        self.path.as_os_str() == STDIN
    }

    /// The name of the file in messages.
    pub(crate) fn file_name(&self) -> String {
        if self.is_stdin() { "standard input".to_owned() } else { self.path.display().to_string() }
    }

    /// The file extension in lowercase. For a compressed file, it is the extension before `.gz` or `.zst`.
    pub(crate) fn extension(&self) -> Option<String> {
        let extension =
            |path: &Path| path.extension().map(|extension| extension.to_string_lossy().to_lowercase());
        match extension(&self.path).as_deref() {
            Some("gz" | "zst") => extension(Path::new(self.path.file_stem()?)),
            other => other.map(str::to_owned),
        }
    }

    /// Names of the columns that are not coordinates: `a` and `b` in `file.csv:-a,b`.
    pub(crate) fn excluded_columns(&self) -> Option<Vec<String>> {
        Some(split_names(self.name.as_ref()?.strip_prefix('-')?))
    }

    /// Reference to the same table without a column. Columns that are excluded already stay excluded.
    #[must_use]
    pub fn excluding(&self, column: &str) -> Self {
        let given = self.name.as_deref().map_or_else(|| "-".to_owned(), |given| format!("{given},"));
        self.named(&(given + &join_names(&[column])))
    }

    /// Whether both paths refer to the same file.
    pub(crate) fn is_same_file(&self, other: &Self) -> bool {
        if self.is_stdin() || other.is_stdin() {
            return self.is_stdin() && other.is_stdin();
        }
        match (self.path.canonicalize(), other.path.canonicalize()) {
            (Ok(one), Ok(other)) => one == other,
            _ => false,
        }
    }
}

/// Splits a list of names at its commas. A name that contains a comma is written in quotation marks, as in a csv file.
///
/// ```
/// assert_eq!(nuq_io::split_names(r#"a, "b,c",d"#), ["a", "b,c", "d"]);
/// ```
#[must_use]
pub fn split_names(list: &str) -> Vec<String> {
    // Spaces before a name are removed, because a quotation mark after a space is a part of the name in a csv file.
    let (mut compact, mut is_quoted) = (String::new(), false);
    for c in list.chars() {
        is_quoted ^= c == '"';
        let is_first = compact.is_empty() || compact.ends_with(',');
        if is_quoted || !(c.is_whitespace() && is_first) {
            compact.push(c);
        }
    }
    let mut reader = csv::ReaderBuilder::new()
        .has_headers(false)
        .flexible(true)
        .trim(csv::Trim::All)
        .from_reader(compact.as_bytes());
    let record = reader.records().next().and_then(Result::ok);
    record.map_or_else(Vec::new, |record| record.iter().map(str::to_owned).collect())
}

/// Joins names by commas. It is the inverse of [`split_names`].
///
/// ```
/// assert_eq!(nuq_io::join_names(&["a", "b,c"]), r#"a,"b,c""#);
/// ```
#[must_use]
pub fn join_names<S: AsRef<str>>(names: &[S]) -> String {
    let quoted = |name: &S| match name.as_ref() {
        name if name.contains([',', '"']) => format!("\"{}\"", name.replace('"', "\"\"")),
        name => name.to_owned(),
    };
    names.iter().map(quoted).collect::<Vec<String>>().join(",")
}

impl fmt::Display for ArraySpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.name {
            Some(name) => write!(f, "{}:{name}", self.file_name()),
            None => f.write_str(&self.file_name()),
        }
    }
}
