//! Parameters of fitting.

use crate::bandwidth::{BandwidthRule, Criterion, SquaredError, check_scalar};
use crate::density::{Density, DensityBandwidth, check_shrinkage};
use crate::error::out_of_range;
use crate::{Error, IndexKind, Kernel, Scale};
use nuq_neighbors::{Device, IndexRequest, choices};

/// The task: classification or regression.
pub trait Task: sealed::Sealed + Clone + Default {
    /// The criterion by which leave-one-out selects the bandwidth.
    type Criterion: Clone + Default + PartialEq + std::fmt::Debug;

    /// The default density.
    const DENSITY: Density;
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

/// Parameters that only a regressor has. There are none.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Regression;

impl Task for Classification {
    type Criterion = Criterion;
    const DENSITY: Density = Density::Auto;
}

impl Task for Regression {
    type Criterion = SquaredError;
    const DENSITY: Density = Density::Kde { bandwidth: DensityBandwidth::HalfMedian };
}

/// The variance term `v(η)` of the epistemic uncertainty.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Variance {
    /// `Σ_c η_c (1 − η_c)`. It is largest for equal probabilities, for any number of classes.
    #[default]
    Sum,
    /// `max_c η_c (1 − η_c)`, as in the paper. With many classes it is small if all probabilities are far below one
    /// half. So a query far from the data, which has the probabilities of the prior, can have a smaller variance than a
    /// query near the data.
    Max,
}

choices!(Variance, "variance", { Sum => "sum", Max => "max" });

/// Parameters of fitting, with defaults that suit most data.
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
/// let predictions = model.predict(&Embeddings::from_rows(&[[0.05]])?)?;
/// assert_eq!(predictions.label(0), "left");
/// # Ok::<(), nuq::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Params<T: Task> {
    pub(crate) n_neighbors: usize,
    pub(crate) kernel: Kernel,
    pub(crate) bandwidth: BandwidthRule<T::Criterion>,
    pub(crate) density: Density,
    pub(crate) scale: Scale,
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
            density: T::DENSITY,
            scale: Scale::default(),
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
    /// `K`, the number of neighbors over which every sum is computed (default 20). With `K ≥ N` the sums are over all
    /// rows.
    #[must_use]
    pub fn n_neighbors(mut self, k: usize) -> Self {
        self.n_neighbors = k;
        self
    }

    /// The kernel (default: Gaussian).
    #[must_use]
    pub fn kernel(mut self, kernel: Kernel) -> Self {
        self.kernel = kernel;
        self
    }

    /// The bandwidth of the posterior: a number, a [`Bandwidth`](crate::Bandwidth) or a [`BandwidthRule`] (default:
    /// leave-one-out).
    #[must_use]
    pub fn bandwidth(mut self, rule: impl Into<BandwidthRule<T::Criterion>>) -> Self {
        self.bandwidth = rule.into();
        self
    }

    /// The density estimate (default: [`Density::Auto`] for a classifier, a kernel density with its own bandwidth for a
    /// regressor).
    #[must_use]
    pub fn density(mut self, density: Density) -> Self {
        self.density = density;
        self
    }

    /// The formula of `n(x)`, the number of training rows that support an estimate (default: [`Scale::Effective`]).
    #[must_use]
    pub fn scale(mut self, scale: Scale) -> Self {
        self.scale = scale;
        self
    }

    /// `w`, the weight of the prior (default 1e-3). A prior of weight 1 counts as one training row at distance zero
    /// from the query. With 0, the epistemic uncertainty is zero if all neighbors have the same class, even far from
    /// the data.
    #[must_use]
    pub fn prior_weight(mut self, weight: f64) -> Self {
        self.prior_weight = weight;
        self
    }

    /// Whether training rows and queries are divided by their Euclidean norm first (default: no).
    #[must_use]
    pub fn normalize(mut self, normalize: bool) -> Self {
        self.normalize = normalize;
        self
    }

    /// The index that searches neighbors (default: [`Auto`](IndexKind::Auto), which selects exact search or a graph,
    /// whichever has the lower expected cost). [`FittedModel::index_choice`](crate::FittedModel::index_choice) gives
    /// the choice and its reason.
    #[must_use]
    pub fn index(mut self, kind: IndexKind) -> Self {
        self.index.kind = kind;
        self
    }

    /// The device of searches (default: [`Auto`](Device::Auto), which uses a GPU if the program supports it and the
    /// search is expected to take less time). With [`Cuda`](Device::Cuda), the index `Auto` is always exact
    /// search, and a requested graph is an error. With exact search, predictions are the same on every device, bit for bit.
    /// [`NeighborIndex::device`](crate::NeighborIndex::device) gives the device and the
    /// reason.
    #[must_use]
    pub fn device(mut self, device: Device) -> Self {
        self.index.device = device;
        self
    }

    /// The recall to which a graph is tuned (default 0.99): its beam width `ef_search` is the smallest one, within 2 %,
    /// at which the recall on a sample of training rows is at least this value. With `None` the beam width of the graph
    /// parameters is used. The recall is measured in both cases;
    /// [`NeighborIndex::describe`](crate::NeighborIndex::describe) gives it.
    #[must_use]
    pub fn recall(mut self, share: impl Into<Option<f64>>) -> Self {
        self.index.recall = share.into();
        self
    }

    /// The expected total number of queries (default 10,000). [`Auto`](IndexKind::Auto) uses it to compare exact search with a
    /// graph, whose construction saves time only for many queries.
    #[must_use]
    pub fn expected_queries(mut self, queries: u64) -> Self {
        self.index.queries = queries;
        self
    }

    /// The largest number of training rows in the seeded sample from which bandwidths and dimension are estimated (default
    /// 10,000). The sample is smaller if its rows would have more than four million neighbors in total (10,000 rows: if `K` exceeds
    /// 400), and for product kernels in many dimensions, to limit memory and time. [`SelectionCurve::rows`](crate::SelectionCurve) gives its size.
    #[must_use]
    pub fn selection_rows(mut self, rows: usize) -> Self {
        self.selection_rows = rows;
        self
    }

    /// The seed of the selection sample and of a graph that [`Auto`](IndexKind::Auto) chooses (default 0). A requested
    /// graph has the seed of its parameters.
    #[must_use]
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// Checks the ranges of all parameters. `fit` checks them too; with this method a caller checks them before it
    /// reads data. Only `fit` checks the number of given bandwidths, which depends on the data.
    ///
    /// # Errors
    /// The first parameter that is out of range, or [`Error::IntrinsicScale`] if the kernel or the density cannot be combined with
    /// [`Scale::Intrinsic`].
    pub fn check(&self) -> Result<(), Error> {
        if self.n_neighbors == 0 {
            return Err(nuq_neighbors::Error::ZeroNeighbors.into());
        }
        self.index.check()?;
        check_prior_weight(self.prior_weight)?;
        if self.selection_rows < 2 {
            let rows = self.selection_rows as f64;
            return Err(out_of_range("selection_rows", rows, "at least 2 are needed"));
        }
        if let Density::Kde { bandwidth: DensityBandwidth::Fixed(h) } = self.density {
            check_scalar(h, "density bandwidth")?;
        }
        if let Density::Gmm { shrinkage, .. } = self.density {
            check_shrinkage(shrinkage)?;
        }
        let uses_all_columns = !self.kernel.is_radial() || matches!(self.density, Density::Gmm { .. });
        if self.scale == Scale::Intrinsic && uses_all_columns {
            return Err(Error::IntrinsicScale);
        }
        match &self.bandwidth {
            BandwidthRule::Fixed(given) => given.check_values(),
            BandwidthRule::LeaveOneOut { points, .. } if *points < 2 => {
                Err(out_of_range("grid points", *points as f64, "at least 2 are needed"))
            }
            BandwidthRule::Adaptive { k: Some(0) } => Err(nuq_neighbors::Error::ZeroNeighbors.into()),
            _ => Ok(()),
        }
    }
}

impl Params<Classification> {
    /// The variance term of the epistemic uncertainty (default: the sum over classes).
    #[must_use]
    pub fn variance(mut self, variance: Variance) -> Self {
        self.task.variance = variance;
        self
    }

    /// Algorithm 1 as printed in the paper: no prior, the largest class variance, one bandwidth selected by accuracy
    /// for posterior and density, `n(x)` in the ambient dimension. The epistemic uncertainty is then zero if all
    /// neighbors have the same class, even far from the data.
    #[must_use]
    pub fn paper() -> Self {
        Self::default()
            .prior_weight(0.0)
            .variance(Variance::Max)
            .bandwidth(Criterion::Accuracy)
            .density(Density::Kde { bandwidth: DensityBandwidth::Same })
            .scale(Scale::Ambient)
    }
}

pub(crate) fn check_prior_weight(weight: f64) -> Result<(), Error> {
    if weight >= 0.0 && weight.is_finite() {
        Ok(())
    } else {
        Err(out_of_range("prior_weight", weight, "it must be finite and at least 0"))
    }
}
