//! What can be typed.

use std::path::PathBuf;

use clap::{Parser, Subcommand, ValueEnum};
use nuq_io::ArraySpec;

/// When not to trust a network: uncertainty from its embeddings.
///
/// Results go to standard output, everything else to standard error. Exit codes: 0 done; 1 the data, or a
/// number given for an option, were refused; 2 the command line was not understood; 3 a file could not be read or written;
/// 130 interrupted, with nothing half-written.
#[derive(Debug, Parser)]
#[command(name = "nuq", version, arg_required_else_help = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) command: Command,
    #[command(flatten)]
    pub(crate) common: Common,
}

/// Options of every command.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Common {
    /// Print results as JSON
    #[arg(long, global = true, help_heading = "Everywhere")]
    pub(crate) json: bool,
    /// How a long run shows that it lives: a bar on a terminal, or plain lines
    #[arg(long, global = true, value_name = "HOW", default_value = "auto", help_heading = "Everywhere")]
    pub(crate) progress: ProgressKind,
    /// Say nothing but results and errors. A command that writes its result to a file then prints nothing, unless --json asks
    #[arg(long, global = true, help_heading = "Everywhere")]
    pub(crate) quiet: bool,
    /// Threads to use; all processors when not given
    #[arg(long, global = true, value_name = "N", help_heading = "Everywhere")]
    pub(crate) threads: Option<usize>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ProgressKind {
    /// A bar on a terminal, nothing elsewhere
    Auto,
    /// Plain lines
    Plain,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Fit a model to embeddings and labels, and save it
    ///
    /// Files are npy, npz, safetensors, csv, tsv or parquet. One array of several, or one column of a table, is named as FILE:NAME.
    /// In a table of embeddings every column is a coordinate, but for the row numbers that pandas writes, the column that
    /// --labels or --targets names in the same file, and those that FILE:-NAME,NAME leaves out.
    Fit(Box<FitArgs>),
    /// Label, probability, uncertainties and decision of each row of a file
    Score(ScoreArgs),
    /// A threshold with a promise, chosen on held-out rows and kept in the model
    ///
    /// The rows must resemble those to come, and must not be those that the model was fitted to. `nuq score --threshold NAME`
    /// decides by it.
    Calibrate(CalibrateArgs),
    /// How good it is, beside every method that the arrays allow: a table, a page, figures
    ///
    /// Embeddings alone allow NUQ and the methods that look at embeddings; logits of all sets allow those that look at logits,
    /// and logits of several members (--members) of all sets those that look at how they disagree. Columns of logits are
    /// classes in the order of the sorted labels, unless --classes tells another.
    Evaluate(EvaluateArgs),
    /// What a model file holds: rows, classes, bandwidths, index, sections
    Inspect(InspectArgs),
    /// Training rows whose label the others find unlikely, the worst first
    ///
    /// Each training row is left out in turn; it is listed when the rest finds another class likelier than its own.
    LabelIssues(LabelIssuesArgs),
    /// Rows of a file that are worth a label: uncertain, and not all of one kind
    Suggest(SuggestArgs),
    /// See it work: fit Two Moons, print a table, draw the uncertainty maps
    ///
    /// Fits NUQ to Two Moons of 200 and of 2000 points, prints what it learned and how uncertain it is inside the
    /// moons, between them and far away, and draws the maps as SVG and PNG.
    Demo(DemoArgs),
    /// Completions for a shell, to be put where it looks for them
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
    /// Manual pages, one for each command
    ///
    /// Put them where man looks, as ~/.local/share/man/man1 or /usr/local/share/man/man1.
    Man(ManArgs),
}

#[derive(Debug, clap::Args)]
pub(crate) struct ManArgs {
    /// Folder for the pages; made when it is not there
    #[arg(long, value_name = "DIR")]
    pub(crate) out: PathBuf,
}

#[derive(Debug, clap::Args)]
pub(crate) struct DemoArgs {
    /// Folder for the figure; made when it is not there
    #[arg(long, value_name = "DIR", default_value = "nuq-demo")]
    pub(crate) out: PathBuf,
}

#[derive(Debug, clap::Args)]
pub(crate) struct InspectArgs {
    /// The model
    pub(crate) model: PathBuf,
    /// Also read all of the file and compare it with its checksums
    #[arg(long)]
    pub(crate) verify: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct LabelIssuesArgs {
    /// The model
    pub(crate) model: PathBuf,
    /// How many to list
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub(crate) most: usize,
}

#[derive(Debug, clap::Args)]
pub(crate) struct SuggestArgs {
    /// The model
    #[arg(long, value_name = "FILE")]
    pub(crate) model: PathBuf,
    /// Rows without labels: npy, npz, safetensors, csv, tsv or parquet; one array of several is named as FILE:NAME
    #[arg(long, value_name = "FILE")]
    pub(crate) embeddings: ArraySpec,
    /// How many to suggest
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub(crate) count: usize,
    /// Where they go: a .csv file; printed when not given
    #[arg(long, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,
    /// What to do with rows that hold a NaN or an infinity
    #[arg(long, value_name = "WHAT", default_value = "refuse")]
    pub(crate) on_nan: OnNan,
}

#[derive(Debug, clap::Args)]
#[command(group(clap::ArgGroup::new("answers").required(true).args(["labels", "targets"])))]
pub(crate) struct FitArgs {
    /// Training rows, one embedding each
    #[arg(long, value_name = "FILE")]
    pub(crate) embeddings: ArraySpec,
    /// Their labels, integers or strings: fits a classifier
    #[arg(long, value_name = "FILE")]
    pub(crate) labels: Option<ArraySpec>,
    /// Their targets, numbers: fits a regressor
    #[arg(long, value_name = "FILE")]
    pub(crate) targets: Option<ArraySpec>,
    /// Where the model goes
    #[arg(long, value_name = "FILE")]
    pub(crate) out: PathBuf,

    /// What options that are not given stand at: the defaults to use, or Algorithm 1 of the paper, for which a query whose
    /// neighbors share a class is certain however far away it is
    #[arg(long, default_value = "default", help_heading = "Model")]
    pub(crate) preset: Preset,
    /// Neighbors that every sum runs over [default: 20]
    #[arg(long, value_name = "N", help_heading = "Model")]
    pub(crate) k: Option<usize>,
    /// The kernel [default: gaussian]
    #[arg(long, help_heading = "Model")]
    pub(crate) kernel: Option<KernelName>,
    /// log-likelihood, accuracy, silverman, scott, isj, adaptive, or a number [default: log-likelihood; squared error for
    /// targets]
    #[arg(long, allow_negative_numbers = true, value_name = "RULE", help_heading = "Model")]
    pub(crate) bandwidth: Option<BandwidthName>,
    /// Kernel density, one Gaussian per class, or both combined: auto ranks what is unlike the training data best where one
    /// does not know which fits them [default: kde]
    #[arg(long, help_heading = "Model")]
    pub(crate) density: Option<DensityName>,
    /// Of the kernel density: kth (half the median distance to the k-th neighbor), same (as the posterior's), or a number
    /// [default: kth]
    #[arg(long, allow_negative_numbers = true, value_name = "RULE", help_heading = "Model")]
    pub(crate) density_bandwidth: Option<DensityBandwidthName>,
    /// Of the class Gaussians [default: full]
    #[arg(long, help_heading = "Model")]
    pub(crate) covariance: Option<CovarianceName>,
    /// Of the class Gaussians: auto (Ledoit and Wolf), or a number from 0 to 1 [default: auto]
    #[arg(long, allow_negative_numbers = true, value_name = "AMOUNT", help_heading = "Model")]
    pub(crate) shrinkage: Option<ShrinkageName>,
    /// What the prior counts for, in training points that sit on the query [default: 0.001]
    #[arg(long, allow_negative_numbers = true, value_name = "W", help_heading = "Model")]
    pub(crate) prior_weight: Option<f64>,
    /// The variance term of the epistemic uncertainty [default: sum]
    #[arg(long, help_heading = "Model")]
    pub(crate) variance: Option<VarianceName>,
    /// The dimension in the constants [default: intrinsic]
    #[arg(long, help_heading = "Model")]
    pub(crate) dimension: Option<DimensionName>,
    /// Divide every row by its length first
    #[arg(long, help_heading = "Model")]
    pub(crate) normalize: bool,

    /// How neighbors are found: auto takes whichever costs less
    #[arg(long, default_value = "auto", help_heading = "Search")]
    pub(crate) index: IndexName,
    /// The share of true neighbors that a graph must find [default: 0.99]
    #[arg(long, allow_negative_numbers = true, value_name = "SHARE", help_heading = "Search")]
    pub(crate) recall: Option<f64>,
    /// How a graph keeps the rows; f16 takes half the memory [default: f32]
    #[arg(long, help_heading = "Search")]
    pub(crate) precision: Option<PrecisionName>,
    /// Queries that the model will answer: what building a graph is weighed against [default: 10000]
    #[arg(long, value_name = "N", help_heading = "Search")]
    pub(crate) expected_queries: Option<u64>,
    /// Seed of the samples that are drawn
    #[arg(long, value_name = "N", default_value_t = 0, help_heading = "Search")]
    pub(crate) seed: u64,
}

#[derive(Debug, clap::Args)]
pub(crate) struct ScoreArgs {
    /// The model
    #[arg(long, value_name = "FILE")]
    pub(crate) model: PathBuf,
    /// The rows to score: npy, npz, safetensors, csv, tsv or parquet; one array of several is named as FILE:NAME
    #[arg(long, value_name = "FILE")]
    pub(crate) embeddings: ArraySpec,
    /// Where the scores go: a .csv, .jsonl, .npz or .parquet file, or - for csv (with --json, lines of JSON) on standard output. With
    /// --on-nan skip, an .npz file has an array `scored` too: what is not has NaN, label 0 or an empty one
    #[arg(long, value_name = "FILE")]
    pub(crate) out: PathBuf,
    /// What an abstention costs, between 0 and 1: adds the decision, to accept where an error is less likely than that
    #[arg(long, allow_negative_numbers = true, value_name = "COST")]
    pub(crate) reject_cost: Option<f64>,
    /// Between 0 and 1/2: accept only where the data show, at this level, that an error is less likely than the cost
    #[arg(long, allow_negative_numbers = true, value_name = "LEVEL", requires = "reject_cost")]
    pub(crate) level: Option<f64>,
    /// Decide by a threshold that `nuq calibrate` put into the model
    #[arg(long, value_name = "NAME", conflicts_with = "reject_cost")]
    pub(crate) threshold: Option<String>,
    /// Also tell the nearest training rows: ids, distances and labels of so many
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) neighbors: usize,
    /// What to do with rows that hold a NaN or an infinity
    #[arg(long, value_name = "WHAT", default_value = "refuse")]
    pub(crate) on_nan: OnNan,
}

#[derive(Debug, clap::Args)]
pub(crate) struct CalibrateArgs {
    /// The model
    #[arg(long, value_name = "FILE")]
    pub(crate) model: PathBuf,
    /// Held-out rows
    #[arg(long, value_name = "FILE")]
    pub(crate) embeddings: ArraySpec,
    /// Their labels: needed for a risk, and otherwise to tell the accuracy of what is accepted
    #[arg(long, value_name = "FILE")]
    pub(crate) labels: Option<ArraySpec>,
    /// Their logits: errors are then those of the network, and not of the labels that nuq gives
    #[arg(long, value_name = "FILE", requires = "labels")]
    pub(crate) logits: Option<ArraySpec>,
    /// The classes that the columns of the logits stand for, as A,B,C [default: the labels, sorted]
    #[arg(long, value_name = "LABELS", value_delimiter = ',', requires = "logits")]
    pub(crate) classes: Vec<String>,
    /// coverage=SHARE to accept at least so many, risk=SHARE for at most so many errors among what is accepted,
    /// false-alarm=SHARE to reject at most so many of rows like these
    #[arg(long, value_name = "TARGET")]
    pub(crate) target: TargetName,
    /// How often a promised risk may fail, over draws of held-out rows [default: 0.05]
    #[arg(long, allow_negative_numbers = true, value_name = "SHARE")]
    pub(crate) delta: Option<f64>,
    /// What is compared with the threshold [default: epistemic for false-alarm, total otherwise]
    #[arg(long)]
    pub(crate) measure: Option<MeasureName>,
    /// The threshold's name [default: the target as it was typed]
    #[arg(long, value_name = "NAME")]
    pub(crate) name: Option<String>,
    /// Where the model with its threshold goes [default: in place of the model]
    #[arg(long, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum MeasureName {
    Aleatoric,
    Epistemic,
    Total,
    Density,
}

/// A target, `WHAT=SHARE`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum TargetName {
    Coverage(f64),
    Risk(f64),
    FalseAlarm(f64),
}

impl std::str::FromStr for TargetName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let refuse =
            || "it is coverage=SHARE, risk=SHARE or false-alarm=SHARE, as in coverage=0.9".to_owned();
        let (what, share) = text.split_once('=').ok_or_else(refuse)?;
        let share = share.parse().map_err(|_| refuse())?;
        match what {
            "coverage" => Ok(Self::Coverage(share)),
            "risk" => Ok(Self::Risk(share)),
            "false-alarm" => Ok(Self::FalseAlarm(share)),
            _ => Err(refuse()),
        }
    }
}

impl std::fmt::Display for TargetName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Coverage(share) => write!(f, "coverage={share}"),
            Self::Risk(share) => write!(f, "risk={share}"),
            Self::FalseAlarm(share) => write!(f, "false-alarm={share}"),
        }
    }
}

#[derive(Debug, clap::Args)]
#[command(group(clap::ArgGroup::new("predictions").multiple(true).args(["logits", "members"])))]
pub(crate) struct EvaluateArgs {
    /// The model
    #[arg(long, value_name = "FILE")]
    pub(crate) model: PathBuf,
    /// Test rows: like the training rows, but not among them
    #[arg(long, value_name = "FILE")]
    pub(crate) test: ArraySpec,
    /// Their labels
    #[arg(long, value_name = "FILE")]
    pub(crate) labels: ArraySpec,
    /// Their logits: what the network said
    #[arg(long, value_name = "FILE")]
    pub(crate) logits: Option<ArraySpec>,
    /// Logits that several networks gave them, or one network several times (deep ensemble, dropout, test-time augmentation):
    /// an array of members × rows × classes
    #[arg(long, value_name = "FILE")]
    pub(crate) members: Option<ArraySpec>,
    /// A set that is unlike the training rows; may be given again
    #[arg(long, value_name = "NAME=FILE")]
    pub(crate) ood: Vec<NamedArray>,
    /// The logits of a set that --ood names; may be given again
    #[arg(long, value_name = "NAME=FILE")]
    pub(crate) ood_logits: Vec<NamedArray>,
    /// The members' logits of a set that --ood names; may be given again
    #[arg(long, value_name = "NAME=FILE")]
    pub(crate) ood_members: Vec<NamedArray>,
    /// The classes that the columns of the logits, and of the members', stand for, as A,B,C [default: the labels, sorted]
    #[arg(long, value_name = "LABELS", value_delimiter = ',', requires = "predictions")]
    pub(crate) classes: Vec<String>,
    /// Show what a threshold of the model does
    #[arg(long, value_name = "NAME")]
    pub(crate) threshold: Option<String>,
    /// Where a page with all of it goes: one .html file
    #[arg(long, value_name = "FILE")]
    pub(crate) report: Option<PathBuf>,
    /// Folder for the figures, each as SVG and PNG; made when it is not there
    #[arg(long, value_name = "DIR")]
    pub(crate) figures: Option<PathBuf>,
    /// How often rows are drawn anew for intervals and comparisons
    #[arg(long, value_name = "N", default_value_t = 1000)]
    pub(crate) resamples: usize,
    /// Seed of all that is drawn
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) seed: u64,
}

/// An array with a name of the user's own, `NAME=FILE`.
#[derive(Debug, Clone)]
pub(crate) struct NamedArray {
    pub(crate) name: String,
    pub(crate) spec: ArraySpec,
}

impl std::str::FromStr for NamedArray {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once('=') {
            Some((name, file)) if !name.is_empty() => {
                let spec = file.parse().map_err(|problem| format!("{problem}"))?;
                Ok(Self { name: name.to_owned(), spec })
            }
            _ => Err("it is NAME=FILE, as in svhn=svhn.npz:embeddings".to_owned()),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum OnNan {
    /// Stop and name them
    Refuse,
    /// Go on with the rest; their scores stay empty
    Skip,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum Preset {
    Default,
    Paper,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum KernelName {
    Gaussian,
    Sigmoid,
    Logistic,
    Student,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum DensityName {
    Kde,
    Gmm,
    Auto,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum CovarianceName {
    Full,
    Tied,
    Diagonal,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum VarianceName {
    Sum,
    Max,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum DimensionName {
    Intrinsic,
    Ambient,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum IndexName {
    Auto,
    Exact,
    Hnsw,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum PrecisionName {
    F32,
    F16,
}

/// Defines an option that is one of some words or a number.
macro_rules! word_or_number {
    ($(#[$doc:meta])* $name:ident { $($variant:ident = $word:literal),* }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq)]
        pub(crate) enum $name {
            $($variant,)*
            Number(f64),
        }

        impl std::str::FromStr for $name {
            type Err = String;

            fn from_str(text: &str) -> Result<Self, String> {
                match text {
                    $($word => Ok(Self::$variant),)*
                    _ => text.parse().map(Self::Number).map_err(|_| {
                        format!("it is one of {}, or a number", [$($word),*].join(", "))
                    }),
                }
            }
        }
    };
}

word_or_number!(
    /// How the posterior's bandwidth is found.
    BandwidthName {
        LogLikelihood = "log-likelihood",
        Accuracy = "accuracy",
        Silverman = "silverman",
        Scott = "scott",
        Isj = "isj",
        Adaptive = "adaptive"
    }
);
word_or_number!(
    /// How the density's bandwidth is found.
    DensityBandwidthName { Kth = "kth", Same = "same" }
);
word_or_number!(
    /// How much covariances are shrunk.
    ShrinkageName { Auto = "auto" }
);
