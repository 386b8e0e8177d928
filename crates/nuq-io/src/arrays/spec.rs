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

    /// Names of the columns that are not coordinates: `a` and `b` in `file.csv:-a,b`. `None` if the name does not begin with `-`.
    pub(crate) fn excluded_columns(&self) -> Option<Vec<String>> {
        Some(split_names(self.name.as_ref()?.strip_prefix('-')?))
    }

    /// Reference to the same table without a column. Columns that are excluded already stay excluded.
    #[must_use]
    pub fn excluding(&self, column: &str) -> Self {
        let given = self.name.as_deref().map_or_else(|| "-".to_owned(), |given| format!("{given},"));
        self.named(&(given + &join_names(&[column])))
    }

    /// The reference as an argument of a command. [`Display`](fmt::Display) writes `standard input` for the path `-`.
    #[must_use]
    pub fn argument(&self) -> String {
        match &self.name {
            Some(name) => format!("{}:{name}", self.path.display()),
            None => self.path.display().to_string(),
        }
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
    let mut names = Vec::new();
    let mut rest = Some(list).filter(|list| !list.trim().is_empty());
    while let Some(list) = rest {
        let (name, after) = first_name(list);
        names.push(name);
        rest = after.strip_prefix(',');
    }
    names
}

/// The first name of a list, and what follows it: a comma and further names, or nothing.
fn first_name(list: &str) -> (String, &str) {
    let list = list.trim_start();
    let (mut name, mut rest) = (String::new(), list);
    let mut is_quoted = false;
    if let Some(quoted) = list.strip_prefix('"') {
        (rest, is_quoted) = (quoted, true);
    }
    while is_quoted {
        // Without a closing quotation mark, the name extends to the end of the list.
        let (part, after) = rest.split_once('"').unwrap_or((rest, ""));
        name.push_str(part);
        // Two quotation marks in a quoted name are one character of the name.
        is_quoted = after.starts_with('"');
        rest = if is_quoted { &after[1..] } else { after };
        if is_quoted {
            name.push('"');
        }
    }
    let (unquoted, after) = rest.split_at(rest.find(',').unwrap_or(rest.len()));
    name.push_str(unquoted.trim_end());
    (name, after)
}

/// Joins names by commas. It is the inverse of [`split_names`].
///
/// ```
/// assert_eq!(nuq_io::join_names(&["a", "b,c"]), r#"a,"b,c""#);
/// ```
#[must_use]
pub fn join_names<S: AsRef<str>>(names: &[S]) -> String {
    let quoted = |name: &S| match name.as_ref() {
        name if name.is_empty() || name.trim() != name || name.contains([',', '"']) => {
            format!("\"{}\"", name.replace('"', "\"\""))
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn joined_names_are_split_into_the_same_names() {
        let lists: [&[&str]; 7] = [
            &[],
            &[""],
            &["", ""],
            &["a", "b,c", "\""],
            &[" a ", "b\n"],
            &["\"a", "b\"\"", ","],
            &["a\nb", "c\"d"],
        ];
        for names in lists {
            assert_eq!(split_names(&join_names(names)), names, "{}", join_names(names));
        }
        assert_eq!(split_names(" a , \"b\" ,\"c"), ["a", "b", "c"]);
        assert_eq!(split_names("a,"), ["a", ""]);
    }
}
