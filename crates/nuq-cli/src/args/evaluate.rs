//! Options of `nuq evaluate`.

use std::path::PathBuf;

use nuq_io::ArraySpec;

use super::{NamedArray, Names, RowArgs};

#[derive(Debug, clap::Args)]
#[command(group(clap::ArgGroup::new("predictions").multiple(true).args(["logits", "members"])))]
pub(crate) struct EvaluateArgs {
    /// Model file of a classifier
    #[arg(short, long, value_name = "FILE")]
    pub(crate) model: PathBuf,
    /// Test rows, one embedding each: from the distribution of the training rows, but not among them
    #[arg(long, value_name = "FILE")]
    pub(crate) test: ArraySpec,
    /// Labels of the test rows
    #[arg(short, long, value_name = "FILE")]
    pub(crate) labels: ArraySpec,
    /// Logits of the test rows, rows × classes
    #[arg(long, value_name = "FILE")]
    pub(crate) logits: Option<ArraySpec>,
    /// Logits of several members (deep ensemble, dropout passes, test-time augmentation) for the test rows, members × rows ×
    /// classes
    #[arg(long, value_name = "FILE")]
    pub(crate) members: Option<ArraySpec>,
    /// Name and rows of an out-of-distribution set; can be repeated
    #[arg(long, value_name = "NAME=FILE")]
    pub(crate) ood: Vec<NamedArray>,
    /// Logits of the --ood set of this name; can be repeated
    #[arg(long, value_name = "NAME=FILE")]
    pub(crate) ood_logits: Vec<NamedArray>,
    /// Members' logits of the --ood set of this name; can be repeated
    #[arg(long, value_name = "NAME=FILE")]
    pub(crate) ood_members: Vec<NamedArray>,
    #[command(flatten)]
    pub(crate) input: RowArgs,
    /// Classes of the columns of the logits and the members' logits, as A,B,"C,D" [default: the labels in sorted order]
    #[arg(
        long,
        value_name = "LABELS",
        default_value = "",
        hide_default_value = true,
        requires = "predictions"
    )]
    pub(crate) classes: Names,
    /// Name of a threshold of the model: reports the share of rows that it rejects
    #[arg(long, value_name = "NAME")]
    pub(crate) threshold: Option<String>,
    /// Output file for a report of all results, one .html file
    #[arg(long, value_name = "FILE")]
    pub(crate) report: Option<PathBuf>,
    /// Folder for the figures as SVG and PNG; created if missing
    #[arg(long, value_name = "DIR")]
    pub(crate) figures: Option<PathBuf>,
    /// Number of bootstrap resamples for the confidence intervals, at least 100
    #[arg(long, value_name = "N", default_value_t = 1000)]
    pub(crate) resamples: usize,
    /// Seed of the random numbers
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) seed: u64,
}
