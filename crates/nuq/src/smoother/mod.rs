//! What a query's neighborhood says before any label is looked at: kernel weights, density, and the scale of
//! the estimate's variance. Classifier and regressor both stand on it.

mod fit;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::OnceLock;

use nuq_neighbors::{Embeddings, IndexChoice, NeighborIndex, Neighbors};

use crate::bandwidth::leave_one_out::scaled_differences;
use crate::calibrate::Threshold;
use crate::density::{AutoDensity, ClassGaussians, Covariance, Shrinkage, auto};
use crate::parts::{FittedDensityParts, SmootherParts};
use crate::weights::{Weights, weigh};
use crate::{Bandwidth, Classes, Error, Kernel};
pub(crate) use fit::{Groups, fit};

/// Neighbor search, kernel, bandwidths and density, fitted.
pub(crate) struct Smoother<'a> {
    pub(crate) index: Box<dyn NeighborIndex + 'a>,
    pub(crate) choice: IndexChoice,
    pub(crate) kernel: Kernel,
    pub(crate) bandwidth: Bandwidth,
    pub(crate) density: FittedDensity<'a>,
    /// The dimension in the constants.
    pub(crate) dimension: f64,
    pub(crate) n_neighbors: usize,
    /// The part of $\ln h^d$ that the search space has absorbed: all of it with a bandwidth per dimension, whose
    /// geometric mean counts, and none otherwise.
    log_scale_volume: f64,
    pub(crate) normalize: bool,
    /// Chosen after the fit, by name.
    pub(crate) thresholds: BTreeMap<String, Threshold>,
}

pub(crate) enum FittedDensity<'a> {
    /// The posterior's bandwidth.
    Same,
    Kde(f64),
    Gmm {
        covariance: Covariance,
        shrinkage: Shrinkage,
        fitted: Gaussians<'a>,
    },
    Auto {
        learned: AutoDensity,
        fitted: Gaussians<'a>,
    },
}

impl Gaussians<'_> {
    /// Not fitted yet.
    fn deferred(classes: &Classes, of_row: &[u32]) -> Self {
        Gaussians::Deferred { classes: classes.clone(), of_row: of_row.to_vec(), fitted: OnceLock::new() }
    }

    /// The Gaussians, fitted by `fit` to the rows of `index` if that was put off.
    fn get(
        &self,
        index: &dyn NeighborIndex,
        fit: impl FnOnce(&Embeddings<'static>, &Classes, &[u32]) -> Result<ClassGaussians<'static>, Error>,
    ) -> Result<&ClassGaussians<'_>, Error> {
        match self {
            Gaussians::Fitted(fitted) => Ok(fitted),
            Gaussians::Deferred { classes, of_row, fitted } => {
                if fitted.get().is_none() {
                    let ids = index.rows().live_ids();
                    let of_row: Vec<u32> = ids.iter().map(|&id| of_row[id as usize]).collect();
                    let _ = fitted.set(Box::new(fit(&index.rows().gather(&ids)?, classes, &of_row)?));
                }
                Ok(fitted.get().expect("set above"))
            }
        }
    }
}

/// Class Gaussians, fitted with the model or, for a model that was put together from a file, when first asked for: they
/// follow from its rows, which opening the file does not read.
pub(crate) enum Gaussians<'a> {
    Fitted(Box<ClassGaussians<'a>>),
    Deferred { classes: Classes, of_row: Vec<u32>, fitted: OnceLock<Box<ClassGaussians<'static>>> },
}

impl fmt::Debug for Smoother<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Smoother")
            .field("index", &self.index.describe())
            .field("rows", &self.index.len())
            .field("dim", &self.index.dim())
            .field("n_neighbors", &self.n_neighbors)
            .field("kernel", &self.kernel)
            .field("bandwidth", &self.bandwidth)
            .field("dimension", &self.dimension)
            .finish_non_exhaustive()
    }
}

/// A copy of the training rows.
fn all_rows(index: &dyn NeighborIndex) -> Result<Embeddings<'static>, Error> {
    let ids: Vec<u32> = (0..index.rows().id_bound() as u32).collect();
    Ok(index.rows().gather(&ids)?)
}

/// $\ln h^d$ of a bandwidth per dimension, which the search space has absorbed.
fn log_scale_volume(bandwidth: &Bandwidth, dimension: f64) -> f64 {
    match bandwidth {
        Bandwidth::PerDimension(scale) => {
            dimension * scale.iter().map(|h| h.ln()).sum::<f64>() / scale.len() as f64
        }
        _ => 0.0,
    }
}

/// One query's neighborhood.
pub(crate) struct Local {
    /// The neighbors' weights with the posterior's bandwidth.
    pub(crate) weights: Weights,
    /// $\ln \hat p(x)$.
    pub(crate) log_density: f64,
    /// $\ln \|K\|_2^2 / (N h^d \hat p(x))$: what a variance of the labels is multiplied by.
    pub(crate) log_variance_scale: f64,
}

impl<'a> Smoother<'a> {
    /// What the smoother is made of, index aside.
    pub(crate) fn parts(&self, prior_weight: f64) -> SmootherParts {
        let density = match &self.density {
            FittedDensity::Same => FittedDensityParts::Same,
            FittedDensity::Kde(h) => FittedDensityParts::Kde(*h),
            FittedDensity::Auto { learned, .. } => FittedDensityParts::Auto(*learned),
            FittedDensity::Gmm { covariance, shrinkage, .. } => {
                FittedDensityParts::Gmm { covariance: *covariance, shrinkage: *shrinkage }
            }
        };
        let Self { kernel, dimension, n_neighbors, normalize, choice, .. } = *self;
        let bandwidth = self.bandwidth.clone();
        let thresholds = self.thresholds.clone();
        SmootherParts {
            kernel,
            bandwidth,
            density,
            dimension,
            n_neighbors,
            normalize,
            prior_weight,
            choice,
            thresholds,
        }
    }

    /// Puts a smoother together; the index is in the space of its bandwidth.
    pub(crate) fn restored(
        parts: SmootherParts,
        index: Box<dyn NeighborIndex + 'a>,
        classes: Classes,
        of_row: &[u32],
    ) -> Result<Self, Error> {
        parts.check(&*index)?;
        let SmootherParts {
            kernel,
            bandwidth,
            density,
            dimension,
            n_neighbors,
            normalize,
            choice,
            thresholds,
            ..
        } = parts;
        let scale = match &bandwidth {
            Bandwidth::PerDimension(scale) => Some(&scale[..]),
            _ => None,
        };
        if scale != index.rows().scale() {
            let problem = "the index is not in the space of the bandwidths".to_owned();
            return Err(nuq_neighbors::Error::Damaged { section: "model".to_owned(), problem }.into());
        }
        let density = match density {
            FittedDensityParts::Same => FittedDensity::Same,
            FittedDensityParts::Kde(h) => FittedDensity::Kde(h),
            FittedDensityParts::Auto(learned) => {
                FittedDensity::Auto { learned, fitted: Gaussians::deferred(&classes, of_row) }
            }
            FittedDensityParts::Gmm { covariance, shrinkage } => {
                let fitted = Gaussians::deferred(&classes, of_row);
                FittedDensity::Gmm { covariance, shrinkage, fitted }
            }
        };
        let log_scale_volume = log_scale_volume(&bandwidth, dimension);
        Ok(Self {
            index,
            choice,
            kernel,
            bandwidth,
            density,
            dimension,
            n_neighbors,
            log_scale_volume,
            normalize,
            thresholds,
        })
    }

    /// Takes rows as the user has them, and returns their ids. What was learned stays; what follows from the rows does not,
    /// nor do thresholds, whose promises were made by the model as it was.
    pub(crate) fn insert(&mut self, rows: &Embeddings<'_>) -> Result<Vec<u32>, Error> {
        if matches!(self.bandwidth, Bandwidth::PerPoint(_)) {
            return Err(Error::PerPointBandwidthFixed);
        }
        let ids = self.index.insert(&self.prepare(rows))?;
        self.thresholds.clear();
        Ok(ids)
    }

    /// Forgets rows: all of them, or none when an id names no row or no row would be left.
    pub(crate) fn remove(&mut self, ids: &[u32]) -> Result<(), Error> {
        let mut gone = ids.to_vec();
        gone.sort_unstable();
        gone.dedup();
        if gone.len() >= self.index.len() && gone.iter().all(|&id| self.index.rows().contains(id)) {
            return Err(Error::NoRows { what: "training rows left" });
        }
        self.index.remove(ids)?;
        self.thresholds.clear();
        Ok(())
    }

    /// Tells the density of the classes as they are after rows came or went.
    pub(crate) fn regroup(&mut self, classes: &Classes, of_row: &[u32]) {
        if let FittedDensity::Gmm { fitted, .. } | FittedDensity::Auto { fitted, .. } = &mut self.density {
            *fitted = Gaussians::deferred(classes, of_row);
        }
    }

    /// The queries as the index knows them.
    pub(crate) fn prepare<'q>(&self, queries: &Embeddings<'q>) -> Embeddings<'q> {
        if self.normalize { queries.l2_normalized() } else { queries.clone() }
    }

    /// The distances of rows that something else chose, for queries as the user has them.
    pub(crate) fn measure(
        &self,
        queries: &Embeddings<'_>,
        k: usize,
        ids: &[u32],
    ) -> Result<Neighbors, Error> {
        Ok(self.index.rows().measure(&self.prepare(queries), k, ids)?)
    }

    /// The neighbors of prepared queries.
    pub(crate) fn search(&self, queries: &Embeddings<'_>) -> Result<Neighbors, Error> {
        Ok(self.index.search(queries, self.n_neighbors)?)
    }

    /// Checks a neighbor table against prepared queries.
    pub(crate) fn batch<'b>(
        &'b self,
        queries: &'b Embeddings<'b>,
        neighbors: &'b Neighbors,
    ) -> Result<Batch<'b>, Error> {
        self.index.verify_once()?;
        let dim = self.index.dim();
        if queries.dim() != dim {
            let (got, expected) = (queries.dim(), dim);
            return Err(nuq_neighbors::Error::DimensionMismatch { got, expected }.into());
        }
        if neighbors.len() != queries.len() {
            let (got, expected) = (neighbors.len(), queries.len());
            let what = "rows of the neighbor table";
            return Err(nuq_neighbors::Error::LengthMismatch { what, got, expected }.into());
        }
        neighbors.check_ids(self.index.rows())?;
        Ok(Batch { smoother: self, queries, neighbors, of_gaussians: None })
    }

    /// $\ln h^d$ at a query. With a bandwidth per point, $h^{-d}$ is the kernel-weighted mean of the neighbors'
    /// $h_k^{-d}$, so that $N h^d \hat p$ is the plain kernel sum when the density has the same bandwidths.
    fn log_volume(&self, ids: &[u32], weights: &Weights) -> f64 {
        let d = self.dimension;
        match &self.bandwidth {
            Bandwidth::Scalar(h) => d * h.ln(),
            Bandwidth::PerDimension(_) => self.log_scale_volume,
            Bandwidth::PerPoint(h) => -weights.log_mean_exp(ids.iter().map(|&id| -d * h[id as usize].ln())),
        }
    }
}

/// Queries with their neighbors, ready to be read row by row.
pub(crate) struct Batch<'b> {
    smoother: &'b Smoother<'b>,
    queries: &'b Embeddings<'b>,
    neighbors: &'b Neighbors,
    /// What Gaussians say of each query, where the density asks them: $\ln \hat p$, or how alarmed they are.
    of_gaussians: Option<Vec<f64>>,
}

impl Batch<'_> {
    pub(crate) fn len(&self) -> usize {
        self.queries.len()
    }

    /// Evaluates the densities that take whole batches; [`local`](Self::local) needs it.
    pub(crate) fn with_density(self) -> Result<Self, Error> {
        let index = &*self.smoother.index;
        let of_gaussians = match &self.smoother.density {
            FittedDensity::Gmm { covariance, shrinkage, fitted } => {
                let fit = |rows: &Embeddings<'static>, classes: &Classes, of_row: &[u32]| {
                    ClassGaussians::fit_encoded(rows, classes, of_row, *covariance, *shrinkage)
                };
                Some(fitted.get(index, fit)?.log_density(self.queries)?)
            }
            FittedDensity::Auto { learned, fitted } => {
                let fitted = fitted.get(index, auto::fit_gaussians)?;
                Some(learned.gaussian_alarms(fitted, self.queries)?)
            }
            FittedDensity::Same | FittedDensity::Kde(_) => None,
        };
        Ok(Self { of_gaussians, ..self })
    }

    /// The weights of query `i`'s neighbors with the posterior's bandwidth.
    pub(crate) fn weights(&self, i: usize) -> Weights {
        self.weights_with(i, &self.smoother.bandwidth)
    }

    fn weights_with(&self, i: usize, bandwidth: &Bandwidth) -> Weights {
        let Smoother { index, kernel, .. } = self.smoother;
        let stored = index.rows();
        let z = |id: u32, h: f64| scaled_differences(self.queries.row(i), stored.row(id), stored.scale(), h);
        let mut weights = Weights::default();
        let (ids, sq) = (self.neighbors.ids(i), self.neighbors.sq_distances(i));
        weigh(*kernel, bandwidth, ids, sq, z, &mut weights);
        weights
    }

    /// The neighborhood of query `i`.
    pub(crate) fn local(&self, i: usize) -> Local {
        let Smoother { index, kernel, density, dimension, log_scale_volume, .. } = self.smoother;
        let (log_n, d) = ((index.len() as f64).ln(), *dimension);
        let weights = self.weights(i);
        let log_volume = self.smoother.log_volume(self.neighbors.ids(i), &weights);
        let log_density = match (density, &self.of_gaussians) {
            (FittedDensity::Same, _) => kernel.log_peak(d) + weights.log_sum() - log_volume - log_n,
            (FittedDensity::Kde(h), _) => {
                let log_sum = self.weights_with(i, &Bandwidth::Scalar(*h)).log_sum();
                kernel.log_peak(d) + log_sum - d * h.ln() - log_scale_volume - log_n
            }
            (FittedDensity::Gmm { .. }, Some(log_densities)) => log_densities[i],
            (FittedDensity::Auto { learned, .. }, Some(alarms)) => {
                let log_sum = self.weights_with(i, &Bandwidth::Scalar(learned.bandwidth)).log_sum();
                learned.log_density(log_sum, alarms[i])
            }
            (FittedDensity::Gmm { .. } | FittedDensity::Auto { .. }, None) => {
                unreachable!("with_density asks the Gaussians")
            }
        };
        let log_variance_scale = kernel.log_sq_norm(d) - log_n - log_volume - log_density;
        Local { weights, log_density, log_variance_scale }
    }
}

/// What a model has learned, told the same way by every model that stands on a smoother.
macro_rules! learned {
    ($model:ident) => {
        impl $model<'_> {
            /// The index over the training rows, in the space that the model searches.
            pub fn index(&self) -> &dyn $crate::NeighborIndex {
                &*self.smoother.index
            }

            /// Which index was taken, and why; [`describe`]($crate::NeighborIndex::describe) of the index itself says how
            /// many of the true neighbors it finds.
            pub fn index_choice(&self) -> $crate::IndexChoice {
                self.smoother.choice
            }

            /// The squared distances, in the space that the model searches, of training rows that something else chose:
            /// `ids` holds `k` of them per query. What [`predict_from`](Self::predict_from) needs when only ids are known.
            pub fn measure(
                &self,
                queries: &$crate::Embeddings<'_>,
                k: usize,
                ids: &[u32],
            ) -> Result<$crate::Neighbors, $crate::Error> {
                self.smoother.measure(queries, k, ids)
            }

            /// The nearest training rows of each query, in the space that the model searches.
            pub fn neighbors_of(
                &self,
                queries: &$crate::Embeddings<'_>,
                k: usize,
            ) -> Result<$crate::Neighbors, $crate::Error> {
                Ok(self.smoother.index.search(&self.smoother.prepare(queries), k)?)
            }

            /// $K$, the neighbors that every sum runs over.
            pub fn n_neighbors(&self) -> usize {
                self.smoother.n_neighbors
            }

            /// The kernel.
            pub fn kernel(&self) -> $crate::Kernel {
                self.smoother.kernel
            }

            /// The bandwidth of class probabilities, or of the mean.
            pub fn bandwidth(&self) -> &$crate::Bandwidth {
                &self.smoother.bandwidth
            }

            /// The bandwidth of the kernel density, when it has one of its own; in the space that the model searches, where
            /// each coordinate is divided by its bandwidth if there is one per dimension.
            pub fn density_bandwidth(&self) -> Option<f64> {
                match self.smoother.density {
                    $crate::smoother::FittedDensity::Kde(h) => Some(h),
                    $crate::smoother::FittedDensity::Auto { learned, .. } => Some(learned.bandwidth),
                    _ => None,
                }
            }

            /// The thresholds, by name.
            pub fn thresholds(&self) -> &std::collections::BTreeMap<String, $crate::calibrate::Threshold> {
                &self.smoother.thresholds
            }

            /// Keeps a threshold with the model under a name; the one that had this name before is returned.
            pub fn set_threshold(
                &mut self,
                name: impl Into<String>,
                threshold: $crate::calibrate::Threshold,
            ) -> Option<$crate::calibrate::Threshold> {
                self.smoother.thresholds.insert(name.into(), threshold)
            }

            /// Forgets a threshold.
            pub fn remove_threshold(&mut self, name: &str) -> Option<$crate::calibrate::Threshold> {
                self.smoother.thresholds.remove(name)
            }

            /// The dimension that stands in the constants.
            pub fn dimension(&self) -> f64 {
                self.smoother.dimension
            }

            /// Whether training rows and queries are divided by their Euclidean length.
            #[must_use]
            pub fn is_normalized(&self) -> bool {
                self.smoother.normalize
            }
        }
    };
}
pub(crate) use learned;
