//! `nuq fit`: files in, a model file out, and what was chosen on the way.

use std::path::Path;
use std::time::Instant;

use nuq::nuq_neighbors::Precision;
use nuq::{
    BandwidthRule, Covariance, Criterion, Density, DensityBandwidth, Dimension, Embeddings, FittedModel,
    HnswParams, IndexKind, Kernel, Model, NuqClassifier, NuqRegressor, Params, Shrinkage, Variance,
};
use nuq_io::{ArraySpec, read_targets};

use crate::args::{
    BandwidthName, Common, CovarianceName, DensityBandwidthName, DensityName, DimensionName, FitArgs,
    IndexName, KernelName, PrecisionName, Preset, ShrinkageName, VarianceName,
};
use crate::error::Error;
use crate::inspect::Summary;
use crate::output;
use crate::progress::say;
use crate::rows;

pub(crate) fn run(options: &FitArgs, common: &Common) -> Result<(), Error> {
    check(options)?;
    let task = Task::of(options)?;
    let inputs = [Some(&options.embeddings), options.labels.as_ref(), options.targets.as_ref()];
    let inputs: Vec<&Path> = inputs.into_iter().flatten().map(|spec| spec.path.as_path()).collect();
    output::check_out(&options.out, &inputs)?;
    let x = read_rows(options)?;
    say(common, &format!("read {} rows of {} columns from {}", x.len(), x.dim(), options.embeddings));
    let start = Instant::now();
    let model = match task {
        Task::Classification(labels, params) => {
            let y = rows::labels(labels, (&options.embeddings, x.len()))?;
            Model::Classifier(params.fit(&x, &y)?)
        }
        Task::Regression(targets, params) => {
            let y = read_targets(targets)?;
            rows::same_length(targets, y.len(), "targets", (&options.embeddings, x.len()))?;
            Model::Regressor(params.fit(&x, &y)?)
        }
    };
    let seconds = start.elapsed().as_secs_f64();
    remark(options, &model, common);
    nuq_io::save(&model, &options.out)?;
    say(common, &format!("fitted in {seconds:.2} s, saved as {}", options.out.display()));
    output::tell(common, &Summary::of(&model).shown(common.json))
}

/// What is predicted, from which file, and how.
enum Task<'o> {
    Classification(&'o ArraySpec, Params<nuq::Classification>),
    Regression(&'o ArraySpec, Params<nuq::Regression>),
}

impl<'o> Task<'o> {
    /// Refuses values that no data could make right, before any are read.
    fn of(options: &'o FitArgs) -> Result<Self, Error> {
        match (&options.labels, &options.targets) {
            (Some(labels), _) => {
                let params = classifier(options)?;
                params.check()?;
                Ok(Self::Classification(labels, params))
            }
            (None, Some(targets)) => {
                let params = regressor(options)?;
                params.check()?;
                Ok(Self::Regression(targets, params))
            }
            (None, None) => Err(Error::Usage("give --labels or --targets".to_owned())),
        }
    }
}

/// The training rows; those that cannot be used are named.
fn read_rows(options: &FitArgs) -> Result<Embeddings<'static>, Error> {
    let others: Vec<&ArraySpec> = options.labels.iter().chain(&options.targets).collect();
    rows::read(&options.embeddings, &others)
}

/// Says what a model of these data cannot do.
fn remark(options: &FitArgs, model: &Model<'_>, common: &Common) {
    let rows = model.index().len();
    if let Some(k) = options.k.filter(|&k| k > rows) {
        say(common, &format!("--k {k}: there are {rows} rows, and every sum runs over all of them"));
    }
    match model {
        Model::Classifier(model) if model.classes().len() == 1 => {
            let text =
                "all labels are the same: only the density and the epistemic uncertainty mean something";
            say(common, text);
        }
        _ => {}
    }
}

/// Refuses options that would be ignored.
fn check(options: &FitArgs) -> Result<(), Error> {
    let is_gmm = options.density == Some(DensityName::Gmm);
    let refuse = |text: &str| Err(Error::Usage(text.to_owned()));
    if !is_gmm && options.covariance.is_some() {
        return refuse("--covariance belongs to --density gmm");
    }
    if !is_gmm && options.shrinkage.is_some() {
        return refuse("--shrinkage belongs to --density gmm");
    }
    if matches!(options.density, Some(DensityName::Gmm | DensityName::Auto))
        && options.density_bandwidth.is_some()
    {
        return refuse("--density-bandwidth belongs to --density kde");
    }
    if options.targets.is_some() && options.variance.is_some() {
        return refuse("--variance belongs to --labels: a regressor's variance is that of its targets");
    }
    if options.targets.is_some() && matches!(options.preset, Preset::Paper) {
        return refuse("--preset paper belongs to --labels: the paper's algorithm is a classifier");
    }
    if options.index == IndexName::Exact && options.recall.is_some() {
        return refuse("--recall belongs to --index hnsw or auto: exact search finds all neighbors");
    }
    if options.index != IndexName::Auto && options.expected_queries.is_some() {
        return refuse("--expected-queries belongs to --index auto: it decides which index is taken");
    }
    if options.index != IndexName::Hnsw && options.precision.is_some() {
        return refuse("--precision belongs to --index hnsw");
    }
    Ok(())
}

fn classifier(options: &FitArgs) -> Result<Params<nuq::Classification>, Error> {
    let mut params = match options.preset {
        Preset::Default => NuqClassifier::params(),
        Preset::Paper => NuqClassifier::paper(),
    };
    params = match options.bandwidth {
        None => params,
        Some(BandwidthName::LogLikelihood) => params.bandwidth(Criterion::LogLikelihood),
        Some(BandwidthName::Accuracy) => params.bandwidth(Criterion::Accuracy),
        Some(other) => params.bandwidth(rule(other)?),
    };
    if let Some(variance) = options.variance {
        params = params.variance(match variance {
            VarianceName::Sum => Variance::Sum,
            VarianceName::Max => Variance::Max,
        });
    }
    Ok(shared(params, options))
}

fn regressor(options: &FitArgs) -> Result<Params<nuq::Regression>, Error> {
    let params = NuqRegressor::params();
    Ok(shared(
        match options.bandwidth {
            None => params,
            Some(name) => params.bandwidth(rule(name)?),
        },
        options,
    ))
}

/// The rules that every task has.
fn rule<C: Default>(name: BandwidthName) -> Result<BandwidthRule<C>, Error> {
    Ok(match name {
        BandwidthName::Silverman => BandwidthRule::Silverman,
        BandwidthName::Scott => BandwidthRule::Scott,
        BandwidthName::Isj => BandwidthRule::ImprovedSheatherJones,
        BandwidthName::Adaptive => BandwidthRule::Adaptive { k: None },
        BandwidthName::Number(h) => BandwidthRule::Fixed(nuq::Bandwidth::Scalar(h)),
        BandwidthName::LogLikelihood | BandwidthName::Accuracy => {
            let text = "--bandwidth log-likelihood and accuracy belong to --labels; targets are predicted by squared error";
            return Err(Error::Usage(text.to_owned()));
        }
    })
}

fn shared<T: nuq::Task>(mut params: Params<T>, options: &FitArgs) -> Params<T> {
    if let Some(k) = options.k {
        params = params.n_neighbors(k);
    }
    if let Some(kernel) = options.kernel {
        params = params.kernel(match kernel {
            KernelName::Gaussian => Kernel::Gaussian,
            KernelName::Sigmoid => Kernel::Sigmoid,
            KernelName::Logistic => Kernel::Logistic,
            KernelName::Student => Kernel::Student,
        });
    }
    if let Some(weight) = options.prior_weight {
        params = params.prior_weight(weight);
    }
    if let Some(dimension) = options.dimension {
        params = params.dimension(match dimension {
            DimensionName::Intrinsic => Dimension::Intrinsic,
            DimensionName::Ambient => Dimension::Ambient,
        });
    }
    if let Some(density) = density(options) {
        params = params.density(density);
    }
    if options.normalize {
        params = params.normalize(true);
    }
    if let Some(recall) = options.recall {
        params = params.recall(recall);
    }
    if let Some(queries) = options.expected_queries {
        params = params.expected_queries(queries);
    }
    let precision = match options.precision {
        Some(PrecisionName::F16) => Precision::F16,
        _ => Precision::F32,
    };
    params.seed(options.seed).index(match options.index {
        IndexName::Auto => IndexKind::Auto,
        IndexName::Exact => IndexKind::Exact,
        IndexName::Hnsw => IndexKind::Hnsw(HnswParams::default().seed(options.seed).precision(precision)),
    })
}

/// The density, where an option speaks of it.
fn density(options: &FitArgs) -> Option<Density> {
    if options.density == Some(DensityName::Gmm) {
        return Some(Density::Gmm {
            covariance: match options.covariance {
                None | Some(CovarianceName::Full) => Covariance::Full,
                Some(CovarianceName::Tied) => Covariance::Tied,
                Some(CovarianceName::Diagonal) => Covariance::Diagonal,
            },
            shrinkage: match options.shrinkage {
                None | Some(ShrinkageName::Auto) => Shrinkage::LedoitWolf,
                Some(ShrinkageName::Number(amount)) => Shrinkage::Fixed(amount),
            },
        });
    }
    if options.density == Some(DensityName::Auto) {
        return Some(Density::Auto);
    }
    let bandwidth = match options.density_bandwidth? {
        DensityBandwidthName::Kth => DensityBandwidth::HalfMedian,
        DensityBandwidthName::Same => DensityBandwidth::Same,
        DensityBandwidthName::Number(h) => DensityBandwidth::Fixed(h),
    };
    Some(Density::Kde { bandwidth })
}
