//! `lab`: brings data, runs the paper's experiments, writes the page on them.

mod args;

use std::path::Path;
use std::process::ExitCode;

use clap::Parser;
use nuq_lab::LabError;
use nuq_lab::data::DataError;
use nuq_lab::data::get::{Brought, Source, bring, folder};
use nuq_lab::experiments::{ALL, Experiment, Lab};
use nuq_lab::results::write_page;

use crate::args::{Args, Command, RunArgs};

fn main() -> ExitCode {
    let done = match Args::parse().command {
        Command::List => {
            list();
            Ok(())
        }
        Command::GetData { names, cache } => names.iter().try_for_each(|source| get(source, &cache)),
        Command::Run(args) => run(&args),
        Command::Page { results, page } => write_page(&results, &page),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("lab: {error}");
            ExitCode::FAILURE
        }
    }
}

fn list() {
    let width = ALL.iter().map(|experiment| experiment.name.len()).max().unwrap_or(0);
    for Experiment { name, about, .. } in ALL {
        println!("{name:width$}  {about}");
    }
}

fn get(source: &Source, cache: &Path) -> Result<(), LabError> {
    eprintln!("{}: looking, and bringing what is missing", source.title);
    let verb = match bring(source, cache)? {
        Brought::Now => "is now",
        Brought::Before => "was already",
    };
    println!("{} {verb} in {}", source.title, folder(cache, source.name).display());
    Ok(())
}

fn run(args: &RunArgs) -> Result<(), LabError> {
    let mut lab = Lab::new(args.size, args.seeds(), &args.cache)
        .with_user_data(std::env::var_os("NUQ_DATA").map(Into::into))
        .with_embeddings(args.data.clone());
    if args.quiet {
        lab = lab.quiet();
    }
    let mut failed: Vec<&str> = Vec::new();
    for experiment in args.experiments() {
        match experiment.run(&lab, &args.out) {
            Ok((results, folder)) => {
                println!("{}\n{}: {}\n", results.markdown(), experiment.name, folder.display());
            }
            // Who asks for all asks for those that can be run.
            Err(LabError::Data(error @ DataError::NoFolder { .. })) if args.all => {
                eprintln!("lab: {} is skipped: {error}", experiment.name);
            }
            // Of many the others are run all the same.
            Err(error) if args.all => {
                eprintln!("lab: {}: {error}", experiment.name);
                failed.push(experiment.name);
            }
            Err(error) => return Err(error),
        }
    }
    if failed.is_empty() { Ok(()) } else { Err(LabError::Experiments { names: failed.join(", ") }) }
}
