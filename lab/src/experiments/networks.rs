//! Networks of the MNIST experiments and their training.

use std::cell::{Cell, RefCell};
use std::collections::HashSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Instant;

use rayon::{ThreadPool, ThreadPoolBuilder};

use super::{Context, Size};
use crate::training::{Cache, HeadKind, Network, Progress, Recipe, Silent, Spectral, ToStderr};
use crate::{LabError, Labeled};

/// Number of networks in an ensemble, as in the paper.
pub(super) const MEMBERS: usize = 5;

/// Whether networks are trained on a GPU. A GPU trains one network at a time.
const IS_GPU: bool = cfg!(feature = "cuda");

/// Variant of the network.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Kind {
    /// The paper's MNIST network, without spectral normalization. The main results use it.
    Plain,
    /// With spectral normalization, for the ablation.
    Spectral,
    /// With spectral normalization and a head of the baseline DUQ (`nets/duq.rs`).
    Duq,
    /// With spectral normalization and a head of the baseline SNGP (`nets/sngp.rs`).
    Sngp,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Kind::Plain => "plain",
            Kind::Spectral => "with spectral normalization",
            Kind::Duq => "with DUQ head",
            Kind::Sngp => "with SNGP head",
        }
    }
}

/// Identifies a network by variant and seed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct NetworkId {
    pub(super) kind: Kind,
    pub(super) seed: u64,
}

impl NetworkId {
    /// The network of [`Kind::Plain`] with the given seed.
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

/// Networks that an experiment needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Needs {
    /// No MNIST network.
    Nothing,
    /// The plain network of each seed.
    Seeds,
    /// The plain networks of each seed and of all ensemble members.
    Ensemble,
    /// The networks of [`Needs::Ensemble`], one DUQ network and one SNGP network.
    Baselines,
    /// Networks with and without spectral normalization, for each seed.
    Spectral,
}

impl Needs {
    fn networks(self, context: &Context) -> Vec<NetworkId> {
        let plain = |n: usize| (0..n as u64).map(NetworkId::plain);
        match self {
            Needs::Nothing => Vec::new(),
            Needs::Seeds => plain(context.seeds).collect(),
            Needs::Ensemble => plain(context.seeds.max(MEMBERS)).collect(),
            Needs::Baselines => {
                let heads = [Kind::Duq, Kind::Sngp].map(|kind| NetworkId { kind, seed: 0 });
                Needs::Ensemble.networks(context).into_iter().chain(heads).collect()
            }
            Needs::Spectral => {
                let both = |seed| [Kind::Plain, Kind::Spectral].map(|kind| NetworkId { kind, seed });
                (0..context.seeds as u64).flat_map(both).collect()
            }
        }
    }
}

/// Networks that are known to be in the cache, and the number and the training time of the networks that this run trained.
#[derive(Default)]
pub(super) struct TrainedNetworks {
    ids: RefCell<HashSet<NetworkId>>,
    n_trained: Cell<usize>,
    seconds: Cell<f64>,
}

impl TrainedNetworks {
    /// Trains the needed networks that are not in the cache.
    pub(super) fn train(&self, context: &Context, needs: &[Needs]) -> Result<(), LabError> {
        let mut unchecked: Vec<NetworkId> = Vec::new();
        for id in needs.iter().flat_map(|needs| needs.networks(context)) {
            if !self.ids.borrow().contains(&id) && !unchecked.contains(&id) {
                unchecked.push(id);
            }
        }
        if unchecked.is_empty() {
            return Ok(());
        }
        let (data, trainer) = (&context.digits()?.train, Trainer::new(context));
        let mut unfinished = Vec::new();
        for &id in &unchecked {
            if !trainer.networks.has(&id.recipe(context.size), data)? {
                unfinished.push(id);
            }
        }
        let start = Instant::now();
        for_each_in_parallel(&unfinished, |id| trainer.network(id, data).map(drop))?;
        if !unfinished.is_empty() {
            self.n_trained.set(self.n_trained.get() + unfinished.len());
            self.seconds.set(self.seconds.get() + start.elapsed().as_secs_f64());
        }
        self.ids.borrow_mut().extend(unchecked);
        Ok(())
    }

    /// A sentence on the networks that were trained in this run, if any.
    pub(super) fn summary(&self) -> Option<String> {
        let (networks, seconds) = (self.n_trained.get(), self.seconds.get());
        let how = if IS_GPU { "one at a time" } else { "one per CPU core at a time" };
        (networks > 0)
            .then(|| format!("Networks that this run trained, {how}: {networks}, in {seconds:.0} s."))
    }
}

/// Processes all networks in parallel, one per CPU core, or one after the other on a GPU. The layers of the MNIST network are too small to
/// use several cores well: on two cores, one training reaches 2,140 images/s, two concurrent trainings together reach 3,000 images/s.
fn for_each_in_parallel(
    ids: &[NetworkId],
    work: impl Fn(NetworkId) -> Result<(), LabError> + Sync,
) -> Result<(), LabError> {
    if ids.is_empty() {
        return Ok(());
    }
    let next = AtomicUsize::new(0);
    let worker = || -> Result<(), LabError> {
        while let Some(&id) = ids.get(next.fetch_add(1, Ordering::Relaxed)) {
            if let Err(error) = work(id) {
                // Other workers finish their current network and take no further one.
                next.store(ids.len(), Ordering::Relaxed);
                return Err(error);
            }
        }
        Ok(())
    };
    let cores = if IS_GPU { 1 } else { thread::available_parallelism().map_or(1, usize::from) };
    let workers = cores.min(ids.len());
    // Each worker has its own thread pool: two trainings that share a pool wait for each other and together reach only 2,360 images/s.
    let pools = (0..workers).map(|_| ThreadPoolBuilder::new().num_threads(cores / workers).build());
    let pools: Vec<ThreadPool> = pools.collect::<Result<_, _>>()?;
    thread::scope(|scope| {
        let workers: Vec<_> = pools.iter().map(|pool| scope.spawn(|| pool.install(worker))).collect();
        let join = |worker: thread::ScopedJoinHandle<'_, Result<(), LabError>>| match worker.join() {
            Ok(done) => done,
            Err(panic) => std::panic::resume_unwind(panic),
        };
        workers.into_iter().map(join).fold(Ok(()), Result::and)
    })
}

/// Trains networks. Unlike [`Context`], it can be shared between threads.
pub(super) struct Trainer {
    size: Size,
    networks: Cache,
    is_quiet: bool,
}

impl Trainer {
    pub(super) fn new(context: &Context) -> Self {
        Self { size: context.size, networks: context.networks(), is_quiet: context.is_quiet() }
    }

    /// Loads a network from the cache or trains it.
    pub(super) fn network(&self, id: NetworkId, data: &Labeled) -> Result<Network, LabError> {
        let progress = self.progress(format!("network {}, {}", id.seed, id.kind.name()));
        Network::train(&id.recipe(self.size), data, &self.networks, progress.as_ref())
    }

    /// Trains a network for one epoch and returns the time in seconds. The cache is not used, because the time of a stored network may have
    /// been measured on another machine.
    pub(super) fn epoch_seconds(&self, id: NetworkId, data: &Labeled) -> Result<f64, LabError> {
        let progress = self.progress(format!("one epoch of network {}", id.seed));
        let epoch = Recipe { epochs: 1, ..id.recipe(self.size) };
        Ok(Network::train_without_cache(&epoch, data, progress.as_ref())?.training_seconds())
    }

    /// Messages to stderr that start with `name`, unless they are disabled.
    fn progress(&self, name: String) -> Box<dyn Progress> {
        if self.is_quiet { Box::new(Silent) } else { Box::new(ToStderr::new(name)) }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;
    use crate::Images;

    #[test]
    fn time_of_an_epoch_is_measured_without_the_cache() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::new(folder.path());
        let trainer = Trainer { size: Size::Tiny, networks: cache.clone(), is_quiet: true };
        let pixels = (0..12 * 28 * 28).map(|i| (i % 7) as f32 / 7.0).collect();
        let images = Images::new(1, 28, 28, pixels).unwrap();
        let data = Labeled::new(images, (0..12).map(|i| i % 10).collect(), 10).unwrap();
        // A damaged file in place of the stored network would be an error if it were read.
        let epoch = Recipe { epochs: 1, ..NetworkId::plain(0).recipe(Size::Tiny) };
        let stored = cache.path(&epoch, &data);
        std::fs::write(&stored, "not a network").unwrap();
        assert!(trainer.epoch_seconds(NetworkId::plain(0), &data).unwrap() > 0.0);
        assert_eq!(std::fs::read_to_string(&stored).unwrap(), "not a network");
    }

    #[test]
    fn each_network_is_processed_once_and_a_failure_is_returned() {
        let ids: Vec<NetworkId> = (0..9).map(NetworkId::plain).collect();
        let done = Mutex::new(HashSet::new());
        for_each_in_parallel(&ids, |id| {
            assert!(done.lock().unwrap().insert(id));
            Ok(())
        })
        .unwrap();
        assert_eq!(done.lock().unwrap().len(), 9);
        let failed = for_each_in_parallel(&ids, |_| Err(LabError::Stopped { epoch: 1 }));
        assert!(matches!(failed, Err(LabError::Stopped { epoch: 1 })));
    }
}
