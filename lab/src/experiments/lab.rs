//! What all experiments of a run share: how large they are, where data and networks lie, and what was computed already.

use std::cell::OnceCell;
use std::fmt;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use serde::{Deserialize, Serialize};

use super::Experiment;
use super::digits::Digits;
use super::memo::{Memo, once};
use super::methods::{Method, Scores};
use super::networks::{Base, Ready};
use super::seen::Seen;
use crate::LabError;
use crate::data::DataError;
use crate::training::Cache;

/// How large an experiment is run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Size {
    /// As the paper has it, or as near as two cores come.
    Full,
    /// For a first look: minutes in all.
    Small,
    /// For tests: seconds. Its numbers mean nothing.
    Tiny,
}

impl Size {
    /// One of three values.
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

/// The laboratory of a run.
pub struct Lab {
    /// How large experiments are run.
    pub size: Size,
    /// How many seeds, where several are run.
    pub seeds: usize,
    cache: PathBuf,
    user: Option<PathBuf>,
    data: Option<PathBuf>,
    is_quiet: bool,
    digits: OnceCell<Digits>,
    ready: Ready,
    seen: Memo<Base, Seen>,
    scores: Memo<(Method, Base), Scores>,
}

impl Lab {
    /// A laboratory with a cache folder.
    pub fn new(size: Size, seeds: usize, cache: impl Into<PathBuf>) -> Self {
        Self {
            size,
            seeds,
            cache: cache.into(),
            user: None,
            data: None,
            is_quiet: false,
            digits: OnceCell::new(),
            ready: Ready::default(),
            seen: Memo::default(),
            scores: Memo::default(),
        }
    }

    /// The user's folder of data, which the environment variable `NUQ_DATA` names.
    pub fn with_user_data(self, user: Option<PathBuf>) -> Self {
        Self { user, ..self }
    }

    /// A folder of embeddings to look at instead.
    pub fn with_embeddings(self, data: Option<PathBuf>) -> Self {
        Self { data, ..self }
    }

    /// Says nothing on stderr.
    pub fn quiet(self) -> Self {
        Self { is_quiet: true, ..self }
    }

    /// Where data sets and networks are kept.
    pub fn cache(&self) -> &Path {
        &self.cache
    }

    /// Trained networks.
    pub fn networks(&self) -> Cache {
        Cache::new(self.cache.join("networks"))
    }

    /// The user's folder of data.
    pub fn user_data(&self) -> Option<&Path> {
        self.user.as_deref()
    }

    /// The folder of embeddings: the one that was named, or `data/NAME` of the user's.
    pub fn embeddings(&self, name: &'static str) -> Result<PathBuf, LabError> {
        match (&self.data, &self.user) {
            (Some(folder), _) => Ok(folder.clone()),
            (None, Some(user)) if user.join("data").join(name).is_dir() => Ok(user.join("data").join(name)),
            (None, _) => Err(DataError::NoFolder { name }.into()),
        }
    }

    /// Whether embeddings are those of the user's folder, of which is known by what networks they were made.
    pub(super) fn has_known_embeddings(&self) -> bool {
        self.data.is_none()
    }

    /// Tells whoever waits what is being done.
    pub fn say(&self, what: &str) {
        if !self.is_quiet {
            eprintln!("{what}");
        }
    }

    /// Whether nothing is to be said.
    pub(super) fn is_quiet(&self) -> bool {
        self.is_quiet
    }

    /// Trains the networks of all these experiments that are not in the cache. Experiments do so for themselves; whoever runs several
    /// keeps all cores busy by asking for their networks together.
    pub fn train(&self, experiments: &[&Experiment]) -> Result<(), LabError> {
        let needs: Vec<_> = experiments.iter().map(|experiment| experiment.needs).collect();
        self.ready.train(self, &needs)
    }

    /// The networks of this run.
    pub(super) fn ready(&self) -> &Ready {
        &self.ready
    }

    /// Digits and outliers, read once.
    pub(super) fn digits(&self) -> Result<&Digits, LabError> {
        once(&self.digits, || Digits::load(self))
    }

    /// What a network says about all digits and outliers.
    pub(super) fn seen(&self, base: Base) -> Result<Rc<Seen>, LabError> {
        self.seen.get(base, || Seen::of(self, base))
    }

    /// The scores of all views by a method that looks at a network.
    pub(super) fn scores(&self, method: Method, base: Base) -> Result<Rc<Scores>, LabError> {
        self.scores.get((method, base), || method.scores(self, base))
    }
}
