//! State that all experiments of a run share: settings, folders and cached intermediate results.

use std::cell::OnceCell;
use std::fmt;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use serde::{Deserialize, Serialize};

use super::Experiment;
use super::digits::Digits;
use super::memo::{Memo, get_or_try_init};
use super::methods::{Method, Scores};
use super::network_outputs::NetworkOutputs;
use super::networks::{NetworkId, TrainedNetworks};
use crate::LabError;
use crate::data::DataError;
use crate::training::Cache;

/// Size of an experiment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Size {
    /// As in the paper, or as close as two CPU cores allow.
    Full,
    /// For a quick run: a few minutes for all experiments.
    Small,
    /// For tests: seconds. The results are not meaningful.
    Tiny,
}

impl Size {
    /// Selects the value for this size.
    pub fn pick<T>(self, full: T, small: T, tiny: T) -> T {
        match self {
            Size::Full => full,
            Size::Small => small,
            Size::Tiny => tiny,
        }
    }
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.pick("full", "small", "tiny"))
    }
}

/// Settings and cached intermediate results of a run.
pub struct Context {
    /// Size of the experiments.
    pub size: Size,
    /// Number of seeds for experiments that average over seeds.
    pub seeds: usize,
    /// Folder for data sets and trained networks.
    cache: PathBuf,
    /// The user's data folder (environment variable `NUQ_DATA`).
    user: Option<PathBuf>,
    /// Folder of embeddings (option `--data`).
    data: Option<PathBuf>,
    is_quiet: bool,
    digits: OnceCell<Digits>,
    trained_networks: TrainedNetworks,
    network_outputs: Memo<NetworkId, NetworkOutputs>,
    scores: Memo<(Method, NetworkId), Scores>,
}

impl Context {
    /// Creates a context with a cache folder for data sets and networks.
    #[must_use]
    pub fn new(size: Size, seeds: usize, cache: impl Into<PathBuf>) -> Self {
        Self {
            size,
            seeds,
            cache: cache.into(),
            user: None,
            data: None,
            is_quiet: false,
            digits: OnceCell::new(),
            trained_networks: TrainedNetworks::default(),
            network_outputs: Memo::default(),
            scores: Memo::default(),
        }
    }

    /// Sets the user's data folder (environment variable `NUQ_DATA`).
    #[must_use]
    pub fn with_user_data(self, user: Option<PathBuf>) -> Self {
        Self { user, ..self }
    }

    /// Sets a folder of embeddings (option `--data`), which replaces the embeddings in the user's data folder.
    #[must_use]
    pub fn with_embeddings(self, data: Option<PathBuf>) -> Self {
        Self { data, ..self }
    }

    /// Disables progress messages on stderr.
    #[must_use]
    pub fn quiet(self) -> Self {
        Self { is_quiet: true, ..self }
    }

    /// The folder for data sets and trained networks.
    pub fn cache(&self) -> &Path {
        &self.cache
    }

    /// The cache of trained networks.
    pub fn networks(&self) -> Cache {
        Cache::new(self.cache.join("networks"))
    }

    /// The user's data folder.
    pub fn user_data(&self) -> Option<&Path> {
        self.user.as_deref()
    }

    /// The folder of embeddings: the folder of `--data`, or `data/NAME` in the user's data folder.
    ///
    /// # Errors
    /// If `--data` is not given and the user's data folder has no `data/NAME`. Whether the folder of `--data` exists is not checked.
    pub fn embeddings(&self, name: &'static str) -> Result<PathBuf, LabError> {
        match (&self.data, &self.user) {
            (Some(folder), _) => Ok(folder.clone()),
            (None, Some(user)) if user.join("data").join(name).is_dir() => Ok(user.join("data").join(name)),
            (None, _) => Err(DataError::NoEmbeddings { name }.into()),
        }
    }

    /// Whether embeddings come from the user's data folder and not from `--data`. Only for the user's data folder is it known which
    /// network computed the embeddings.
    pub(super) fn uses_default_embeddings(&self) -> bool {
        self.data.is_none()
    }

    /// Prints a progress message to stderr, unless messages are disabled.
    pub fn log(&self, message: &str) {
        if !self.is_quiet {
            eprintln!("{message}");
        }
    }

    /// Whether progress messages are disabled.
    pub(super) fn is_quiet(&self) -> bool {
        self.is_quiet
    }

    /// Trains all networks of the given experiments that are not in the cache.
    ///
    /// [`Experiment::run`] trains missing networks itself. Training the networks of several experiments together uses all cores.
    ///
    /// # Errors
    /// If data are missing or training fails.
    pub fn train(&self, experiments: &[&Experiment]) -> Result<(), LabError> {
        let needs: Vec<_> = experiments.iter().map(|experiment| experiment.needs).collect();
        self.trained_networks.train(self, &needs)
    }

    /// The networks that are known to be trained.
    pub(super) fn trained_networks(&self) -> &TrainedNetworks {
        &self.trained_networks
    }

    /// Digits and outliers, read on first use.
    pub(super) fn digits(&self) -> Result<&Digits, LabError> {
        get_or_try_init(&self.digits, || Digits::load(self))
    }

    /// The outputs of a network for all digits and outliers.
    pub(super) fn network_outputs(&self, id: NetworkId) -> Result<Rc<NetworkOutputs>, LabError> {
        self.network_outputs.get(id, || NetworkOutputs::new(self, id))
    }

    /// The scores that a method computes from the outputs of a network for all digits and outliers.
    pub(super) fn scores(&self, method: Method, id: NetworkId) -> Result<Rc<Scores>, LabError> {
        self.scores.get((method, id), || method.scores(self, id))
    }
}
