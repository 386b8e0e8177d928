//! The command line of nuq. Results go to stdout, messages and progress to stderr.
//!
//! The binary `nuq` and the command of the Python package both call [`run`].

// `println!` and `eprintln!` panic if they cannot write, for example after `| head` has ended. They are therefore not used.
#![warn(clippy::print_stdout, clippy::print_stderr)]

mod args;
mod bad_rows;
mod baseline;
mod baseline_rows;
mod calibrate;
mod column;
mod demo;
mod destination;
mod error;
mod escape;
mod evaluate;
mod fit;
mod inspect;
mod interrupt;
mod label_issues;
mod man;
mod output;
mod progress;
mod rows;
mod score;
#[cfg(feature = "serve")]
mod serve;
mod suggest;
mod table_file;
mod table_format;
mod training_rows;
#[cfg(all(test, feature = "serve"))]
mod vocabulary;
mod wrap;

use std::error::Error as _;
use std::ffi::OsString;
use std::io::{self, Write};
use std::num::NonZero;

use clap::error::ContextValue;
use clap::{CommandFactory, Parser};
use serde_json::json;

use args::{Args, Command, Common};
use error::Error;

/// Largest number of threads per processor. More threads are not faster, and a hundred thousand of them do not start within minutes.
const MAX_THREADS_PER_PROCESSOR: usize = 16;

/// Runs a command and returns the exit code. The first word is the name of the program, as in [`std::env::args_os`].
///
/// The function must be called once, at the start of a process: it changes the panic hook, the signal mask and the number of threads of
/// the whole process. A signal can end the process before the function returns.
pub fn run(words: impl IntoIterator<Item = OsString>) -> u8 {
    silence_caught_panics();
    // If another process shortens a mapped file, this process ends with the exit code of unreadable files and not by the signal SIGBUS.
    nuq_io::guard_mapped_files(error::IO.into());
    let words: Vec<OsString> = words.into_iter().collect();
    let mut args = match Args::try_parse_from(args::join_stdin_values(words.iter().cloned())) {
        Ok(args) => args,
        Err(error) => return print_usage(error, &words),
    };
    args.common.words = words;
    // This must be called before the first thread starts, see `install_handler`.
    if !args.command.handles_signals() {
        interrupt::install_handler();
    }
    let as_json = args.common.json;
    match prepare_and_execute(args) {
        Ok(()) => 0,
        Err(error) => print_error(&error, as_json),
    }
}

/// Prints an error to standard error, as one line of JSON if `as_json` is set, and returns its exit code.
fn print_error(error: &Error, as_json: bool) -> u8 {
    let code = error.exit_code();
    match error {
        Error::ClosedPipe => {}
        _ if as_json => {
            output::print_json_line(&json!({ "error": error.to_string(), "exit_code": code }));
        }
        _ => output::print_message(&format!("nuq: {error}")),
    }
    code
}

/// Prints the help, the version or an error of the command line.
fn print_usage(mut error: clap::Error, words: &[OsString]) -> u8 {
    if !error.use_stderr() {
        return match error.print().and_then(|()| io::stdout().flush()) {
            Ok(()) => 0,
            Err(problem) => print_error(&output::stdout_error(problem), false),
        };
    }
    if is_json_requested(words) {
        let text = error.to_string();
        let text = text.strip_prefix("error: ").unwrap_or(&text).trim_end().to_owned();
        return print_error(&Error::Usage(text), true);
    }
    let escaped: Vec<_> = error
        .context()
        .filter_map(|(kind, value)| match value {
            ContextValue::String(text) => Some((kind, escape::name(text).into_owned())),
            _ => None,
        })
        .collect();
    for (kind, text) in escaped {
        error.insert(kind, ContextValue::String(text));
    }
    // A message that cannot be printed is lost; the exit code reports the error.
    let _ = error.print();
    2
}

/// Whether errors of the command line are printed as JSON. The words are searched, because there are no parsed options if the
/// command line is invalid.
fn is_json_requested(words: &[OsString]) -> bool {
    let is_true =
        |value: String| ["1", "t", "true", "y", "yes", "on"].contains(&value.to_lowercase().as_str());
    words.iter().any(|word| word == "--json") || std::env::var("NUQ_JSON").is_ok_and(is_true)
}

/// Installs a panic hook that prints nothing for panics that `nuq_io::catch_panic` returns as errors: panics of
/// the parquet reader and, in `nuq serve`, of the Arrow reader.
fn silence_caught_panics() {
    let default_hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        if !nuq_io::is_catching_panics() {
            default_hook(info);
        }
    }));
}

fn prepare_and_execute(Args { command, common }: Args) -> Result<(), Error> {
    let mut pool = rayon::ThreadPoolBuilder::new();
    if let Some(threads) = common.threads {
        if threads == 0 {
            return Err(Error::Usage("--threads 0: at least 1 is required".to_owned()));
        }
        let most = MAX_THREADS_PER_PROCESSOR * std::thread::available_parallelism().map_or(1, NonZero::get);
        if threads > most {
            let text = format!(
                "--threads {threads}: {most} threads are used, {MAX_THREADS_PER_PROCESSOR} per processor"
            );
            progress::message(&common, &text);
        }
        pool = pool.num_threads(threads.min(most));
    }
    // Without this call, the first search would start the threads, and would panic if the system cannot start them. Only an error of
    // the system has a source. An error without a source means that the process already has a thread pool, as in tests. The number of
    // threads of an existing pool cannot be changed.
    match pool.build_global() {
        Err(problem) if problem.source().is_some() || common.threads.is_some() => {
            return Err(Error::Threads(problem));
        }
        _ => {}
    }
    nuq_cuda::register();
    common.device.scope(|| execute(command, &common))
}

fn execute(command: Command, common: &Common) -> Result<(), Error> {
    match command {
        Command::Fit(options) => fit::run(&options, common),
        Command::Score(options) => score::run(&options, common),
        Command::Calibrate(options) => calibrate::run(&options, common),
        Command::Evaluate(options) => evaluate::run(&options, common),
        Command::Inspect(options) => inspect::run(&options, common),
        Command::LabelIssues(options) => label_issues::run(&options, common),
        Command::Suggest(options) => suggest::run(&options, common),
        #[cfg(feature = "serve")]
        Command::Serve(options) => serve::run(&options, common),
        Command::Demo(options) => demo::run(&options, common),
        Command::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Args::command(), "nuq", &mut script);
            output::print(&String::from_utf8_lossy(&script))
        }
        Command::Man(options) => man::run(&options, common),
    }
}
