//! The command line: commands, options and their help texts.

mod calibrate;
mod choice;
mod evaluate;
mod fit;
mod input;
mod score;
#[cfg(feature = "serve")]
mod serve;
mod values;

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::builder::BoolishValueParser;
use clap::{Parser, Subcommand, ValueEnum};
use nuq::Device;
use nuq_io::ArraySpec;

pub(crate) use calibrate::CalibrateArgs;
use choice::choice;
pub(crate) use evaluate::EvaluateArgs;
pub(crate) use fit::{FitArgs, Preset};
pub(crate) use input::{InputArgs, RowArgs, buffer_stdin, join_stdin_values};
pub(crate) use score::ScoreArgs;
#[cfg(feature = "serve")]
pub(crate) use serve::ServeArgs;
pub(crate) use values::{NamedArray, Names, TargetSpec};

/// Largest width of the help texts, in columns. Lines of the constants below are not longer, so that they are not wrapped.
const HELP_WIDTH: usize = 100;

/// Text after the help of `nuq`.
const WORKFLOW: &str = "\
Typical use:
  nuq fit --embeddings train.npz:embeddings --labels train.npz:labels --out model.nuq
  nuq calibrate --model model.nuq --embeddings held_out.npy --target coverage=0.9 --name main
  nuq score --model model.nuq --embeddings new.npy --threshold main --out scores.csv

Exit codes:
  0    success
  1    the data are invalid, or the value of an option is invalid for the method (--bandwidth -1)
  2    the command line cannot be parsed, an option is missing or contradicts other options or the
       files, or the value of an option is invalid for the command (--threads 0)
  3    a file cannot be read or written
  4    the memory is exhausted, or no threads can be started; no partial file is left
  129  ended by SIGHUP; no partial file is left
  130  interrupted by Ctrl-C (SIGINT); no partial file is left
  141  standard output was closed early, as by `| head`; output files are complete
  143  ended by SIGTERM; no partial file is left

Messages that cannot be written to standard error are lost; the exit code does not depend on them.";

/// Text after the help of each command that reads arrays.
const FILES: &str = "\
Files:
  Arrays are read from npy, npz, safetensors, csv and tsv files, and from parquet files in a build
  with the feature parquet. The contents decide the format; the name decides between csv and tsv.
  FILE:NAME selects one array of an npz or safetensors file, or one column of a table. If FILE is
  `-`, standard input is read; a command can read several arrays from it, such as -e - -l -:NAME.
  Files and standard input may be compressed with gzip, or with zstd in a build with the feature
  zstd.
  `nuq score` reads files in blocks. These inputs are held in memory: csv and tsv tables from
  standard input or a pipe (four bytes per number), arrays in Fortran order that are compressed or
  come from standard input, all of standard input if several arrays are read from it, and --members.
  Every column of a table of embeddings is a coordinate, except the row numbers that pandas
  writes, the columns that --labels, --targets or --weights select from the same file, and the
  columns that FILE:-NAME,NAME excludes; a name that contains a comma is written in quotation
  marks. The first line of a table is a header if it contains the names of the selected columns,
  if it contains no number and a line below does, or if it contains 0, 1, 2, … as pandas writes
  it. --header yes or --header no overrides this rule. Without them, it is an error if the rule
  does not decide, as for 0,1,2 above rows of integers. With --header no, NAME is the number of a
  column, counted from 0.
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
    /// Print the result as one JSON object, and each message and error as one line of JSON; with --out -, the report is one line of JSON on
    /// standard error
    #[arg(long, global = true, env = "NUQ_JSON", hide_env_values = true, value_parser = BoolishValueParser::new())]
    pub(crate) json: bool,
    /// Device of the neighbor search: the CPU, an NVIDIA GPU, or the one with the lower estimated time; the results are the same
    ///
    /// cuda is the first GPU, cuda:1 the second one. A GPU searches exactly: `nuq fit` then uses --index exact, and a model with a
    /// graph is an error. A GPU needs the NVIDIA driver, cuBLAS and NVRTC. The CUDA toolkit and PyTorch contain cuBLAS and NVRTC.
    #[arg(
        long, global = true, env = "NUQ_DEVICE", hide_env_values = true, value_parser = choice::<Device>(), value_name = "DEVICE",
        default_value = "auto"
    )]
    pub(crate) device: Device,
    /// How progress is shown on standard error
    #[arg(
        long,
        global = true,
        env = "NUQ_PROGRESS",
        hide_env_values = true,
        value_name = "STYLE",
        default_value = "auto"
    )]
    pub(crate) progress: ProgressKind,
    /// Print only results and errors; a command that writes a file prints nothing, unless --json is given
    #[arg(
        short, long, global = true, env = "NUQ_QUIET", hide_env_values = true, value_parser = BoolishValueParser::new()
    )]
    pub(crate) quiet: bool,
    /// Number of threads, at least 1 and at most 16 per processor [default: the number of processors]
    #[arg(long, global = true, env = "NUQ_THREADS", hide_env_values = true, value_name = "N")]
    pub(crate) threads: Option<usize>,
    /// The words of the command line. The first one is the name of the program.
    #[arg(skip)]
    pub(crate) words: Vec<OsString>,
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
    /// place of label and probability, and the additional column log_aleatoric. --threshold or --reject-cost adds accept (true or
    /// false); --output-neighbors adds the nearest training rows. Files are processed in blocks, so they may be larger than memory;
    /// only if --out is an npz file, all results are held in memory. A baseline (`nuq fit --method`) has the columns row and score, and accept
    /// with --threshold; a higher score means a higher uncertainty.
    ///
    /// Far from all training rows the probabilities equal the prior, and the label is the most frequent class, even if all
    /// neighbors have another label. A high log_epistemic and a low log_density show such rows; --output-neighbors shows the labels
    /// of their neighbors.
    #[command(after_long_help = FILES)]
    Score(ScoreArgs),
    /// Choose a threshold, prediction sets or intervals on held-out rows and store them in the model
    ///
    /// The held-out rows must come from the same distribution as the rows to be scored and must not be training rows.
    /// `nuq score --threshold NAME` then accepts or rejects each row by this threshold. A baseline (`nuq fit --method`) can store
    /// thresholds on its score. A warning is printed if held-out rows equal training rows; for a baseline this is possible only if
    /// its method searches neighbors, because the files of other methods do not contain the training rows.
    #[command(after_long_help = FILES)]
    Calibrate(CalibrateArgs),
    /// Compare NUQ with baseline methods on test rows and out-of-distribution rows
    ///
    /// Prints a table of all methods that the given arrays allow. Embeddings are enough for NUQ and the methods on embeddings.
    /// Methods on logits need the logits of every set (--logits, --ood-logits); methods on ensembles need the logits of
    /// several networks for every set (--members, --ood-members).
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
    /// Every option is also an environment variable, such as NUQ_MAX_ROWS for --max-rows; an option of the command line takes
    /// precedence.
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

/// The model file: a positional argument, or `--model` as in other commands.
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
    /// Largest number of rows to list [default: 20; all rows if --out is given]
    #[arg(short = 'n', long, alias = "most", value_name = "N")]
    pub(crate) count: Option<usize>,
    /// Output file, .csv, .tsv or .jsonl, also with .gz or .zst; the name - prints csv, or JSON lines with --json [default: print a table]
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
    /// Output file, .csv, .tsv or .jsonl, also with .gz or .zst; the name - prints csv, or JSON lines with --json [default: print a table]
    #[arg(short, long, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,
    /// What to do with rows that contain a NaN or an infinity
    #[arg(long, alias = "on-nan", value_name = "ACTION", default_value = "error")]
    pub(crate) on_bad_rows: OnBadRows,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum OnBadRows {
    /// Stop and list them
    #[value(alias = "refuse")]
    Error,
    /// Skip them
    Skip,
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory, Parser};
    use proptest::prelude::*;
    use proptest::sample::select;

    use super::Args;

    /// Exit codes of clap: help and version texts, and command lines that cannot be parsed.
    const EXIT_CODES: [i32; 2] = [0, 2];

    /// The names of the commands, and all options with their dashes.
    fn words() -> Vec<String> {
        let command = Args::command();
        let commands = || std::iter::once(&command).chain(command.get_subcommands());
        let names = commands().map(|command| command.get_name().to_owned());
        let options = commands().flat_map(|command| {
            let arguments = command.get_arguments();
            arguments.flat_map(|argument| {
                let long = argument.get_long().map(|name| format!("--{name}"));
                let short = argument.get_short().map(|name| format!("-{name}"));
                long.into_iter().chain(short).collect::<Vec<_>>()
            })
        });
        names.chain(options).collect()
    }

    /// Numbers at the limits of their types, values with missing parts, and any text.
    fn value() -> impl Strategy<Value = String> {
        let limits = select(vec![
            "0",
            "-0",
            "-1",
            "1e999",
            "NaN",
            "inf",
            "1e-320",
            "18446744073709551616",
            "-9223372036854775809",
            "99999999999999999999999999",
            "",
            "-",
            "--",
            "=",
            "a=",
            "=a",
            "a=b:",
            ":",
            ":a",
            "-:",
            "a:-b",
            "\"",
            "\"a",
            ",",
            "a,,b",
            "coverage=",
            "coverage=NaN",
            "sets=1e999",
            "cuda:",
            "cuda:99999999999",
            "every:0",
            "\u{0}",
            "\u{feff}a",
        ]);
        prop_oneof![
            limits.prop_map(str::to_owned),
            any::<String>(),
            any::<f64>().prop_map(|value| value.to_string())
        ]
    }

    /// Each command with each of its long options.
    fn options_of_commands() -> Vec<(String, String)> {
        let options = |command: &clap::Command| {
            let name = command.get_name().to_owned();
            let longs = command.get_arguments().filter_map(|argument| argument.get_long());
            longs.map(|long| (name.clone(), format!("--{long}"))).collect::<Vec<_>>()
        };
        Args::command().get_subcommands().flat_map(options).collect()
    }

    proptest! {
        #[test]
        fn every_command_line_is_parsed_or_is_an_error_with_a_message(
            command in select(words()),
            rest in prop::collection::vec(prop_oneof![select(words()), value()], 0..8),
        ) {
            let words = ["nuq".to_owned(), command].into_iter().chain(rest);
            if let Err(error) = Args::try_parse_from(words) {
                prop_assert!(EXIT_CODES.contains(&error.exit_code()), "{}", error.exit_code());
                prop_assert!(!error.to_string().trim().is_empty());
            }
        }

        #[test]
        fn every_value_of_an_option_is_parsed_or_is_an_error_with_a_message(
            (command, option) in select(options_of_commands()),
            value in value(),
        ) {
            let words = ["nuq".to_owned(), command, format!("{option}={value}")];
            if let Err(error) = Args::try_parse_from(words) {
                prop_assert_eq!(error.exit_code(), 2, "{}", error);
                prop_assert!(!error.to_string().trim().is_empty());
            }
        }
    }
}
