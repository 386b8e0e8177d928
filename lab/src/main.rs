//! The program `lab`: downloads data, trains networks, runs the paper's experiments and writes the reproduction page.

mod args;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Parser;
use nuq_lab::data::get::{Download, Source, download, folder};
use nuq_lab::data::{DataError, outliers, sets};
use nuq_lab::experiments::{ALL, Context, Experiment};
use nuq_lab::results::write_page;
use nuq_lab::training::{Cache, Network, Progress, Silent, ToStderr};
use nuq_lab::{Exported, LabError, check_folder, export};

use crate::args::{Args, Command, RunArgs, TrainArgs};

/// Largest number of exported images per outlier set.
const MAX_OUTLIERS: usize = 10_000;

fn main() -> ExitCode {
    let result = match Args::parse().command {
        Command::List => {
            list();
            Ok(())
        }
        Command::GetData { names, cache } => names.iter().try_for_each(|source| get(source, &cache)),
        Command::Run(args) => run(&args),
        Command::Train(args) => train(&args),
        Command::Page { results, page } => {
            write_page(&results, &page).map(|missing| print_page(&page, &missing))
        }
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("lab: {error}");
            ExitCode::FAILURE
        }
    }
}

fn print_page(page: &Path, missing: &[&str]) {
    println!("{}", page.display());
    if !missing.is_empty() {
        eprintln!(
            "lab: the page marks these experiments as not run, because they have no results: {}",
            missing.join(", ")
        );
    }
}

fn list() {
    let width = ALL.iter().map(|experiment| experiment.name.len()).max().unwrap_or(0);
    for Experiment { name, about, .. } in ALL {
        println!("{name:width$}  {about}");
    }
}

fn get(source: &Source, cache: &Path) -> Result<(), LabError> {
    eprintln!("{}: checking files and downloading missing ones", source.title);
    let status = match download(source, cache)? {
        Download::Completed => "was downloaded and is",
        Download::AlreadyPresent => "is already",
    };
    println!("{} {status} in {}", source.title, folder(cache, source.name).display());
    Ok(())
}

fn train(args: &TrainArgs) -> Result<(), LabError> {
    let set = sets::read(&args.cache, args.set)?;
    let recipe = args.recipe(&set.train);
    let shape = set.train.images.shape();
    let outliers =
        outliers::for_network(*args.set, shape, &args.cache, user_data().as_deref(), MAX_OUTLIERS)?;
    check_folder(&args.out, &outliers)?;
    let networks = Cache::new(args.cache.join("networks"));
    let progress: &dyn Progress = if args.quiet { &Silent } else { &ToStderr::new(args.set.title) };
    let network = Network::train(&recipe, &set.train, &networks, progress)?;
    let Exported { files, accuracy } = export(&network, &set, &outliers, &args.out)?;
    println!("test accuracy: {:.2} %", 100.0 * accuracy);
    files.iter().for_each(|file| println!("{}", file.display()));
    Ok(())
}

/// The user's data folder (environment variable `NUQ_DATA`).
fn user_data() -> Option<PathBuf> {
    std::env::var_os("NUQ_DATA").map(Into::into)
}

fn run(args: &RunArgs) -> Result<(), LabError> {
    let mut context = Context::new(args.size, args.seeds(), &args.cache)
        .with_user_data(user_data())
        .with_embeddings(args.data.clone());
    if args.quiet {
        context = context.quiet();
    }
    let experiments = args.experiments();
    if let (Some(_), Some(other)) = (&args.data, experiments.iter().find(|it| !it.takes_embeddings())) {
        return Err(DataError::NoDataOption { experiment: other.name }.into());
    }
    // With --all, a training error must not prevent experiments that need no network. The other experiments report the error
    // themselves.
    let trained = if experiments.len() > 1 { context.train(&experiments) } else { Ok(()) };
    if !args.all {
        trained?;
    }
    let mut failed: Vec<&str> = Vec::new();
    for experiment in experiments {
        match experiment.run(&context, &args.out) {
            Ok((results, folder)) => {
                println!("{}\n{}: {}\n", results.markdown(), experiment.name, folder.display());
            }
            // With --all, experiments without data are skipped.
            Err(LabError::Data(error @ DataError::NoEmbeddings { .. })) if args.all => {
                eprintln!("lab: {} is skipped: {error}", experiment.name);
            }
            // With --all, one failure does not stop the remaining experiments.
            Err(error) if args.all => {
                eprintln!("lab: {}: {error}", experiment.name);
                failed.push(experiment.name);
            }
            Err(error) => return Err(error),
        }
    }
    if failed.is_empty() { Ok(()) } else { Err(LabError::Experiments { names: failed.join(", ") }) }
}
