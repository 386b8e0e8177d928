//! The section `model`: everything small, as JSON that any language reads.
//!
//! These types are the format. They mirror the library's own and change only with the format's version.

use std::collections::BTreeMap;

use nuq::bandwidth::CurvePoint;
use nuq::nuq_neighbors::{HnswParams, IndexParts, MeasuredRecall, Precision, Reason};
use nuq::parts::{ClassifierParts, FittedDensityParts, RegressorParts, SmootherParts};
use nuq::{
    AutoDensity, Bandwidth, ClassificationScore, Covariance, IndexChoice, IndexKind, Kernel, Label,
    NuqClassifier, NuqRegressor, RegressionScore, SelectionCurve, Shrinkage, Tail, Variance,
};
use serde::{Deserialize, Serialize};

use crate::threshold_meta::ThresholdMeta;

/// All of it.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Meta {
    /// The version of nuq that wrote it: for people.
    pub(crate) written_by: String,
    pub(crate) task: TaskMeta,
    pub(crate) smoother: SmootherMeta,
    pub(crate) index: IndexMeta,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub(crate) enum TaskMeta {
    /// The class of each row is in section `classes`.
    Classification { labels: Vec<LabelMeta>, variance: VarianceMeta, curve: Option<CurveMeta> },
    /// The target of each row is in section `targets`.
    Regression { curve: Option<CurveMeta> },
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(untagged)]
pub(crate) enum LabelMeta {
    /// Integers are written as strings of digits under this name: JSON readers round large ones.
    Int {
        int: String,
    },
    Text(String),
}

#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum VarianceMeta {
    Sum,
    Max,
}

/// How a bandwidth was chosen: columns of equal length.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct CurveMeta {
    chosen: usize,
    rows: usize,
    bandwidth: Vec<f64>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    accuracy: Vec<f64>,
    /// `null` where it is minus infinity.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    log_likelihood: Vec<Option<f64>>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    squared_error: Vec<f64>,
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct SmootherMeta {
    kernel: KernelMeta,
    /// Bandwidths per dimension or point are in section `bandwidths`.
    bandwidth: BandwidthMeta,
    density: DensityMeta,
    dimension: f64,
    #[serde(alias = "neighbors")]
    n_neighbors: usize,
    normalize: bool,
    prior_weight: f64,
    index_reason: ReasonMeta,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    thresholds: BTreeMap<String, ThresholdMeta>,
}

#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum KernelMeta {
    Gaussian,
    Sigmoid,
    Logistic,
    Student,
}

#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
enum BandwidthMeta {
    Scalar { h: f64 },
    PerDimension,
    PerPoint,
}

#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
enum DensityMeta {
    Same,
    Kde { h: f64 },
    Gaussians { covariance: CovarianceMeta, shrinkage: Option<f64> },
    Auto { h: f64, kernel: TailMeta, gaussians: TailMeta, columns: usize, least_length: f64, offset: f64 },
}

#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
struct TailMeta {
    center: f64,
    scale: f64,
}

impl From<Tail> for TailMeta {
    fn from(Tail { center, scale }: Tail) -> Self {
        Self { center, scale }
    }
}

impl From<TailMeta> for Tail {
    fn from(TailMeta { center, scale }: TailMeta) -> Self {
        Self { center, scale }
    }
}

#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum CovarianceMeta {
    Full,
    Tied,
    Diagonal,
}

#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
enum ReasonMeta {
    Asked,
    Cheaper { rows: usize, dim: usize, queries: u64, exact: f64, graph: f64 },
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct IndexMeta {
    pub(crate) dim: usize,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) removed: Vec<u32>,
    pub(crate) scale: Option<Vec<f64>>,
    pub(crate) graph: Option<GraphMeta>,
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct GraphMeta {
    pub(crate) params: GraphParamsMeta,
    pub(crate) recall: Option<RecallMeta>,
    pub(crate) entry: Option<u32>,
    pub(crate) codes: Option<CodesMeta>,
}

#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) struct GraphParamsMeta {
    m: usize,
    ef_construction: usize,
    ef_search: usize,
    seed: u64,
    half_precision: bool,
}

#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) struct RecallMeta {
    share: f64,
    k: usize,
    points: usize,
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct CodesMeta {
    pub(crate) step: f32,
    pub(crate) unreached: usize,
}

impl From<&IndexParts<'_>> for IndexMeta {
    fn from(parts: &IndexParts<'_>) -> Self {
        let graph = parts.graph.as_ref().map(|graph| {
            let HnswParams { m, ef_construction, ef_search, seed, precision } = graph.params;
            let half_precision = precision == Precision::F16;
            GraphMeta {
                params: GraphParamsMeta { m, ef_construction, ef_search, seed, half_precision },
                recall: graph.recall.map(|MeasuredRecall { share, k, points }| RecallMeta {
                    share,
                    k,
                    points,
                }),
                entry: graph.links.as_ref().map(|links| links.entry),
                codes: graph
                    .codes
                    .as_ref()
                    .map(|codes| CodesMeta { step: codes.step, unreached: codes.unreached }),
            }
        });
        Self { dim: parts.dim, removed: parts.removed.clone(), scale: parts.scale.clone(), graph }
    }
}

impl From<GraphParamsMeta> for HnswParams {
    fn from(meta: GraphParamsMeta) -> Self {
        let GraphParamsMeta { m, ef_construction, ef_search, seed, half_precision } = meta;
        let precision = if half_precision { Precision::F16 } else { Precision::F32 };
        Self { m, ef_construction, ef_search, seed, precision }
    }
}

impl From<RecallMeta> for MeasuredRecall {
    fn from(RecallMeta { share, k, points }: RecallMeta) -> Self {
        Self { share, k, points }
    }
}

impl From<&Label> for LabelMeta {
    fn from(label: &Label) -> Self {
        match label {
            Label::Int(value) => Self::Int { int: value.to_string() },
            Label::Text(text) => Self::Text(text.clone()),
        }
    }
}

impl LabelMeta {
    fn label(self) -> Option<Label> {
        match self {
            Self::Int { int } => int.parse().ok().map(Label::Int),
            Self::Text(text) => Some(Label::Text(text)),
        }
    }
}

impl SmootherMeta {
    pub(crate) fn of(parts: &SmootherParts) -> Self {
        Self {
            kernel: match parts.kernel {
                Kernel::Gaussian => KernelMeta::Gaussian,
                Kernel::Sigmoid => KernelMeta::Sigmoid,
                Kernel::Logistic => KernelMeta::Logistic,
                Kernel::Student => KernelMeta::Student,
            },
            bandwidth: match &parts.bandwidth {
                Bandwidth::Scalar(h) => BandwidthMeta::Scalar { h: *h },
                Bandwidth::PerDimension(_) => BandwidthMeta::PerDimension,
                Bandwidth::PerPoint(_) => BandwidthMeta::PerPoint,
            },
            density: match parts.density {
                FittedDensityParts::Same => DensityMeta::Same,
                FittedDensityParts::Kde(h) => DensityMeta::Kde { h },
                FittedDensityParts::Auto(AutoDensity {
                    bandwidth,
                    kernel,
                    gaussians,
                    columns,
                    least_length,
                    offset,
                }) => {
                    let (kernel, gaussians) = (kernel.into(), gaussians.into());
                    DensityMeta::Auto { h: bandwidth, kernel, gaussians, columns, least_length, offset }
                }
                FittedDensityParts::Gmm { covariance, shrinkage } => DensityMeta::Gaussians {
                    covariance: match covariance {
                        Covariance::Full => CovarianceMeta::Full,
                        Covariance::Tied => CovarianceMeta::Tied,
                        Covariance::Diagonal => CovarianceMeta::Diagonal,
                    },
                    shrinkage: match shrinkage {
                        Shrinkage::LedoitWolf => None,
                        Shrinkage::Fixed(amount) => Some(amount),
                    },
                },
            },
            dimension: parts.dimension,
            n_neighbors: parts.n_neighbors,
            normalize: parts.normalize,
            prior_weight: parts.prior_weight,
            index_reason: match parts.choice.reason {
                Reason::Requested => ReasonMeta::Asked,
                Reason::Cheaper { rows, dim, queries, exact, graph } => {
                    ReasonMeta::Cheaper { rows, dim, queries, exact, graph }
                }
            },
            thresholds: parts.thresholds.iter().map(|(name, found)| (name.clone(), found.into())).collect(),
        }
    }

    /// The smoother, with bandwidths per dimension or point given beside it.
    pub(crate) fn parts(&self, bandwidths: Vec<f64>, graph: Option<&GraphMeta>) -> SmootherParts {
        SmootherParts {
            kernel: match self.kernel {
                KernelMeta::Gaussian => Kernel::Gaussian,
                KernelMeta::Sigmoid => Kernel::Sigmoid,
                KernelMeta::Logistic => Kernel::Logistic,
                KernelMeta::Student => Kernel::Student,
            },
            bandwidth: match self.bandwidth {
                BandwidthMeta::Scalar { h } => Bandwidth::Scalar(h),
                BandwidthMeta::PerDimension => Bandwidth::PerDimension(bandwidths),
                BandwidthMeta::PerPoint => Bandwidth::PerPoint(bandwidths),
            },
            density: match self.density {
                DensityMeta::Same => FittedDensityParts::Same,
                DensityMeta::Kde { h } => FittedDensityParts::Kde(h),
                DensityMeta::Auto { h, kernel, gaussians, columns, least_length, offset } => {
                    let (kernel, gaussians) = (kernel.into(), gaussians.into());
                    FittedDensityParts::Auto(AutoDensity {
                        bandwidth: h,
                        kernel,
                        gaussians,
                        columns,
                        least_length,
                        offset,
                    })
                }
                DensityMeta::Gaussians { covariance, shrinkage } => FittedDensityParts::Gmm {
                    covariance: match covariance {
                        CovarianceMeta::Full => Covariance::Full,
                        CovarianceMeta::Tied => Covariance::Tied,
                        CovarianceMeta::Diagonal => Covariance::Diagonal,
                    },
                    shrinkage: shrinkage.map_or(Shrinkage::LedoitWolf, Shrinkage::Fixed),
                },
            },
            dimension: self.dimension,
            n_neighbors: self.n_neighbors,
            normalize: self.normalize,
            prior_weight: self.prior_weight,
            choice: IndexChoice {
                kind: graph.map_or(IndexKind::Exact, |graph| IndexKind::Hnsw(graph.params.into())),
                reason: match self.index_reason {
                    ReasonMeta::Asked => Reason::Requested,
                    ReasonMeta::Cheaper { rows, dim, queries, exact, graph } => {
                        Reason::Cheaper { rows, dim, queries, exact, graph }
                    }
                },
            },
            thresholds: self.thresholds.iter().map(|(name, kept)| (name.clone(), kept.into())).collect(),
        }
    }

    /// Whether the section `bandwidths` belongs to the model.
    pub(crate) fn has_many_bandwidths(&self) -> bool {
        !matches!(self.bandwidth, BandwidthMeta::Scalar { .. })
    }
}

impl TaskMeta {
    pub(crate) fn of_classifier(model: &NuqClassifier<'_>) -> Self {
        Self::Classification {
            labels: model.classes().labels().iter().map(LabelMeta::from).collect(),
            variance: match model.variance() {
                Variance::Sum => VarianceMeta::Sum,
                Variance::Max => VarianceMeta::Max,
            },
            curve: model.bandwidth_curve().map(|curve| CurveMeta {
                accuracy: curve.points.iter().map(|point| point.score.accuracy).collect(),
                log_likelihood: curve
                    .points
                    .iter()
                    .map(|point| Some(point.score.log_likelihood).filter(|v| v.is_finite()))
                    .collect(),
                ..CurveMeta::of(curve)
            }),
        }
    }

    pub(crate) fn of_regressor(model: &NuqRegressor<'_>) -> Self {
        Self::Regression {
            curve: model.bandwidth_curve().map(|curve| CurveMeta {
                squared_error: curve.points.iter().map(|point| point.score.squared_error).collect(),
                ..CurveMeta::of(curve)
            }),
        }
    }
}

impl CurveMeta {
    fn of<S>(curve: &SelectionCurve<S>) -> Self {
        Self {
            chosen: curve.chosen,
            rows: curve.rows,
            bandwidth: curve.points.iter().map(|point| point.bandwidth).collect(),
            accuracy: vec![],
            log_likelihood: vec![],
            squared_error: vec![],
        }
    }

    fn curve<S>(&self, scores: Vec<S>) -> Option<SelectionCurve<S>> {
        if scores.len() != self.bandwidth.len() || self.chosen >= scores.len() {
            return None;
        }
        let points = self.bandwidth.iter().zip(scores);
        let points = points.map(|(&bandwidth, score)| CurvePoint { bandwidth, score }).collect();
        Some(SelectionCurve { points, chosen: self.chosen, rows: self.rows })
    }

    fn of_classifier(&self) -> Option<SelectionCurve<ClassificationScore>> {
        let likelihoods = self.log_likelihood.iter().map(|v| v.unwrap_or(f64::NEG_INFINITY));
        let scores = self.accuracy.iter().zip(likelihoods);
        let scores =
            scores.map(|(&accuracy, log_likelihood)| ClassificationScore { accuracy, log_likelihood });
        self.curve(scores.collect())
    }

    fn of_regressor(&self) -> Option<SelectionCurve<RegressionScore>> {
        self.curve(
            self.squared_error.iter().map(|&squared_error| RegressionScore { squared_error }).collect(),
        )
    }
}

/// A classifier's parts; `None` when they contradict each other.
pub(crate) fn classifier_parts(
    (labels, variance, curve): (Vec<LabelMeta>, VarianceMeta, Option<CurveMeta>),
    smoother: SmootherParts,
    of_row: Vec<u32>,
) -> Option<ClassifierParts> {
    let labels = labels.into_iter().map(LabelMeta::label).collect::<Option<Vec<Label>>>()?;
    let variance = match variance {
        VarianceMeta::Sum => Variance::Sum,
        VarianceMeta::Max => Variance::Max,
    };
    let curve = match curve {
        Some(curve) => Some(curve.of_classifier()?),
        None => None,
    };
    Some(ClassifierParts { smoother, labels, of_row, variance, curve })
}

/// A regressor's parts; `None` when they contradict each other.
pub(crate) fn regressor_parts(
    curve: Option<CurveMeta>,
    smoother: SmootherParts,
    targets: Vec<f64>,
) -> Option<RegressorParts> {
    let curve = match curve {
        Some(curve) => Some(curve.of_regressor()?),
        None => None,
    };
    Some(RegressorParts { smoother, targets, curve })
}
