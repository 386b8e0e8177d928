//! The command line of nuq. Results go to stdout, messages and progress to stderr.

mod args;
mod bad_rows;
mod calibrate;
mod demo;
mod error;
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
mod suggest;
#[cfg(test)]
mod vocabulary;

use std::process::ExitCode;

use clap::{CommandFactory, Parser};

use args::{Args, Command};
use error::Error;

fn main() -> ExitCode {
    silence_caught_panics();
    match run(Args::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("nuq: {error}");
            error.exit_code()
        }
    }
}

/// Installs a panic hook that prints nothing for the panics of the parquet reader that nuq-io returns as errors.
fn silence_caught_panics() {
    let default_hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        if !nuq_io::is_catching_panics() {
            default_hook(info);
        }
    }));
}

fn run(Args { command, common }: Args) -> Result<(), Error> {
    interrupt::install_handler();
    if let Some(threads) = common.threads {
        if threads == 0 {
            return Err(Error::Data("--threads 0: at least 1 is required".to_owned()));
        }
        let built = rayon::ThreadPoolBuilder::new().num_threads(threads).build_global();
        built.map_err(|problem| Error::Usage(format!("--threads {threads}: {problem}")))?;
    }
    match command {
        Command::Fit(options) => fit::run(&options, &common),
        Command::Score(options) => score::run(&options, &common),
        Command::Calibrate(options) => calibrate::run(&options, &common),
        Command::Evaluate(options) => evaluate::run(&options, &common),
        Command::Inspect(options) => inspect::run(&options, &common),
        Command::LabelIssues(options) => label_issues::run(&options, &common),
        Command::Suggest(options) => suggest::run(&options, &common),
        Command::Demo(options) => demo::run(&options),
        Command::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Args::command(), "nuq", &mut script);
            output::print(&String::from_utf8_lossy(&script))
        }
        Command::Man(options) => man::run(&options),
    }
}
