//! Option values with parts: `KEY=VALUE` and lists of names.

use std::convert::Infallible;
use std::fmt;
use std::ops::Deref;
use std::str::FromStr;

use nuq::nuq_neighbors::normalized;
use nuq_io::{ArraySpec, split_names};

/// The value of `--target`: `coverage=SHARE`, `risk=SHARE`, `false_alarm=SHARE`, `sets=SHARE` or `intervals=SHARE`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum TargetSpec {
    Coverage(f64),
    Risk(f64),
    FalseAlarm(f64),
    Sets(f64),
    Intervals(f64),
}

impl FromStr for TargetSpec {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let malformed = || {
            "expected coverage=SHARE, risk=SHARE, false_alarm=SHARE, sets=SHARE or intervals=SHARE, for example coverage=0.9"
                .to_owned()
        };
        let (kind, share) = text.split_once('=').ok_or_else(malformed)?;
        let share = share.parse().map_err(|_| malformed())?;
        match normalized(kind).as_str() {
            "coverage" => Ok(Self::Coverage(share)),
            "risk" => Ok(Self::Risk(share)),
            "false_alarm" => Ok(Self::FalseAlarm(share)),
            "sets" => Ok(Self::Sets(share)),
            "intervals" => Ok(Self::Intervals(share)),
            _ => Err(malformed()),
        }
    }
}

impl fmt::Display for TargetSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Coverage(share) => write!(f, "coverage={share}"),
            Self::Risk(share) => write!(f, "risk={share}"),
            Self::FalseAlarm(share) => write!(f, "false_alarm={share}"),
            Self::Sets(share) => write!(f, "sets={share}"),
            Self::Intervals(share) => write!(f, "intervals={share}"),
        }
    }
}

/// An array with a name that the user chooses, `NAME=FILE`.
#[derive(Debug, Clone)]
pub(crate) struct NamedArray {
    pub(crate) name: String,
    pub(crate) spec: ArraySpec,
}

impl FromStr for NamedArray {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once('=') {
            Some((name, file)) if !name.is_empty() => {
                let spec = file.parse().map_err(|problem| format!("{problem}"))?;
                Ok(Self { name: name.to_owned(), spec })
            }
            _ => Err("expected NAME=FILE, for example svhn=svhn.npz:embeddings".to_owned()),
        }
    }
}

/// Names that are separated by commas. A name that contains a comma is written in quotation marks.
#[derive(Debug, Clone)]
pub(crate) struct Names(Vec<String>);

impl FromStr for Names {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<Self, Infallible> {
        Ok(Self(split_names(text)))
    }
}

impl Deref for Names {
    type Target = [String];

    fn deref(&self) -> &[String] {
        &self.0
    }
}
