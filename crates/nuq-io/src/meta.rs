//! The section `model` of a model file: all small values, as JSON.
//!
//! These types define the format; `docs/model-format.md` describes every field. Fields, and values of the field `kind`, that were renamed
//! since version 1 are read under their old names too.

use nuq::bandwidth::CurvePoint;
use nuq::nuq_neighbors::{
    HnswParams, IndexParts, MeasuredRecall, Precision, Reason, RowParts, RowStorage, ShardedRows,
};
use nuq::parts::{ClassifierParts, FittedDensityParts, RegressorParts, SmootherParts};
use nuq::{
    AutoDensity, AutoGaussians, Bandwidth, ClassificationScore, Combination, Covariance, FittedModel,
    FittedScale, GmmDensity, IndexChoice, IndexKind, Kernel, Label, LogLikelihoods, LogisticTail,
    NuqClassifier, NuqRegressor, RadialCorrection, RegressionScore, SelectionCurve, Shrinkage, Variance,
};
use serde::{Deserialize, Deserializer, Serialize};

use crate::rules_meta::RulesMeta;
use crate::word;

/// The whole section.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Meta {
    /// Name and version of the program that wrote the file; informative only.
    pub(crate) written_by: String,
    pub(crate) task: TaskMeta,
    pub(crate) smoother: SmootherMeta,
    pub(crate) index: IndexMeta,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub(crate) enum TaskMeta {
    /// The class of each row is in section `classes`.
    Classification {
        labels: Vec<LabelMeta>,
        #[serde(with = "word")]
        variance: Variance,
        curve: Option<CurveMeta>,
    },
    /// The target of each row is in section `targets`.
    Regression { curve: Option<CurveMeta> },
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(untagged)]
pub(crate) enum LabelMeta {
    /// An integer as a string of digits, because many JSON readers round large integers.
    Int {
        int: String,
    },
    Text(String),
    Bool(bool),
}

/// Leave-one-out scores by bandwidth, as columns of equal length.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct CurveMeta {
    chosen: usize,
    rows: usize,
    bandwidth: Vec<f64>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    accuracy: Vec<f64>,
    /// JSON cannot represent infinity: -∞ is written as `null`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    log_likelihood: Vec<Option<f64>>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    squared_error: Vec<f64>,
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct SmootherMeta {
    #[serde(with = "word")]
    kernel: Kernel,
    /// Bandwidths per dimension or per row are in section `bandwidths`.
    bandwidth: BandwidthMeta,
    density: DensityMeta,
    dimension: f64,
    /// Absent in versions 1 and 2, which have only the asymptotic formulas `Intrinsic` and `Ambient`.
    #[serde(default)]
    scale: Option<ScaleMeta>,
    /// Version 1 calls this field `neighbors`.
    #[serde(alias = "neighbors")]
    n_neighbors: usize,
    normalize: bool,
    prior_weight: f64,
    #[serde(with = "ReasonFields")]
    index_reason: Reason,
    #[serde(flatten)]
    rules: RulesMeta,
    /// Absent if the columns have no names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    column_names: Option<Vec<String>>,
    /// The Gaussians of the density, if they are stored: their arrays are in the sections `gaussians.…`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) gaussians: Option<GaussiansMeta>,
}

#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) struct GaussiansMeta {
    /// Whether all classes share one covariance.
    pub(crate) tied: bool,
}

#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
enum BandwidthMeta {
    Scalar { h: f64 },
    PerDimension,
    PerPoint,
}

/// The formula of `n(x)`, the number of training rows that support an estimate.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
enum ScaleMeta {
    Effective { sample_size: f64, log_density: f64 },
    Intrinsic,
    Ambient,
}

#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
enum DensityMeta {
    Same,
    Kde {
        h: f64,
    },
    /// Version 1 calls this kind `gaussians`.
    #[serde(alias = "gaussians")]
    Gmm {
        #[serde(with = "word")]
        covariance: Covariance,
        /// `null` for Ledoit-Wolf.
        shrinkage: Option<f64>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        scale_free: Option<RadialMeta>,
        /// Absent in versions 1 and 2.
        #[serde(default)]
        tail: Option<TailMeta>,
    },
    Auto(AutoMeta),
}

#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
struct AutoMeta {
    h: f64,
    /// Version 1 calls this field `kernel`.
    #[serde(alias = "kernel")]
    kde: TailMeta,
    /// `null` if Gaussians are not used. Version 1 calls this field `gaussians`.
    #[serde(alias = "gaussians")]
    gmm: Option<TailMeta>,
    #[serde(flatten)]
    radial: Option<RadialMeta>,
    /// Absent in versions 1 and 2, which have only sums.
    #[serde(default)]
    combination: CombinationMeta,
    offset: f64,
    #[serde(default)]
    log_likelihoods: Option<LogLikelihoodsMeta>,
}

#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum CombinationMeta {
    #[default]
    Sum,
    Max,
}

#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
struct LogLikelihoodsMeta {
    kde: f64,
    gmm: f64,
}

#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
struct RadialMeta {
    columns: usize,
    least_length: f64,
}

#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
#[serde(transparent)]
struct TailMeta(#[serde(with = "TailFields")] LogisticTail);

impl From<AutoDensity> for AutoMeta {
    fn from(auto: AutoDensity) -> Self {
        let part = auto.gaussians;
        Self {
            h: auto.bandwidth,
            kde: TailMeta(auto.kernel),
            gmm: part.map(|part| TailMeta(part.tail)),
            radial: part.map(|part| part.correction.into()),
            combination: match part.map(|part| part.combination) {
                Some(Combination::Sum) => CombinationMeta::Sum,
                Some(Combination::Max) | None => CombinationMeta::Max,
            },
            offset: auto.offset,
            log_likelihoods: auto.log_likelihoods.map(|LogLikelihoods { kernel, gaussians }| {
                LogLikelihoodsMeta { kde: kernel, gmm: gaussians }
            }),
        }
    }
}

impl From<AutoMeta> for AutoDensity {
    fn from(meta: AutoMeta) -> Self {
        let combination = match meta.combination {
            CombinationMeta::Sum => Combination::Sum,
            CombinationMeta::Max => Combination::Max,
        };
        let gaussians = meta.gmm.zip(meta.radial).map(|(tail, radial)| AutoGaussians {
            tail: tail.0,
            correction: radial.into(),
            combination,
        });
        Self {
            bandwidth: meta.h,
            kernel: meta.kde.0,
            gaussians,
            offset: meta.offset,
            log_likelihoods: meta
                .log_likelihoods
                .map(|of| LogLikelihoods { kernel: of.kde, gaussians: of.gmm }),
        }
    }
}

impl From<RadialCorrection> for RadialMeta {
    fn from(RadialCorrection { columns, least_length }: RadialCorrection) -> Self {
        Self { columns, least_length }
    }
}

impl From<RadialMeta> for RadialCorrection {
    fn from(RadialMeta { columns, least_length }: RadialMeta) -> Self {
        Self { columns, least_length }
    }
}

impl From<FittedScale> for ScaleMeta {
    fn from(scale: FittedScale) -> Self {
        match scale {
            FittedScale::Effective { sample_size, log_density } => {
                Self::Effective { sample_size, log_density }
            }
            FittedScale::Intrinsic => Self::Intrinsic,
            FittedScale::Ambient => Self::Ambient,
        }
    }
}

impl From<ScaleMeta> for FittedScale {
    fn from(scale: ScaleMeta) -> Self {
        match scale {
            ScaleMeta::Effective { sample_size, log_density } => Self::Effective { sample_size, log_density },
            ScaleMeta::Intrinsic => Self::Intrinsic,
            ScaleMeta::Ambient => Self::Ambient,
        }
    }
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "LogisticTail")]
struct TailFields {
    center: f64,
    scale: f64,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Reason", tag = "kind", rename_all = "snake_case")]
enum ReasonFields {
    /// Version 1 calls this kind `asked`.
    #[serde(alias = "asked")]
    Requested,
    /// Earlier files call this kind `cheaper`, with the times `exact` and `graph`.
    #[serde(alias = "cheaper")]
    LowerCost {
        rows: usize,
        dim: usize,
        queries: u64,
        #[serde(alias = "exact")]
        exact_seconds: f64,
        #[serde(alias = "graph")]
        graph_seconds: f64,
    },
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct IndexMeta {
    /// The number of columns.
    pub(crate) dim: usize,
    /// The ids of removed rows.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) removed: Vec<u32>,
    /// The divisor of each column, if distances are measured between scaled rows. It is not the scale in [`SmootherMeta`].
    pub(crate) scale: Option<Vec<f64>>,
    pub(crate) graph: Option<GraphMeta>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct GraphMeta {
    #[serde(with = "HnswParamsFields")]
    pub(crate) params: HnswParams,
    pub(crate) recall: Option<RecallMeta>,
    /// The id at which a search starts; `None` if the graph has no links, for example because it has too few rows.
    pub(crate) entry: Option<u32>,
    pub(crate) codes: Option<CodesMeta>,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "HnswParams")]
struct HnswParamsFields {
    m: usize,
    ef_construction: usize,
    ef_search: usize,
    seed: u64,
    /// Version 1 has a flag `half_precision` instead.
    #[serde(
        serialize_with = "word::serialize",
        deserialize_with = "precision_or_flag",
        alias = "half_precision"
    )]
    precision: Precision,
}

fn precision_or_flag<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Precision, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum PrecisionOrFlag {
        IsHalf(bool),
        Precision(#[serde(deserialize_with = "word::deserialize")] Precision),
    }
    Ok(match PrecisionOrFlag::deserialize(deserializer)? {
        PrecisionOrFlag::IsHalf(false) => Precision::F32,
        PrecisionOrFlag::IsHalf(true) => Precision::F16,
        PrecisionOrFlag::Precision(precision) => precision,
    })
}

#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct RecallMeta(#[serde(with = "RecallFields")] pub(crate) MeasuredRecall);

#[derive(Serialize, Deserialize)]
#[serde(remote = "MeasuredRecall")]
struct RecallFields {
    share: f64,
    k: usize,
    points: usize,
}

/// Rows quantized to one byte per coordinate. The codes are in section `index.codes`.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct CodesMeta {
    /// The quantization step.
    pub(crate) step: f32,
    /// The number of inserted rows outside the range of the codes. Earlier files call this field `unreached`.
    #[serde(alias = "unreached")]
    pub(crate) out_of_range: usize,
}

impl IndexMeta {
    /// The metadata of rows in shards.
    pub(crate) fn of_shards(rows: &ShardedRows) -> Self {
        Self { dim: rows.dim(), removed: vec![], scale: rows.scale().map(<[f64]>::to_vec), graph: None }
    }
}

impl From<&IndexParts<'_>> for IndexMeta {
    fn from(parts: &IndexParts<'_>) -> Self {
        let graph = parts.graph.as_ref().map(|graph| GraphMeta {
            params: graph.params,
            recall: graph.recall.map(RecallMeta),
            entry: graph.links.as_ref().map(|links| links.entry),
            codes: graph
                .codes
                .as_ref()
                .map(|codes| CodesMeta { step: codes.step, out_of_range: codes.out_of_range }),
        });
        let RowParts { dim, removed, scale, .. } = &parts.rows;
        Self { dim: *dim, removed: removed.clone(), scale: scale.clone(), graph }
    }
}

impl From<&Label> for LabelMeta {
    fn from(label: &Label) -> Self {
        match label {
            Label::Int(value) => Self::Int { int: value.to_string() },
            Label::Text(text) => Self::Text(text.clone()),
            Label::Bool(value) => Self::Bool(*value),
        }
    }
}

impl LabelMeta {
    pub(crate) fn label(self) -> Option<Label> {
        match self {
            Self::Int { int } => int.parse().ok().map(Label::Int),
            Self::Text(text) => Some(Label::Text(text)),
            Self::Bool(value) => Some(Label::Bool(value)),
        }
    }
}

impl SmootherMeta {
    /// The metadata of a model with these parts.
    pub(crate) fn of(model: &impl FittedModel, parts: &SmootherParts) -> Self {
        Self {
            kernel: parts.kernel,
            bandwidth: match &parts.bandwidth {
                Bandwidth::Scalar(h) => BandwidthMeta::Scalar { h: *h },
                Bandwidth::PerDimension(_) => BandwidthMeta::PerDimension,
                Bandwidth::PerPoint(_) => BandwidthMeta::PerPoint,
            },
            density: match parts.density {
                FittedDensityParts::Same => DensityMeta::Same,
                FittedDensityParts::Kde(h) => DensityMeta::Kde { h },
                FittedDensityParts::Auto(auto) => DensityMeta::Auto(auto.into()),
                FittedDensityParts::Gmm(GmmDensity { covariance, shrinkage, scale_free, tail }) => {
                    DensityMeta::Gmm {
                        covariance,
                        shrinkage: match shrinkage {
                            Shrinkage::LedoitWolf => None,
                            Shrinkage::Fixed(amount) => Some(amount),
                        },
                        scale_free: scale_free.map(RadialMeta::from),
                        tail: tail.map(TailMeta),
                    }
                }
            },
            dimension: parts.dimension,
            scale: Some(parts.scale.into()),
            n_neighbors: parts.n_neighbors,
            normalize: parts.normalize,
            prior_weight: model.prior_weight(),
            index_reason: parts.choice.reason,
            rules: RulesMeta::of(model.rules()),
            column_names: parts.column_names.clone(),
            gaussians: None,
        }
    }

    /// The parts of a smoother without sample weights and Gaussians. `bandwidths` has the values of the section of
    /// that name, and is empty if there is none; `dim` is the number of columns.
    pub(crate) fn parts(&self, bandwidths: Vec<f64>, dim: usize, graph: Option<&GraphMeta>) -> SmootherParts {
        SmootherParts {
            kernel: self.kernel,
            bandwidth: match self.bandwidth {
                BandwidthMeta::Scalar { h } => Bandwidth::Scalar(h),
                BandwidthMeta::PerDimension => Bandwidth::PerDimension(bandwidths),
                BandwidthMeta::PerPoint => Bandwidth::PerPoint(bandwidths),
            },
            density: match self.density {
                DensityMeta::Same => FittedDensityParts::Same,
                DensityMeta::Kde { h } => FittedDensityParts::Kde(h),
                DensityMeta::Auto(auto) => FittedDensityParts::Auto(auto.into()),
                DensityMeta::Gmm { covariance, shrinkage, scale_free, tail } => {
                    FittedDensityParts::Gmm(GmmDensity {
                        covariance,
                        shrinkage: shrinkage.map_or(Shrinkage::LedoitWolf, Shrinkage::Fixed),
                        scale_free: scale_free.map(RadialCorrection::from),
                        tail: tail.map(|tail| tail.0),
                    })
                }
            },
            dimension: self.dimension,
            scale: match self.scale {
                Some(scale) => scale.into(),
                None if self.dimension == dim as f64 => FittedScale::Ambient,
                None => FittedScale::Intrinsic,
            },
            n_neighbors: self.n_neighbors,
            normalize: self.normalize,
            choice: IndexChoice {
                kind: graph.map_or(IndexKind::Exact, |graph| IndexKind::Hnsw(graph.params)),
                reason: self.index_reason,
                device: None,
            },
            column_names: self.column_names.clone(),
            sample_weights: None,
            gaussians: None,
        }
    }

    /// Whether densities are computed from Gaussians.
    pub(crate) fn density_has_gaussians(&self) -> bool {
        match &self.density {
            DensityMeta::Same | DensityMeta::Kde { .. } => false,
            DensityMeta::Auto(auto) => AutoDensity::from(*auto).gaussians.is_some(),
            DensityMeta::Gmm { .. } => true,
        }
    }

    /// Whether the file has a section `held_out_scores`.
    pub(crate) fn has_held_out_scores(&self) -> bool {
        self.rules.has_held_out_scores()
    }

    /// Whether the file has a section `bandwidths`.
    pub(crate) fn has_many_bandwidths(&self) -> bool {
        !matches!(self.bandwidth, BandwidthMeta::Scalar { .. })
    }
}

impl TaskMeta {
    pub(crate) fn of_classifier(model: &NuqClassifier<'_>) -> Self {
        Self::Classification {
            labels: model.classes().labels().iter().map(LabelMeta::from).collect(),
            variance: model.variance(),
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

/// The parts of a classifier; `None` if a value is not valid or values contradict each other.
pub(crate) fn classifier_parts(
    (labels, variance, curve): (Vec<LabelMeta>, Variance, Option<CurveMeta>),
    meta: &SmootherMeta,
    (smoother, held_out_scores): (SmootherParts, &[f64]),
    class_of_row: Vec<u32>,
) -> Option<ClassifierParts> {
    let (prior_weight, rules) = (meta.prior_weight, meta.rules.rules(held_out_scores)?);
    let labels = labels.into_iter().map(LabelMeta::label).collect::<Option<Vec<Label>>>()?;
    let curve = match curve {
        Some(curve) => Some(curve.of_classifier()?),
        None => None,
    };
    Some(ClassifierParts { smoother, prior_weight, rules, labels, class_of_row, variance, curve })
}

/// The parts of a regressor; `None` if a value is not valid or values contradict each other.
pub(crate) fn regressor_parts(
    curve: Option<CurveMeta>,
    meta: &SmootherMeta,
    (smoother, held_out_scores): (SmootherParts, &[f64]),
    targets: Vec<f64>,
) -> Option<RegressorParts> {
    let (prior_weight, rules) = (meta.prior_weight, meta.rules.rules(held_out_scores)?);
    let curve = match curve {
        Some(curve) => Some(curve.of_regressor()?),
        None => None,
    };
    Some(RegressorParts { smoother, prior_weight, rules, targets, curve })
}
