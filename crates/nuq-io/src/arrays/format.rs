//! The format of an input: given by the user, or recognized by its contents and file name.
//!
//! Formats other than csv and tsv begin with bytes that identify them, regardless of the name. The file extension decides
//! whether text is csv or tsv. If the name has no extension or ends in `.txt`, the separators of the first line decide. If
//! the name contradicts the text, the error message states both.

use super::ArraySpec;
use crate::Error;

/// The format of a file of arrays.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Format {
    /// Comma-separated values. If the first line contains semicolons and no comma, semicolons are the separator.
    Csv,
    /// Tab-separated values.
    Tsv,
    /// One numpy array.
    Npy,
    /// A zip archive of numpy arrays.
    Npz,
    /// Tensors, as the library safetensors writes them.
    Safetensors,
    /// A table of typed columns.
    Parquet,
}

nuq::nuq_neighbors::choices!(Format, "format", {
    Csv => "csv", Tsv => "tsv", Npy => "npy", Npz => "npz", Safetensors => "safetensors", Parquet => "parquet",
});

/// Kind of the contents, by the first bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Contents {
    Binary(Format),
    Text,
    /// Bytes of no known format, or no bytes.
    Unknown,
}

impl Format {
    /// The format of an input that begins with `start`. `given` is the choice of the user.
    pub(super) fn of(spec: &ArraySpec, start: &[u8], given: Option<Self>) -> Result<Self, Error> {
        let extension = spec.extension();
        let named = extension.as_deref().and_then(|extension| extension.parse::<Self>().ok());
        let contents = Contents::of(start);
        if let Some(given) = given {
            return given.check(spec, contents);
        }
        match (contents, named) {
            (Contents::Binary(format), _) => Ok(format),
            (Contents::Text, Some(named)) if !named.is_text() => {
                let problem = format!(
                    "its name ends in .{named}, but it contains text: if it is a table, use --format csv or --format tsv"
                );
                Err(Error::BadFile { spec: spec.clone(), problem })
            }
            (Contents::Text | Contents::Unknown, Some(named)) if named.is_text() => {
                named.check_separator(spec, first_line(start))
            }
            (Contents::Unknown, Some(named)) => Ok(named),
            (Contents::Text, None) if matches!(extension.as_deref(), None | Some("txt")) => {
                Self::of_text(spec, first_line(start))
            }
            (Contents::Unknown, None) if start.is_empty() && spec.is_stdin() => Ok(Self::Csv),
            _ => Err(Error::UnknownEnding { path: spec.file_name().into() }),
        }
    }

    fn is_text(self) -> bool {
        matches!(self, Self::Csv | Self::Tsv)
    }

    /// Rejects contents that are certainly not of the given format.
    fn check(self, spec: &ArraySpec, contents: Contents) -> Result<Self, Error> {
        let found = match contents {
            Contents::Binary(format) if format != self => format!("{format} data"),
            Contents::Text if !self.is_text() => "text".to_owned(),
            _ => return Ok(self),
        };
        let problem = format!(
            "it contains {found}, but --format {self} is given, which applies to all input files: remove --format"
        );
        Err(Error::BadFile { spec: spec.clone(), problem })
    }

    /// Rejects a first line that has only the separator of the other text format.
    fn check_separator(self, spec: &ArraySpec, line: &[u8]) -> Result<Self, Error> {
        let separators = match (self, cell_separator(line)) {
            (Self::Csv, Some(b'\t')) => "tabs and no comma",
            (Self::Tsv, Some(b',' | b';')) if !line.contains(&b'\t') => "commas or semicolons and no tab",
            _ => return Ok(self),
        };
        let problem = format!(
            "its name ends in .{self}, but its first line has {separators}: choose with --format csv or --format tsv"
        );
        Err(Error::BadFile { spec: spec.clone(), problem })
    }

    /// The format of a text whose name does not show the format.
    fn of_text(spec: &ArraySpec, line: &[u8]) -> Result<Self, Error> {
        match cell_separator(line) {
            Some(b'\t') => Ok(Self::Tsv),
            Some(_) if line.contains(&b'\t') => {
                let problem = "its first line has tabs, and also commas or semicolons: choose with --format csv or --format tsv";
                Err(Error::BadFile { spec: spec.clone(), problem: problem.to_owned() })
            }
            _ => Ok(Self::Csv),
        }
    }
}

impl Contents {
    fn of(start: &[u8]) -> Self {
        let is_safetensors = || {
            let length = start.first_chunk().map_or(0, |length| u64::from_le_bytes(*length));
            (2..=100 << 20).contains(&length) && start.get(8) == Some(&b'{')
        };
        if start.starts_with(b"\x93NUMPY") {
            Self::Binary(Format::Npy)
        } else if start.starts_with(b"PK\x03\x04") || start.starts_with(b"PK\x05\x06") {
            Self::Binary(Format::Npz)
        } else if start.starts_with(b"PAR1") {
            Self::Binary(Format::Parquet)
        } else if is_safetensors() {
            Self::Binary(Format::Safetensors)
        } else if !start.is_empty() && start.iter().all(|byte| *byte >= b' ' || b"\t\n\r\x0c".contains(byte))
        {
            Self::Text
        } else {
            Self::Unknown
        }
    }
}

/// The separator of the cells of a text, by its first line: a comma if the line contains one, otherwise a semicolon, otherwise a tab.
/// `None` if the line contains none of them.
///
/// ```
/// assert_eq!(nuq_io::cell_separator(b"1.5;2\n3,4\n"), Some(b';'));
/// ```
#[must_use]
pub fn cell_separator(start: &[u8]) -> Option<u8> {
    let line = first_line(start);
    [b',', b';', b'\t'].into_iter().find(|separator| line.contains(separator))
}

fn first_line(start: &[u8]) -> &[u8] {
    start.split(|&byte| byte == b'\n').next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(name: &str, start: &[u8], given: Option<Format>) -> Result<Format, String> {
        let spec = ArraySpec { path: name.into(), name: None };
        Format::of(&spec, start, given).map_err(|error| error.to_string())
    }

    const TENSORS: &[u8] = b"\x10\0\0\0\0\0\0\0{\"x\":";

    #[test]
    fn contents_decide_regardless_of_the_name() {
        for name in ["-", "x", "x.npy", "x.npz", "x.csv", "x.dat", "x.parquet.gz"] {
            assert_eq!(of(name, b"\x93NUMPY\x01", None), Ok(Format::Npy), "{name}");
            assert_eq!(of(name, b"PK\x03\x04", None), Ok(Format::Npz), "{name}");
            assert_eq!(of(name, b"PAR1\x15", None), Ok(Format::Parquet), "{name}");
            assert_eq!(of(name, TENSORS, None), Ok(Format::Safetensors), "{name}");
        }
        for name in ["-", "x", "x.txt", "x.txt.gz", "x.zst"] {
            assert_eq!(of(name, b"1,2\n", None), Ok(Format::Csv), "{name}");
            assert_eq!(of(name, b"1;2\n", None), Ok(Format::Csv), "{name}");
            assert_eq!(of(name, b"cat\ndog\t\n", None), Ok(Format::Csv), "{name}");
            assert_eq!(of(name, b"1\t2\n", None), Ok(Format::Tsv), "{name}");
            let error = of(name, b"a,b\tc\n", None).unwrap_err();
            assert!(error.ends_with("choose with --format csv or --format tsv"), "{error}");
        }
        assert_eq!(of("-", b"", None), Ok(Format::Csv));
    }

    #[test]
    fn names_decide_if_contents_do_not_and_unknown_names_are_errors() {
        assert_eq!(of("x.csv", b"cat", None), Ok(Format::Csv));
        assert_eq!(of("x.TSV.gz", b"cat", None), Ok(Format::Tsv));
        assert_eq!(of("x.npy", b"\x00\x01", None), Ok(Format::Npy));
        assert_eq!(of("x.csv", b"", None), Ok(Format::Csv));
        for (name, start) in
            [("x.py", &b"import numpy"[..]), ("x.pkl", b"\x80\x04"), ("x", b""), ("-", b"\x80\x04")]
        {
            let error = of(name, start, None).unwrap_err();
            assert!(error.contains("npy, npz, safetensors, csv, tsv and parquet"), "{name}: {error}");
        }
    }

    #[test]
    fn contents_that_contradict_the_name_or_the_given_format_are_errors_that_name_both() {
        let starts = |error: Result<Format, String>, start: &str| {
            let error = error.unwrap_err();
            assert!(error.starts_with(start), "{error}");
        };
        starts(of("x.npy", b"1,2\n", None), "x.npy: its name ends in .npy, but it contains text");
        starts(of("x.csv", b"1\t2\n", None), "x.csv: its name ends in .csv, but its first line has tabs");
        starts(of("x.tsv", b"1,2\n", None), "x.tsv: its name ends in .tsv, but its first line has commas");
        starts(of("x.csv", b"PAR1", Some(Format::Csv)), "x.csv: it contains parquet data, but --format csv");
        starts(of("x.csv", b"1,2", Some(Format::Npy)), "x.csv: it contains text, but --format npy");
        assert_eq!(of("x.csv", b"1\t2\n", Some(Format::Tsv)), Ok(Format::Tsv));
        assert_eq!(of("x.csv", b"1\t2\n", Some(Format::Csv)), Ok(Format::Csv));
    }
}
