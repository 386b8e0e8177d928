//! Errors of data sets.

use std::path::PathBuf;

/// A data set cannot be found, downloaded, read or used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DataError {
    /// A downloadable data set is not in the cache.
    #[error("{title} is not in {}: download it with `lab get-data {name} --cache {}`", folder.display(), cache.display())]
    NotDownloaded {
        /// Display name of the data set.
        title: &'static str,
        /// Name of the data set on the command line.
        name: &'static str,
        /// Cache folder.
        cache: PathBuf,
        /// Expected folder of the data set in the cache.
        folder: PathBuf,
    },
    /// The cache path is a file.
    #[error("{} is a file; the cache must be a folder", path.display())]
    NotAFolder {
        /// Path of the file.
        path: PathBuf,
    },
    /// No folder of embeddings was given.
    #[error(
        "no embeddings found: pass a folder of npz files with `--data` (lab/python shows how to export them), or set \
         NUQ_DATA to a folder that contains data/{name}"
    )]
    NoEmbeddings {
        /// Name of the folder below `data`.
        name: &'static str,
    },
    /// `--data` was given for an experiment that does not read embeddings.
    #[error("{experiment} does not read embeddings; run it without `--data`")]
    NoDataOption {
        /// Name of the experiment.
        experiment: &'static str,
    },
    /// A folder does not contain the expected files.
    #[error("{} does not contain {expected}", folder.display())]
    MissingFiles {
        /// Path of the folder.
        folder: PathBuf,
        /// Description of the expected files.
        expected: &'static str,
    },
    /// A file cannot be read.
    #[error("{} cannot be read: {source}", path.display())]
    Read {
        /// Path of the file.
        path: PathBuf,
        /// Cause.
        source: std::io::Error,
    },
    /// A file is shorter than its header states, or its last record is incomplete.
    #[error("{} is truncated: it has {got} of {expected} bytes; download it again", path.display())]
    Truncated {
        /// Path of the file.
        path: PathBuf,
        /// Number of available bytes, after decompression.
        got: usize,
        /// Number of expected bytes.
        expected: usize,
    },
    /// A file does not have the expected format.
    #[error("{}: {problem}", path.display())]
    BadFile {
        /// Path of the file.
        path: PathBuf,
        /// Description of the problem.
        problem: String,
    },
    /// Two arrays do not have the same size.
    #[error("{}: {got} {what}, but {expected} {reference}", path.display())]
    SizeMismatch {
        /// Path of the file.
        path: PathBuf,
        /// Name of the counted items.
        what: &'static str,
        /// Number of these items.
        got: usize,
        /// Name of the items that determine the expected number.
        reference: &'static str,
        /// Expected number.
        expected: usize,
    },
    /// A file has the wrong checksum.
    #[error("{} has SHA-256 {actual}, expected {expected}; delete its folder and download it again", path.display())]
    Checksum {
        /// Path of the file.
        path: PathBuf,
        /// Computed SHA-256.
        actual: String,
        /// Expected SHA-256.
        expected: &'static str,
    },
    /// A file that was just downloaded has the wrong checksum. The download has been removed.
    #[error(
        "the downloaded file {file} has SHA-256 {actual}, expected {expected}; download it again, or copy {files} to {}",
        folder.display()
    )]
    DownloadChecksum {
        /// Name of the file.
        file: String,
        /// Computed SHA-256.
        actual: String,
        /// Expected SHA-256.
        expected: &'static str,
        /// Names of all files of the data set.
        files: String,
        /// Folder of the data set in the cache.
        folder: PathBuf,
    },
    /// The export folder contains a file of another network.
    #[error("{} belongs to another network and would be read together with the exported files; remove it, or choose another folder", path.display())]
    OtherNetworkFile {
        /// Path of the file.
        path: PathBuf,
    },
    /// A package manager is not installed or failed.
    #[error("`{command}` {problem}; {remedy}")]
    Client {
        /// Command line.
        command: String,
        /// Description of the failure.
        problem: String,
        /// Suggested action.
        remedy: String,
    },
    /// A file or folder cannot be written.
    #[error("{} cannot be written: {source}", path.display())]
    Write {
        /// Path of the file or folder.
        path: PathBuf,
        /// Cause.
        source: std::io::Error,
    },
}
