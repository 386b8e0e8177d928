//! What can be wrong with data, and what to do about it.

use std::path::PathBuf;

/// A refusal of data, with the file that it is about.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DataError {
    /// A set that a package client can bring is not there.
    #[error("{title} is not in {}: bring it with `lab get-data {name} --cache {}`", folder.display(), cache.display())]
    NotBrought {
        /// The set as people call it.
        title: &'static str,
        /// The set as the command line calls it.
        name: &'static str,
        /// The cache.
        cache: PathBuf,
        /// Where in it the set was looked for.
        folder: PathBuf,
    },
    /// A file where a folder should be.
    #[error("{} is a file; name a folder", path.display())]
    NotAFolder {
        /// The file.
        path: PathBuf,
    },
    /// A folder of embeddings that nobody named.
    #[error(
        "no embeddings to look at: give `--data` a folder of npz files (lab/python shows how to export them), or set \
         NUQ_DATA to one that holds data/{name}"
    )]
    NoFolder {
        /// The folder below `data`.
        name: &'static str,
    },
    /// A folder of embeddings for an experiment that reads none.
    #[error("{experiment} reads no embeddings: run it without `--data`")]
    NotTaken {
        /// The experiment.
        experiment: &'static str,
    },
    /// A folder without what is looked for in it.
    #[error("{} holds no {expected}", folder.display())]
    NothingIn {
        /// The folder.
        folder: PathBuf,
        /// What should be there.
        expected: &'static str,
    },
    /// A file that could not be read.
    #[error("{} cannot be read: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A file that ends too early.
    #[error("{} is cut short: it holds {got} of {expected} bytes; bring it again", path.display())]
    Truncated {
        /// The file.
        path: PathBuf,
        /// What is there.
        got: usize,
        /// What its beginning promises.
        expected: usize,
    },
    /// A file that is something else than its name says.
    #[error("{}: {problem}", path.display())]
    BadFile {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
    },
    /// Arrays that belong together and do not fit.
    #[error("{}: {got} {what}, and {expected} {beside}", path.display())]
    NotPaired {
        /// The file.
        path: PathBuf,
        /// What is counted.
        what: &'static str,
        /// How many there are.
        got: usize,
        /// What they stand beside.
        beside: &'static str,
        /// How many there are of those.
        expected: usize,
    },
    /// A file that is not the one that was expected.
    #[error("{} is not the file that is expected: its SHA-256 is {found}, not {expected}; delete its folder \
         and bring it again", path.display())]
    Checksum {
        /// The file.
        path: PathBuf,
        /// What was computed.
        found: String,
        /// What it should be.
        expected: &'static str,
    },
    /// A file beside which another network's must not be written.
    #[error("{} is of another network and would be read with this one's files; remove it, or name another folder", path.display())]
    Foreign {
        /// The file.
        path: PathBuf,
    },
    /// A package client that is not there, or failed.
    #[error("`{command}` {problem}; {remedy}")]
    Client {
        /// What was run.
        command: String,
        /// What became of it.
        problem: String,
        /// What to do instead.
        remedy: String,
    },
    /// A file or folder that could not be written.
    #[error("{} cannot be written: {source}", path.display())]
    Write {
        /// The file or folder.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
}
