//! Options of `nuq fit`.

use std::path::PathBuf;

use clap::ValueEnum;
use nuq::{
    Covariance, DensityBandwidth, DensityKind, IndexKind, Kernel, Precision, Scale, Shrinkage, Variance,
};
use nuq_eval::evaluate::MethodId;
use nuq_io::ArraySpec;

use super::InputArgs;
use super::choice::{BandwidthWord, choice};

#[derive(Debug, clap::Args)]
#[command(group(clap::ArgGroup::new("truth").required(true).multiple(true).args(["labels", "targets", "method"])))]
pub(crate) struct FitArgs {
    /// Training rows, one embedding each
    #[arg(short, long, value_name = "FILE", required_unless_present = "method")]
    pub(crate) embeddings: Option<ArraySpec>,
    /// Labels of the training rows, integers, strings or booleans: fits a classifier
    #[arg(short, long, value_name = "FILE")]
    pub(crate) labels: Option<ArraySpec>,
    /// Targets of the training rows, finite numbers: fits a regressor
    #[arg(long, value_name = "FILE", conflicts_with = "labels")]
    pub(crate) targets: Option<ArraySpec>,
    /// Column of the table with an id of each row: it is not a coordinate
    #[arg(long, value_name = "NAME", conflicts_with = "method")]
    pub(crate) id_column: Option<String>,
    /// Weights of the training rows, 0 or positive: a row of weight 2 counts as two equal rows, a row of weight 0 is left out
    ///
    /// Two equal rows take two of the --n-neighbors nearest rows, and a row of weight 2 takes one. Predictions are therefore equal only
    /// if all rows are neighbors, and similar otherwise.
    #[arg(long, value_name = "FILE")]
    pub(crate) weights: Option<ArraySpec>,
    /// Fit this baseline of `nuq evaluate` instead of a NUQ model, with the settings of `nuq evaluate`
    ///
    /// Methods on logits or members alone need no training arrays. All methods on embeddings need --embeddings; ddu, mahalanobis,
    /// relative_mahalanobis, sngp and duq also need --labels; vim, fdbd, nnguide and react need --logits. The ending _l2 stands
    /// for rows that are divided by their Euclidean norm. --n-neighbors applies to knn_distance, lof and nnguide [default: 20; 10
    /// for nnguide], --shrinkage to ddu, mahalanobis and relative_mahalanobis, --seed to sngp and duq.
    #[arg(
        long, value_parser = choice::<MethodId>(),
        conflicts_with_all = [
            "targets", "preset", "kernel", "bandwidth", "density", "density_bandwidth", "covariance", "prior_weight",
            "variance", "scale", "scale_free", "normalize", "weights", "selection_rows", "index", "recall", "precision",
            "expected_queries", "shards"
        ]
    )]
    pub(crate) method: Option<MethodId>,
    /// Logits of the training rows, rows × classes, for a --method that uses them
    #[arg(long, value_name = "FILE", requires = "method")]
    pub(crate) logits: Option<ArraySpec>,
    #[command(flatten)]
    pub(crate) input: InputArgs,
    /// Output file for the model, with --shards a folder; - writes it to standard output, and the fitted values to standard error
    #[arg(short, long, value_name = "FILE")]
    pub(crate) out: PathBuf,

    /// Values of the model options that are not given
    #[arg(long, default_value = "default", help_heading = "Model options")]
    pub(crate) preset: Preset,
    /// Number of nearest training rows K in every kernel sum, at least 1 [default: 20]
    #[arg(short = 'k', long, visible_alias = "k", value_name = "N", help_heading = "Model options")]
    pub(crate) n_neighbors: Option<usize>,
    /// Kernel that weights the neighbors [default: gaussian]
    #[arg(long, value_parser = choice::<Kernel>(), help_heading = "Model options")]
    pub(crate) kernel: Option<Kernel>,
    /// Bandwidth of the kernel for predictions: a rule, or a positive number in units of the embeddings [default: log_likelihood;
    /// squared_error for a regressor]
    ///
    /// Leave-one-out selection maximizes log_likelihood or accuracy (classifier) or minimizes squared_error (regressor).
    /// silverman, scott and isj give one bandwidth per column; adaptive gives one per training row, its distance to its K-th
    /// neighbor.
    #[arg(
        long, value_parser = choice::<BandwidthWord>(), allow_negative_numbers = true, value_name = "RULE|NUMBER",
        help_heading = "Model options"
    )]
    pub(crate) bandwidth: Option<BandwidthWord>,
    /// Density of the training embeddings: kernel density, one Gaussian per class, or the combination auto [default: auto;
    /// kde for a regressor or with --density-bandwidth]
    ///
    /// auto combines a kernel density with one Gaussian per class, all with the same covariance. It uses the kernel density alone if
    /// this fits left-out rows better, or if fewer than 5 columns vary.
    #[arg(long, value_parser = choice::<DensityKind>(), help_heading = "Model options")]
    pub(crate) density: Option<DensityKind>,
    /// Bandwidth of the kernel density: a rule, or a positive number [default: half_median]
    ///
    /// half_median is half the median distance of a training row to its K-th neighbor; same is the bandwidth for predictions.
    #[arg(
        long, value_parser = choice::<DensityBandwidth>(), allow_negative_numbers = true, value_name = "RULE|NUMBER",
        help_heading = "Model options"
    )]
    pub(crate) density_bandwidth: Option<DensityBandwidth>,
    /// Covariance of the class Gaussians, for --density gmm [default: full]
    #[arg(long, value_parser = choice::<Covariance>(), help_heading = "Model options")]
    pub(crate) covariance: Option<Covariance>,
    /// Shrinkage of the covariances toward a multiple of the identity, for --density gmm: a rule, or a number from 0 to 1
    /// [default: ledoit_wolf]
    #[arg(
        long, value_parser = choice::<Shrinkage>(), allow_negative_numbers = true, value_name = "RULE|NUMBER",
        help_heading = "Model options"
    )]
    pub(crate) shrinkage: Option<Shrinkage>,
    /// Compute the density of the Gaussians relative to the measure dx/|x|^d, where d is the number of columns that are not constant,
    /// for --density gmm: in many dimensions a Gaussian is densest near its center, but there are no rows near the center
    #[arg(long, help_heading = "Model options")]
    pub(crate) scale_free: bool,
    /// Weight of the prior, as a number of training rows at the position of the query, at least 0 [default: 0.001]
    #[arg(long, allow_negative_numbers = true, value_name = "W", help_heading = "Model options")]
    pub(crate) prior_weight: Option<f64>,
    /// Variance term of a classifier's epistemic uncertainty: sum or maximum over the classes [default: sum]
    #[arg(long, value_parser = choice::<Variance>(), help_heading = "Model options")]
    pub(crate) variance: Option<Variance>,
    /// Formula of the number n(x) of training rows that support an estimate: effective neighbors of a typical row times the
    /// relative density, or the asymptotic formula with the intrinsic dimension or with the number of columns [default: effective]
    #[arg(long, value_parser = choice::<Scale>(), help_heading = "Model options")]
    pub(crate) scale: Option<Scale>,
    /// Divide every row, also of queries, by its Euclidean norm
    #[arg(long, help_heading = "Model options")]
    pub(crate) normalize: bool,
    /// Largest number of training rows used to select the bandwidth and to estimate the dimension, at least 2; a random sample is
    /// drawn if there are more [default: 10000]
    #[arg(long, value_name = "N", help_heading = "Model options")]
    pub(crate) selection_rows: Option<usize>,

    /// Index for the neighbor search: exact search, an HNSW graph, or the one with the lower estimated cost
    #[arg(long, value_parser = choice::<IndexKind>(), default_value = "auto", help_heading = "Search options")]
    pub(crate) index: IndexKind,
    /// Share of the true neighbors that a graph must find, above 0 and at most 1 [default: 0.99]
    #[arg(long, allow_negative_numbers = true, value_name = "SHARE", help_heading = "Search options")]
    pub(crate) recall: Option<f64>,
    /// Precision of the rows stored in a graph, for --index hnsw; f16 halves the memory [default: f32]
    #[arg(long, value_parser = choice::<Precision>(), help_heading = "Search options")]
    pub(crate) precision: Option<Precision>,
    /// Number of queries expected over the lifetime of the model, for the cost estimate of --index auto [default: 10000]
    #[arg(long, value_name = "N", help_heading = "Search options")]
    pub(crate) expected_queries: Option<u64>,
    /// Store the training rows in N files of a folder, for rows that exceed the memory
    ///
    /// At most one of these shards is held in memory. They are searched exactly, one after the other. The model equals the one that
    /// --index exact gives without this option. Other commands open the folder as they open a file. Rows of weight 0 are not possible.
    #[arg(
        long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=99_999), help_heading = "Search options"
    )]
    pub(crate) shards: Option<u32>,
    /// Seed of the random samples that are drawn while fitting
    #[arg(long, value_name = "N", default_value_t = 0, help_heading = "Search options")]
    pub(crate) seed: u64,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum Preset {
    /// Recommended values
    Default,
    /// Algorithm 1 of the paper: no prior, variance max, bandwidth accuracy, density bandwidth same, scale ambient
    Paper,
}
