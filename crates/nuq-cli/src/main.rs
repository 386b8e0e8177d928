//! The command `nuq`: arguments in, one command run, results on stdout and everything else on stderr.

mod args;
mod demo;
mod error;
mod output;

use std::process::ExitCode;

use clap::Parser;

use args::{Args, Command};

fn main() -> ExitCode {
    let Args { command } = Args::parse();
    let result = match command {
        Command::Demo(options) => demo::run(&options),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("nuq: {error}");
            error.exit_code()
        }
    }
}
