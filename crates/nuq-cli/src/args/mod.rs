//! The command line: commands, options and their help texts.

mod choice;
mod input;
#[cfg(feature = "serve")]
mod serve;
mod values;

use std::path::{Path, PathBuf};

use clap::{Parser, Subcommand, ValueEnum};
use nuq::calibrate::{Measure, SetScore};
use nuq::{
    Covariance, DensityBandwidth, DensityKind, Device, IndexKind, Kernel, Precision, Scale, Shrinkage,
    Variance,
};
use nuq_eval::evaluate::MethodId;
use nuq_io::ArraySpec;

pub(crate) use choice::BandwidthWord;
use choice::choice;
pub(crate) use input::{InputArgs, RowArgs, hold_stdin, join_stdin_values};
#[cfg(feature = "serve")]
pub(crate) use serve::ServeArgs;
pub(crate) use values::{NamedArray, Names, TargetSpec};

/// Largest width of the help texts, in columns. Lines of the constants below are shorter, so that they are not wrapped.
const HELP_WIDTH: usize = 100;

/// Text after the help of `nuq`.
const WORKFLOW: &str = "\
Typical use:
  nuq fit --embeddings train.npz:embeddings --labels train.npz:labels --out model.nuq
  nuq calibrate --model model.nuq --embeddings held_out.npy --target coverage=0.9 --name main
  nuq score --model model.nuq --embeddings new.npy --threshold main --out scores.csv

Exit codes:
  0    success
  1    the data or the value of an option is invalid
  2    the command line is invalid
  3    a file cannot be read or written
  129  ended by SIGHUP; no partial file is left
  130  interrupted by Ctrl-C (SIGINT); no partial file is left
  141  standard output was closed early, as by `| head`; output files are complete
  143  ended by SIGTERM; no partial file is left

Messages that cannot be written to standard error are lost; the exit code does not depend on them.";

/// Text after the help of each command that reads arrays.
const FILES: &str = "\
Files:
  Arrays are read from npy, npz, safetensors, csv, tsv and, in a build with that feature, parquet
  files. The contents decide the format; the name decides between csv and tsv. FILE:NAME selects one
  array of an npz or safetensors file, or one column of a table. FILE may be -, standard input; a
  command can read several arrays of it, such as -e - -l -:NAME. Files and standard input may be
  compressed with gzip or, in a build with that feature, zstd.
  `nuq score` reads files in blocks. Two kinds of input are held in memory: csv and tsv tables from
  standard input (four bytes per number), and arrays in Fortran order that are compressed or come
  from standard input.
  Every column of a table of embeddings is a coordinate, except the row numbers that pandas writes,
  the columns that --labels, --targets or --weights select from the same file, and the columns that
  FILE:-NAME,NAME excludes; a name that contains a comma is written in quotation marks. The first
  line of a table is a header if it contains the names of the selected columns, if it contains no
  number and a line below does, or if it contains 0, 1, 2, … as pandas writes it. --header yes or
  --header no sets it instead, and is required if the first line may be both. With --header no, NAME
  is the number of a column, counted from 0.
  The names of the columns are stored in the model. Other tables must have the same names in the
  same order; columns without names, or named 0, 1, 2, …, are not compared.";

/// Estimate the uncertainty of a trained network's predictions from its embeddings
///
/// NUQ (Nonparametric Uncertainty Quantification) compares the embedding of an input with the embeddings of the training
/// data. Results go to standard output; messages and progress go to standard error.
#[derive(Debug, Parser)]
#[command(
    name = "nuq",
    version,
    arg_required_else_help = true,
    max_term_width = HELP_WIDTH,
    after_long_help = WORKFLOW
)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) command: Command,
    #[command(flatten)]
    pub(crate) common: Common,
}

/// Options of every command.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Common options")]
pub(crate) struct Common {
    /// Print the result as one JSON object and an error as one line of JSON
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// Device of the neighbor search: the CPU, an NVIDIA GPU, or the one with the lower estimated time; the results are the same
    ///
    /// cuda is the first GPU, cuda:1 the second one. A GPU searches exactly: it implies --index exact of fit, and a model with a graph
    /// is an error. It needs the NVIDIA driver, cuBLAS and NVRTC, which the CUDA toolkit and PyTorch contain.
    #[arg(long, global = true, value_parser = choice::<Device>(), value_name = "DEVICE", default_value = "auto")]
    pub(crate) device: Device,
    /// How progress is shown on standard error
    #[arg(long, global = true, value_name = "STYLE", default_value = "auto")]
    pub(crate) progress: ProgressKind,
    /// Print only results and errors; a command that writes a file prints nothing, unless --json is given
    #[arg(short, long, global = true)]
    pub(crate) quiet: bool,
    /// Number of threads, at least 1 and at most 16 per processor [default: the number of processors]
    #[arg(long, global = true, value_name = "N")]
    pub(crate) threads: Option<usize>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ProgressKind {
    /// A progress bar on a terminal, nothing elsewhere
    Auto,
    /// Plain lines
    Plain,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Fit a model to embeddings and labels (or targets), and save it
    ///
    /// Every model option has a default; the bandwidth is selected by leave-one-out cross-validation. The command prints the
    /// fitted values, as `nuq inspect` does. --method fits a baseline of `nuq evaluate` instead of a NUQ model.
    #[command(after_long_help = FILES)]
    Fit(Box<FitArgs>),
    /// Predict each row of a file: label, probability, uncertainties and decision
    ///
    /// Columns: row, label, probability, aleatoric, epistemic, total, log_epistemic, log_total, log_density. A regressor has mean in
    /// place of label and probability, and log_aleatoric. --threshold or --reject-cost adds accept (true or false); --output-neighbors adds the nearest
    /// training rows. Files are processed in blocks, so they may be larger than memory. A baseline
    /// (`nuq fit --method`) has the columns row and score, and accept with --threshold; a higher score means a higher uncertainty.
    ///
    /// Far from all training rows the probabilities are those of the prior, and the label is the most frequent class, even if all
    /// neighbors have another one. A high log_epistemic and a low log_density show such rows; --output-neighbors shows the labels of
    /// their neighbors.
    #[command(after_long_help = FILES)]
    Score(ScoreArgs),
    /// Choose a threshold, prediction sets or intervals on held-out rows and store them in the model
    ///
    /// The held-out rows must come from the same distribution as the rows to be scored and must not be training rows.
    /// `nuq score --threshold NAME` then accepts or rejects each row by this threshold. A baseline (`nuq fit --method`) can store
    /// thresholds on its score. Its file does not hold the training rows, so that held-out rows are not compared with them.
    #[command(after_long_help = FILES)]
    Calibrate(CalibrateArgs),
    /// Compare NUQ with baseline methods on test rows and out-of-distribution rows
    ///
    /// Prints a table of all methods that the given arrays allow. Embeddings are enough for NUQ and the methods on embeddings.
    /// Methods on logits need the logits of every set (--logits, --ood-logits); methods on several members need the members of
    /// every set (--members, --ood-members).
    #[command(after_long_help = FILES)]
    Evaluate(EvaluateArgs),
    /// Show the file of a model or baseline: options, classes, thresholds, index and sections
    Inspect(InspectArgs),
    /// List training rows whose label is probably wrong
    ///
    /// Each training row is left out in turn. It is listed if the other rows give another class a higher probability than its
    /// own label; the row with the lowest probability of its own label comes first.
    LabelIssues(LabelIssuesArgs),
    /// Choose rows of a file to label next: uncertain and diverse
    #[command(after_long_help = FILES)]
    Suggest(SuggestArgs),
    /// Serve models over HTTP, by the Open Inference Protocol and as JSON
    ///
    /// The answers are predictions, uncertainties, decisions and nearest training rows. Requests that wait are computed together.
    /// Every option is also an environment variable.
    #[cfg(feature = "serve")]
    #[command(after_long_help = serve::SERVE)]
    Serve(Box<ServeArgs>),
    /// Fit the Two Moons data, print a table and draw the uncertainty maps
    ///
    /// Fits 200 and 2000 points. Prints the fitted values and the uncertainty on the moons, between them and far away, and
    /// draws the maps as SVG and PNG.
    Demo(DemoArgs),
    /// Print a completion script for a shell
    Completions {
        /// Shell to write the script for
        shell: clap_complete::Shell,
    },
    /// Write manual pages, one for each command
    ///
    /// Copy them to a folder that man searches, for example ~/.local/share/man/man1.
    Man(ManArgs),
}

impl Command {
    /// Whether the command handles SIGINT, SIGTERM and SIGHUP itself.
    pub(crate) fn handles_signals(&self) -> bool {
        #[cfg(feature = "serve")]
        if let Self::Serve(_) = self {
            return true;
        }
        false
    }
}

#[derive(Debug, clap::Args)]
pub(crate) struct ManArgs {
    /// Folder for the pages; created if missing
    #[arg(short, long, value_name = "DIR")]
    pub(crate) out: PathBuf,
}

#[derive(Debug, clap::Args)]
pub(crate) struct DemoArgs {
    /// Folder for the figure; created if missing
    #[arg(short, long, value_name = "DIR", default_value = "nuq-demo")]
    pub(crate) out: PathBuf,
}

/// The model file as an argument without an option, or as `--model`, as other commands have it.
#[derive(Debug, clap::Args)]
pub(crate) struct ModelArg {
    /// File of a model, or folder of a sharded model
    #[arg(value_name = "MODEL", required_unless_present = "model")]
    file: Option<PathBuf>,
    /// Model file, as an option
    #[arg(short, long, value_name = "FILE", conflicts_with = "file")]
    model: Option<PathBuf>,
}

impl ModelArg {
    pub(crate) fn path(&self) -> &Path {
        self.file.as_ref().or(self.model.as_ref()).expect("one of the arguments is required")
    }
}

#[derive(Debug, clap::Args)]
pub(crate) struct InspectArgs {
    #[command(flatten)]
    pub(crate) model: ModelArg,
    /// Also read the whole file and compare it with its checksums
    #[arg(long)]
    pub(crate) verify: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct LabelIssuesArgs {
    #[command(flatten)]
    pub(crate) model: ModelArg,
    /// Largest number of rows to list [default: 20, with --out all]
    #[arg(short = 'n', long, alias = "most", value_name = "N")]
    pub(crate) count: Option<usize>,
    /// Output file, .csv, .tsv or .jsonl, also with .gz or .zst; - prints csv, with --json JSON lines [default: print a table]
    #[arg(short, long, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,
}

#[derive(Debug, clap::Args)]
pub(crate) struct SuggestArgs {
    /// Model file
    #[arg(short, long, value_name = "FILE")]
    pub(crate) model: PathBuf,
    /// Unlabeled rows, one embedding each
    #[arg(short, long, value_name = "FILE")]
    pub(crate) embeddings: ArraySpec,
    #[command(flatten)]
    pub(crate) input: RowArgs,
    /// Number of rows to choose
    #[arg(short = 'n', long, value_name = "N", default_value_t = 20)]
    pub(crate) count: usize,
    /// Output file, .csv, .tsv or .jsonl, also with .gz or .zst; - prints csv, with --json JSON lines [default: print a table]
    #[arg(short, long, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,
    /// What to do with rows that contain a NaN or an infinity
    #[arg(long, alias = "on-nan", value_name = "ACTION", default_value = "error")]
    pub(crate) on_bad_rows: OnBadRows,
}

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
    /// Column of the table with an id of each row, which is not a coordinate
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
    /// auto combines a kernel density with Gaussians of one covariance, and uses the kernel density alone if it fits left-out
    /// rows better.
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
    /// Density of the Gaussians relative to the measure dx/|x|^d, for --density gmm: in many dimensions a Gaussian is densest near its
    /// center, where there are no rows
    #[arg(long, help_heading = "Model options")]
    pub(crate) scale_free: bool,
    /// Weight of the prior, in training rows at the position of the query, at least 0 [default: 0.001]
    #[arg(long, allow_negative_numbers = true, value_name = "W", help_heading = "Model options")]
    pub(crate) prior_weight: Option<f64>,
    /// Variance term of a classifier's epistemic uncertainty: sum or maximum over the classes [default: sum]
    #[arg(long, value_parser = choice::<Variance>(), help_heading = "Model options")]
    pub(crate) variance: Option<Variance>,
    /// Formula of the number n(x) of training rows that support an estimate: effective neighbors of a typical row times the
    /// relative density, or the asymptotic formula in the intrinsic dimension or in all columns [default: effective]
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
    /// At most one of these shards is held in memory. They are searched exactly, one after the other, and the model equals that of
    /// --index exact without this option. Other commands open the folder as they open a file. Rows of weight 0 are not possible.
    #[arg(
        long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=99_999), help_heading = "Search options"
    )]
    pub(crate) shards: Option<u32>,
    /// Seed of the random samples that are drawn while fitting
    #[arg(long, value_name = "N", default_value_t = 0, help_heading = "Search options")]
    pub(crate) seed: u64,
}

#[derive(Debug, clap::Args)]
pub(crate) struct ScoreArgs {
    /// File of a model or of a baseline, or folder of a sharded model
    #[arg(short, long, value_name = "FILE")]
    pub(crate) model: PathBuf,
    /// Rows to score, one embedding each; required unless a baseline uses logits or members only
    #[arg(short, long, value_name = "FILE")]
    pub(crate) embeddings: Option<ArraySpec>,
    /// Logits of the rows, rows × classes: with a model, label, probability and uncertainties are those of the network's
    /// prediction; a baseline may require them
    #[arg(long, value_name = "FILE")]
    pub(crate) logits: Option<ArraySpec>,
    /// Classes of the columns of the logits, as A,B,"C,D" [default: the labels in sorted order]
    #[arg(long, value_name = "LABELS", default_value = "", hide_default_value = true, requires = "logits")]
    pub(crate) classes: Names,
    /// Logits of several members, members × rows × classes, for a baseline that uses them
    #[arg(long, value_name = "FILE")]
    pub(crate) members: Option<ArraySpec>,
    #[command(flatten)]
    pub(crate) input: RowArgs,
    /// Column of the table with an id of each row: it is not a coordinate and is copied to the output
    #[arg(long, value_name = "NAME")]
    pub(crate) id_column: Option<String>,
    /// Columns of the table that are not coordinates and are copied to the output, as A,B,"C,D"
    #[arg(long, value_name = "NAMES", default_value = "", hide_default_value = true)]
    pub(crate) keep_columns: Names,
    /// Output file, .csv, .tsv, .jsonl (these also with .gz or .zst), .npz or .parquet; - prints csv, with --json JSON lines, to
    /// standard output
    #[arg(short, long, value_name = "FILE")]
    pub(crate) out: PathBuf,
    /// Cost of an abstention relative to an error, between 0 and 1: accepts a row if the probability of an error is at most the
    /// cost
    #[arg(long, allow_negative_numbers = true, value_name = "COST")]
    pub(crate) reject_cost: Option<f64>,
    /// Significance level of the decision, between 0 and 0.5: accepts a row only if the data show, at this level, that the
    /// probability of an error is at most the cost
    #[arg(long, allow_negative_numbers = true, value_name = "LEVEL", requires = "reject_cost")]
    pub(crate) level: Option<f64>,
    /// Name of a threshold of the model or baseline (see `nuq calibrate`): accepts a row if its uncertainty is at most the threshold
    #[arg(long, value_name = "NAME", conflicts_with = "reject_cost")]
    pub(crate) threshold: Option<String>,
    /// Name of prediction sets of the model (see `nuq calibrate --target sets=0.9`): writes the set of each row, empty for rows that
    /// a --threshold on the measure epistemic or density rejects
    #[arg(long, value_name = "NAME")]
    pub(crate) sets: Option<String>,
    /// Name of prediction intervals of the model (see `nuq calibrate --target intervals=0.9`): writes the ends `low` and `high`
    #[arg(long, value_name = "NAME")]
    pub(crate) intervals: Option<String>,
    /// Number of nearest training rows to write for each row (id, distance, label or target), at most the model's n_neighbors
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) output_neighbors: usize,
    /// What to do with rows that contain a NaN or an infinity
    ///
    /// Skipped rows have empty cells. An .npz file has NaN, 0, false or an empty string instead, and an array `scored` that is
    /// false for skipped rows.
    #[arg(long, alias = "on-nan", value_name = "ACTION", default_value = "error")]
    pub(crate) on_bad_rows: OnBadRows,
}

#[derive(Debug, clap::Args)]
pub(crate) struct CalibrateArgs {
    /// File of a model or of a baseline, or folder of a sharded model
    #[arg(short, long, value_name = "FILE")]
    pub(crate) model: PathBuf,
    /// Held-out rows, one embedding each; required unless a baseline uses logits or members only
    #[arg(
        short, long, value_name = "FILE",
        required_unless_present_any = ["remove", "temperature", "logits", "members"]
    )]
    pub(crate) embeddings: Option<ArraySpec>,
    /// Labels of the held-out rows: required by --target risk and sets, otherwise used to report the accuracy
    #[arg(short, long, value_name = "FILE")]
    pub(crate) labels: Option<ArraySpec>,
    /// Targets of the held-out rows of a regressor, for --target intervals
    #[arg(long, value_name = "FILE")]
    pub(crate) targets: Option<ArraySpec>,
    /// Logits of the held-out rows: the threshold is on the uncertainty of the network's predictions, and their errors are
    /// counted; `nuq score` then needs the logits of its rows too. A baseline may require them; with --labels, the network's errors
    /// are counted
    #[arg(long, value_name = "FILE")]
    pub(crate) logits: Option<ArraySpec>,
    /// Logits of several members for the held-out rows, members × rows × classes, for a baseline that uses them
    #[arg(long, value_name = "FILE")]
    pub(crate) members: Option<ArraySpec>,
    #[command(flatten)]
    pub(crate) input: RowArgs,
    /// Classes of the columns of the logits, as A,B,"C,D" [default: the labels in sorted order]
    #[arg(long, value_name = "LABELS", default_value = "", hide_default_value = true, requires = "logits")]
    pub(crate) classes: Names,
    /// What is guaranteed: coverage=SHARE, risk=SHARE, false_alarm=SHARE, sets=SHARE or intervals=SHARE, each between 0 and 1
    ///
    /// coverage: at least this share of rows is accepted. risk: at most this share of the accepted rows is wrong.
    /// false_alarm: at most this share of rows is rejected. sets: a set of classes contains the true one with at least this
    /// probability. intervals: an interval contains the target of a regressor with at least this probability.
    #[arg(long, value_name = "TARGET", required_unless_present_any = ["remove", "temperature"])]
    pub(crate) target: Option<TargetSpec>,
    /// Probability that the guarantee of --target risk fails, over draws of held-out rows, between 0 and 1 [default: 0.05]
    #[arg(long, allow_negative_numbers = true, value_name = "PROBABILITY")]
    pub(crate) delta: Option<f64>,
    /// Uncertainty of a model that is compared with the threshold [default: epistemic for false_alarm, total otherwise]
    #[arg(long, value_parser = choice::<Measure>())]
    pub(crate) measure: Option<Measure>,
    /// Score of a class for --target sets: lac is 1 - probability, aps the probability of the more probable classes plus a random share
    /// of its own [default: lac]
    #[arg(long, value_parser = choice::<SetScore>(), value_name = "SCORE")]
    pub(crate) set_score: Option<SetScore>,
    /// Coverage of the sets for each class instead of over all rows
    #[arg(long)]
    pub(crate) by_class: bool,
    /// Fit a temperature that divides all logits from now on, on --logits and --labels; thresholds and sets that were chosen with
    /// logits are removed
    #[arg(
        long, requires = "logits", requires = "labels",
        conflicts_with_all = ["embeddings", "targets", "members", "target", "delta", "measure", "name", "set_score", "by_class"]
    )]
    pub(crate) temperature: bool,
    /// Name of the threshold, sets or intervals in the model [default: the target, for example coverage=0.9]
    #[arg(long, value_name = "NAME")]
    pub(crate) name: Option<String>,
    /// Remove the threshold, sets or intervals of this name from the model instead
    #[arg(
        long, value_name = "NAME",
        conflicts_with_all = [
            "embeddings", "labels", "targets", "logits", "members", "classes", "target", "delta", "measure", "set_score", "by_class",
            "temperature", "name"
        ]
    )]
    pub(crate) remove: Option<String>,
    /// Output file for the changed model; - writes it to standard output, and the result to standard error [default: replace the
    /// model file]
    #[arg(short, long, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,
}

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

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum OnBadRows {
    /// Stop and list them
    #[value(alias = "refuse")]
    Error,
    /// Skip them
    Skip,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum Preset {
    /// Recommended values
    Default,
    /// Algorithm 1 of the paper: no prior, variance max, bandwidth accuracy, density bandwidth same, scale ambient
    Paper,
}
