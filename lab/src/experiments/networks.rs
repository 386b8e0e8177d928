//! The networks of the experiments on MNIST: which there are, who needs which, and their training.

use std::cell::{Cell, RefCell};
use std::collections::HashSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Instant;

use rayon::{ThreadPool, ThreadPoolBuilder};

use super::{Lab, Size};
use crate::training::{Cache, HeadKind, Network, Recipe, Silent, Spectral, ToStderr};
use crate::{LabError, Labeled};

/// Networks of an ensemble, as in the paper.
pub(super) const MEMBERS: usize = 5;

/// How a network is trained.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Kind {
    /// As the paper describes its network for MNIST, without spectral normalization: the one that uncertainties are computed from.
    Plain,
    /// Spectrally normalized, for the ablation.
    Spectral,
    /// Spectrally normalized with DUQ's head.
    Duq,
    /// Spectrally normalized with SNGP's head.
    Sngp,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Kind::Plain => "plain",
            Kind::Spectral => "with spectral normalization",
            Kind::Duq => "with DUQ's head",
            Kind::Sngp => "with SNGP's head",
        }
    }
}

/// Which network.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Base {
    pub(super) kind: Kind,
    pub(super) seed: u64,
}

impl Base {
    /// The network that uncertainties are computed from.
    pub(super) fn plain(seed: u64) -> Self {
        Self { kind: Kind::Plain, seed }
    }

    pub(super) fn recipe(self, size: Size) -> Recipe {
        let spectral = (self.kind != Kind::Plain).then(Spectral::default);
        let head = match self.kind {
            Kind::Duq => HeadKind::duq(),
            Kind::Sngp => HeadKind::sngp(),
            Kind::Plain | Kind::Spectral => HeadKind::Softmax,
        };
        let recipe = Recipe { spectral, head, ..Recipe::mnist(self.seed) };
        match size {
            Size::Full | Size::Small => recipe,
            Size::Tiny => Recipe { epochs: 6, batch_size: 32, ..recipe },
        }
    }
}

/// The networks that an experiment looks at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Needs {
    /// None of digits.
    Nothing,
    /// The one that uncertainties are computed from, for each seed.
    Seeds,
    /// All members of an ensemble, and each seed.
    Ensemble,
    /// The same, and a network for each rival that has a head of its own.
    Rivals,
    /// Those with spectral normalization beside those without it, for each seed.
    Spectral,
}

impl Needs {
    fn bases(self, lab: &Lab) -> Vec<Base> {
        let plain = |n: usize| (0..n as u64).map(Base::plain);
        match self {
            Needs::Nothing => Vec::new(),
            Needs::Seeds => plain(lab.seeds).collect(),
            Needs::Ensemble => plain(lab.seeds.max(MEMBERS)).collect(),
            Needs::Rivals => {
                let heads = [Kind::Duq, Kind::Sngp].map(|kind| Base { kind, seed: 0 });
                Needs::Ensemble.bases(lab).into_iter().chain(heads).collect()
            }
            Needs::Spectral => {
                let both = |seed| [Kind::Plain, Kind::Spectral].map(|kind| Base { kind, seed });
                (0..lab.seeds as u64).flat_map(both).collect()
            }
        }
    }
}

/// The networks that are known to be in the cache, and what it took to train those that were not.
#[derive(Default)]
pub(super) struct Ready {
    bases: RefCell<HashSet<Base>>,
    trained: Cell<usize>,
    seconds: Cell<f64>,
}

impl Ready {
    /// Trains what is needed and not in the cache.
    pub(super) fn train(&self, lab: &Lab, needs: &[Needs]) -> Result<(), LabError> {
        let mut missing: Vec<Base> = Vec::new();
        for base in needs.iter().flat_map(|needs| needs.bases(lab)) {
            if !self.bases.borrow().contains(&base) && !missing.contains(&base) {
                missing.push(base);
            }
        }
        if missing.is_empty() {
            return Ok(());
        }
        let (data, trainer) = (&lab.digits()?.train, Trainer::of(lab));
        let mut unfinished = Vec::new();
        for &base in &missing {
            if !trainer.networks.has(&base.recipe(lab.size), data)? {
                unfinished.push(base);
            }
        }
        let start = Instant::now();
        side_by_side(&unfinished, |base| trainer.network(base, data).map(drop))?;
        if !unfinished.is_empty() {
            self.trained.set(self.trained.get() + unfinished.len());
            self.seconds.set(self.seconds.get() + start.elapsed().as_secs_f64());
        }
        self.bases.borrow_mut().extend(missing);
        Ok(())
    }

    /// What was trained in this run, in a sentence, if anything was.
    pub(super) fn told(&self) -> Option<String> {
        let (networks, seconds) = (self.trained.get(), self.seconds.get());
        (networks > 0).then(|| {
            format!("This run trained {networks} networks in {seconds:.0} s, as many at a time as there are cores.")
        })
    }
}

/// Does the work of all networks, that of as many at a time as there are cores: layers as small as these leave half of two cores
/// idle (2,140 pictures a second of one training, 3,000 of two at a time).
fn side_by_side(bases: &[Base], work: impl Fn(Base) -> Result<(), LabError> + Sync) -> Result<(), LabError> {
    if bases.is_empty() {
        return Ok(());
    }
    let next = AtomicUsize::new(0);
    let one_after_the_other = || -> Result<(), LabError> {
        while let Some(&base) = bases.get(next.fetch_add(1, Ordering::Relaxed)) {
            if let Err(error) = work(base) {
                // The others end after the network that they are at; its checkpoint stays.
                next.store(bases.len(), Ordering::Relaxed);
                return Err(error);
            }
        }
        Ok(())
    };
    // A GPU takes one training after the other.
    let is_gpu = cfg!(feature = "cuda");
    let cores = if is_gpu { 1 } else { thread::available_parallelism().map_or(1, usize::from) };
    let workers = cores.min(bases.len());
    // Each has threads of its own: two trainings that share a pool wait for each other (2,360 pictures a second).
    let pools = (0..workers).map(|_| ThreadPoolBuilder::new().num_threads(cores / workers).build());
    let pools: Vec<ThreadPool> = pools.collect::<Result<_, _>>()?;
    thread::scope(|scope| {
        let workers: Vec<_> =
            pools.iter().map(|pool| scope.spawn(|| pool.install(one_after_the_other))).collect();
        let join = |worker: thread::ScopedJoinHandle<'_, Result<(), LabError>>| match worker.join() {
            Ok(done) => done,
            Err(panic) => std::panic::resume_unwind(panic),
        };
        workers.into_iter().map(join).fold(Ok(()), Result::and)
    })
}

/// What of a laboratory a training needs, for any thread.
pub(super) struct Trainer {
    size: Size,
    networks: Cache,
    is_quiet: bool,
}

impl Trainer {
    pub(super) fn of(lab: &Lab) -> Self {
        Self { size: lab.size, networks: lab.networks(), is_quiet: lab.is_quiet() }
    }

    /// The network, trained or from the cache.
    pub(super) fn network(&self, base: Base, data: &Labeled) -> Result<Network, LabError> {
        let name = format!("network {}, {}", base.seed, base.kind.name());
        self.follow(name, &base.recipe(self.size), data)
    }

    /// The network of a recipe.
    pub(super) fn follow(&self, name: String, recipe: &Recipe, data: &Labeled) -> Result<Network, LabError> {
        if self.is_quiet {
            Network::train(recipe, data, &self.networks, &Silent)
        } else {
            Network::train(recipe, data, &self.networks, &ToStderr::new(name))
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    #[test]
    fn every_network_is_worked_on_once_and_a_failure_ends_it() {
        let bases: Vec<Base> = (0..9).map(Base::plain).collect();
        let done = Mutex::new(HashSet::new());
        side_by_side(&bases, |base| {
            assert!(done.lock().unwrap().insert(base));
            Ok(())
        })
        .unwrap();
        assert_eq!(done.lock().unwrap().len(), 9);
        let failed = side_by_side(&bases, |_| Err(LabError::Stopped { epoch: 1 }));
        assert!(matches!(failed, Err(LabError::Stopped { epoch: 1 })));
    }
}
