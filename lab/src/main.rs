//! `lab`: brings data, trains networks, runs the paper's experiments, writes the page on them.

mod args;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Parser;
use nuq_lab::data::get::{Brought, Source, bring, folder};
use nuq_lab::data::{DataError, outliers, sets};
use nuq_lab::experiments::{ALL, Experiment, Lab};
use nuq_lab::results::write_page;
use nuq_lab::training::{Cache, Network, Progress, Silent, ToStderr};
use nuq_lab::{Exported, LabError, check_folder, export};

use crate::args::{Args, Command, RunArgs, TrainArgs};

/// Pictures of each set of outliers that are written.
const MOST_OUTLIERS: usize = 10_000;

fn main() -> ExitCode {
    let done = match Args::parse().command {
        Command::List => {
            list();
            Ok(())
        }
        Command::GetData { names, cache } => names.iter().try_for_each(|source| get(source, &cache)),
        Command::Run(args) => run(&args),
        Command::Train(args) => train(&args),
        Command::Page { results, page } => write_page(&results, &page).map(|missing| told(&page, &missing)),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("lab: {error}");
            ExitCode::FAILURE
        }
    }
}

fn told(page: &Path, missing: &[&str]) {
    println!("{}", page.display());
    if !missing.is_empty() {
        eprintln!("lab: these have no results, and the page says so: {}", missing.join(", "));
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

fn train(args: &TrainArgs) -> Result<(), LabError> {
    let set = sets::read(&args.cache, args.set)?;
    let recipe = args.recipe(&set.train);
    let shape = set.train.images.shape();
    let outliers = outliers::beside(*args.set, shape, &args.cache, user_data().as_deref(), MOST_OUTLIERS)?;
    check_folder(&args.out, &outliers)?;
    let networks = Cache::new(args.cache.join("networks"));
    let progress: &dyn Progress = if args.quiet { &Silent } else { &ToStderr::new(args.set.title) };
    let network = Network::train(&recipe, &set.train, &networks, progress)?;
    let Exported { files, accuracy } = export(&network, &set, &outliers, &args.out)?;
    println!("{:.2} % of the test pictures are told right", 100.0 * accuracy);
    files.iter().for_each(|file| println!("{}", file.display()));
    Ok(())
}

fn user_data() -> Option<PathBuf> {
    std::env::var_os("NUQ_DATA").map(Into::into)
}

fn run(args: &RunArgs) -> Result<(), LabError> {
    let mut lab = Lab::new(args.size, args.seeds(), &args.cache)
        .with_user_data(user_data())
        .with_embeddings(args.data.clone());
    if args.quiet {
        lab = lab.quiet();
    }
    let experiments = args.experiments();
    if let (Some(_), Some(other)) = (&args.data, experiments.iter().find(|it| !it.takes_embeddings())) {
        return Err(DataError::NotTaken { experiment: other.name }.into());
    }
    // Of all experiments those that need no network are run without it, and each of the others says itself what was wrong.
    let trained = if experiments.len() > 1 { lab.train(&experiments) } else { Ok(()) };
    if !args.all {
        trained?;
    }
    let mut failed: Vec<&str> = Vec::new();
    for experiment in experiments {
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
