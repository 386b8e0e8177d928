//! The choices that a classifier and a regressor share.

use crate::bandwidth::{Bandwidth, BandwidthRule, Criterion, SquaredError, check_scalar};
use crate::density::{Density, DensityBandwidth, check_shrinkage};
use crate::error::out_of_range;
use crate::{Dimension, Error, IndexKind, Kernel};
use nuq_neighbors::{IndexRequest, choices};

/// What is predicted: classes or numbers.
pub trait Task: sealed::Sealed + Clone + Default {
    /// What leave-one-out selection optimizes.
    type Criterion: Clone + Default + PartialEq + std::fmt::Debug;
}

mod sealed {
    pub trait Sealed {}
    impl Sealed for super::Classification {}
    impl Sealed for super::Regression {}
}

/// Parameters that only a classifier has.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Classification {
    pub(crate) variance: Variance,
}

/// Parameters that only a regressor has: none.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Regression;

impl Task for Classification {
    type Criterion = Criterion;
}

impl Task for Regression {
    type Criterion = SquaredError;
}

/// The variance term $v(\eta)$ of the epistemic uncertainty.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Variance {
    /// $\sum_c \eta_c (1 - \eta_c)$. Grows all the way to the flat distribution, however many the classes.
    #[default]
    Sum,
    /// $\max_c \eta_c (1 - \eta_c)$, the paper's. With many classes it falls again once the top probability is
    /// below one half, so that a far point which reverts to a flat prior looks less variable.
    Max,
}

choices!(Variance, "variance", { Sum => "sum", Max => "max" });

/// Everything that can be chosen before fitting. The defaults are those to use; each method says why one would
/// not.
///
/// ```
/// use nuq::{Embeddings, Kernel, NuqClassifier};
///
/// let x = Embeddings::from_rows(&[[0.0], [0.1], [1.0], [1.1]])?;
/// let model = NuqClassifier::params()
///     .n_neighbors(3)
///     .kernel(Kernel::Logistic)
///     .bandwidth(0.2)
///     .fit(&x, &["left", "left", "right", "right"])?;
/// let found = model.predict(&Embeddings::from_rows(&[[0.05]])?)?;
/// assert_eq!(found.label(0), "left");
/// # Ok::<(), nuq::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Params<T: Task> {
    pub(crate) n_neighbors: usize,
    pub(crate) kernel: Kernel,
    pub(crate) bandwidth: BandwidthRule<T::Criterion>,
    pub(crate) density: Density,
    pub(crate) dimension: Dimension,
    pub(crate) prior_weight: f64,
    pub(crate) normalize: bool,
    pub(crate) index: IndexRequest,
    pub(crate) selection_rows: usize,
    pub(crate) seed: u64,
    pub(crate) task: T,
}

impl<T: Task> Default for Params<T> {
    fn default() -> Self {
        Self {
            n_neighbors: 20,
            kernel: Kernel::default(),
            bandwidth: BandwidthRule::default(),
            density: Density::default(),
            dimension: Dimension::default(),
            prior_weight: 1e-3,
            normalize: false,
            index: IndexRequest::default(),
            selection_rows: 10_000,
            seed: 0,
            task: T::default(),
        }
    }
}

impl<T: Task> Params<T> {
    /// $K$, the neighbors that every sum runs over (default 20; with N or more, all points).
    pub fn n_neighbors(mut self, k: usize) -> Self {
        self.n_neighbors = k;
        self
    }

    /// The kernel (default Gaussian).
    pub fn kernel(mut self, kernel: Kernel) -> Self {
        self.kernel = kernel;
        self
    }

    /// The posterior's bandwidth: a number, a [`Bandwidth`](crate::Bandwidth) or a [`BandwidthRule`] (default:
    /// leave-one-out).
    pub fn bandwidth(mut self, rule: impl Into<BandwidthRule<T::Criterion>>) -> Self {
        self.bandwidth = rule.into();
        self
    }

    /// The density estimate (default: kernel density with its own bandwidth).
    pub fn density(mut self, density: Density) -> Self {
        self.density = density;
        self
    }

    /// The dimension in the constants (default: the data's intrinsic dimension).
    pub fn dimension(mut self, dimension: Dimension) -> Self {
        self.dimension = dimension;
        self
    }

    /// $w$, what the prior counts for, in training points that sit on the query (default 1e-3). With 0,
    /// a query whose neighbors all agree has no epistemic uncertainty at all, however far away it is.
    pub fn prior_weight(mut self, weight: f64) -> Self {
        self.prior_weight = weight;
        self
    }

    /// Whether every row, of training data and queries alike, is first divided by its length (default no).
    pub fn normalize(mut self, normalize: bool) -> Self {
        self.normalize = normalize;
        self
    }

    /// The index that finds neighbors (default: [`Auto`](IndexKind::Auto), exact search or a graph by what each is
    /// expected to cost; the fitted model says which it took and why).
    pub fn index(mut self, kind: IndexKind) -> Self {
        self.index.kind = kind;
        self
    }

    /// The share of true neighbors that a graph must find (default 0.99): its beam is made as wide as that takes on a
    /// sample of training points. With `None` the beam is as the graph's parameters say. What it finds is measured in
    /// either case, and the fitted model tells it.
    pub fn recall(mut self, share: impl Into<Option<f64>>) -> Self {
        self.index.recall = share.into();
        self
    }

    /// How many queries the model is expected to answer (default 10,000): what building a graph is weighed against.
    pub fn expected_queries(mut self, queries: u64) -> Self {
        self.index.queries = queries;
        self
    }

    /// The most training points that bandwidths and dimension are learned from (default 10,000, a seeded
    /// sample). Fewer are taken where K is in the thousands, and with product kernels in many dimensions, to
    /// bound memory and time; the curve says how many.
    pub fn selection_rows(mut self, rows: usize) -> Self {
        self.selection_rows = rows;
        self
    }

    /// The seed of that sample (default 0).
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// Refuses what no data could make right, as `fit` would: for those who read data that take a while.
    pub fn check(&self) -> Result<(), Error> {
        if self.n_neighbors == 0 {
            return Err(nuq_neighbors::Error::ZeroNeighbors.into());
        }
        self.index.check()?;
        if !(self.prior_weight >= 0.0 && self.prior_weight.is_finite()) {
            return Err(out_of_range("prior weight", self.prior_weight, "it must be finite and at least 0"));
        }
        if self.selection_rows < 2 {
            let rows = self.selection_rows as f64;
            return Err(out_of_range("selection rows", rows, "at least 2 are needed"));
        }
        if let Density::Kde { bandwidth: DensityBandwidth::Fixed(h) } = self.density {
            check_scalar(h, "density bandwidth")?;
        }
        if let Density::Gmm { shrinkage, .. } = self.density {
            check_shrinkage(shrinkage)?;
        }
        match self.bandwidth {
            BandwidthRule::Fixed(Bandwidth::Scalar(h)) => check_scalar(h, "bandwidth"),
            BandwidthRule::LeaveOneOut { points, .. } if points < 2 => {
                Err(out_of_range("grid points", points as f64, "at least 2 are needed"))
            }
            BandwidthRule::Adaptive { k: Some(0) } => Err(nuq_neighbors::Error::ZeroNeighbors.into()),
            _ => Ok(()),
        }
    }
}

impl Params<Classification> {
    /// The variance term of the epistemic uncertainty (default: the sum over classes).
    pub fn variance(mut self, variance: Variance) -> Self {
        self.task.variance = variance;
        self
    }

    /// Algorithm 1 of the paper as printed (a query whose neighbors share a class has no epistemic uncertainty, however
    /// far away it is): no prior, the largest class variance, one bandwidth chosen by
    /// accuracy for posterior and density, the ambient dimension.
    pub fn paper() -> Self {
        Self::default()
            .prior_weight(0.0)
            .variance(Variance::Max)
            .bandwidth(Criterion::Accuracy)
            .density(Density::Kde { bandwidth: DensityBandwidth::Same })
            .dimension(Dimension::Ambient)
    }
}
