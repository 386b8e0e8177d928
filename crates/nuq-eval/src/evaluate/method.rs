//! Identities of the methods that an evaluation can compare.

use std::fmt;

use nuq::calibrate::Measure;

use crate::baselines::Reduction;

/// The identity of a method of an [evaluation](super::Evaluation).
///
/// `Display` writes the id, which is stable across releases; [`title`](Self::title) is the text for tables and legends.
///
/// ```
/// use nuq_eval::evaluate::MethodId;
/// assert_eq!(MethodId::KnnDistanceL2.to_string(), "knn_distance_l2");
/// assert_eq!(MethodId::KnnDistanceL2.title(), "kNN distance, L2");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum MethodId {
    /// Epistemic uncertainty of NUQ.
    NuqEpistemic,
    /// Total uncertainty of NUQ.
    NuqTotal,
    /// Aleatoric uncertainty of NUQ.
    NuqAleatoric,
    /// Negative log density of NUQ.
    NuqDensity,
    /// [`Huq`](crate::baselines::Huq) of the aleatoric and epistemic uncertainties of NUQ.
    Huq,
    /// [`MaxProb`](crate::baselines::MaxProb).
    MaxProb,
    /// [`Entropy`](crate::baselines::Entropy).
    Entropy,
    /// [`Margin`](crate::baselines::Margin).
    Margin,
    /// [`Energy`](crate::baselines::Energy).
    Energy,
    /// [`MaxLogit`](crate::baselines::MaxLogit).
    MaxLogit,
    /// [`Gen`](crate::baselines::Gen).
    Gen,
    /// [`Reduction::Entropy`] of an ensemble.
    EnsembleEntropy,
    /// [`Reduction::MutualInformation`] of an ensemble.
    EnsembleMutualInformation,
    /// [`Reduction::MeanEntropy`] of an ensemble.
    EnsembleMeanEntropy,
    /// [`Reduction::Std`] of an ensemble.
    EnsembleStd,
    /// [`Reduction::MaxProb`] of an ensemble.
    EnsembleMaxProb,
    /// [`Ddu`](crate::baselines::Ddu).
    Ddu,
    /// [`Ddu`](crate::baselines::Ddu) of L2-normalized rows.
    DduL2,
    /// [`Mahalanobis`](crate::baselines::Mahalanobis).
    Mahalanobis,
    /// [`Mahalanobis`](crate::baselines::Mahalanobis) of L2-normalized rows.
    MahalanobisL2,
    /// [`RelativeMahalanobis`](crate::baselines::RelativeMahalanobis).
    RelativeMahalanobis,
    /// [`RelativeMahalanobis`](crate::baselines::RelativeMahalanobis) of L2-normalized rows.
    RelativeMahalanobisL2,
    /// [`KnnDistance`](crate::baselines::KnnDistance) to the k-th neighbor.
    KnnDistance,
    /// [`KnnDistance`](crate::baselines::KnnDistance) to the k-th neighbor, of L2-normalized rows.
    KnnDistanceL2,
    /// [`LocalOutlierFactor`](crate::baselines::LocalOutlierFactor).
    Lof,
    /// [`LocalOutlierFactor`](crate::baselines::LocalOutlierFactor) of L2-normalized rows.
    LofL2,
    /// [`Sngp`](crate::baselines::Sngp).
    Sngp,
    /// [`Sngp`](crate::baselines::Sngp) of L2-normalized rows.
    SngpL2,
    /// [`Duq`](crate::baselines::Duq).
    Duq,
    /// [`Duq`](crate::baselines::Duq) of L2-normalized rows.
    DuqL2,
    /// [`Vim`](crate::baselines::Vim).
    Vim,
    /// [`Fdbd`](crate::baselines::Fdbd).
    Fdbd,
    /// [`NnGuide`](crate::baselines::NnGuide).
    NnGuide,
    /// [`React`](crate::baselines::React).
    React,
}

/// Kind of a method, which identifies the scores of NUQ and the reference baseline.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum MethodKind {
    /// An uncertainty of NUQ.
    Nuq(Measure),
    /// HUQ, which combines NUQ's aleatoric and epistemic uncertainty.
    Huq,
    /// The maximum softmax probability, the usual reference baseline.
    MaxProb,
    /// Any other baseline.
    Baseline,
}

impl MethodId {
    /// Every method, in declaration order.
    pub const ALL: [Self; 34] = [
        Self::NuqEpistemic,
        Self::NuqTotal,
        Self::NuqAleatoric,
        Self::NuqDensity,
        Self::Huq,
        Self::MaxProb,
        Self::Entropy,
        Self::Margin,
        Self::Energy,
        Self::MaxLogit,
        Self::Gen,
        Self::EnsembleEntropy,
        Self::EnsembleMutualInformation,
        Self::EnsembleMeanEntropy,
        Self::EnsembleStd,
        Self::EnsembleMaxProb,
        Self::Ddu,
        Self::DduL2,
        Self::Mahalanobis,
        Self::MahalanobisL2,
        Self::RelativeMahalanobis,
        Self::RelativeMahalanobisL2,
        Self::KnnDistance,
        Self::KnnDistanceL2,
        Self::Lof,
        Self::LofL2,
        Self::Sngp,
        Self::SngpL2,
        Self::Duq,
        Self::DuqL2,
        Self::Vim,
        Self::Fdbd,
        Self::NnGuide,
        Self::React,
    ];

    /// The text for tables and legends, for example `NUQ epistemic` or `Mahalanobis, L2`.
    #[must_use]
    pub fn title(self) -> &'static str {
        self.names().1
    }

    /// The kind of the method.
    #[must_use]
    pub fn kind(self) -> MethodKind {
        match self {
            Self::NuqEpistemic => MethodKind::Nuq(Measure::Epistemic),
            Self::NuqTotal => MethodKind::Nuq(Measure::Total),
            Self::NuqAleatoric => MethodKind::Nuq(Measure::Aleatoric),
            Self::NuqDensity => MethodKind::Nuq(Measure::Density),
            Self::Huq => MethodKind::Huq,
            Self::MaxProb => MethodKind::MaxProb,
            _ => MethodKind::Baseline,
        }
    }

    /// The id and the title.
    fn names(self) -> (&'static str, &'static str) {
        match self {
            Self::NuqEpistemic => ("nuq_epistemic", "NUQ epistemic"),
            Self::NuqTotal => ("nuq_total", "NUQ total"),
            Self::NuqAleatoric => ("nuq_aleatoric", "NUQ aleatoric"),
            Self::NuqDensity => ("nuq_density", "NUQ density"),
            Self::Huq => ("huq", "HUQ"),
            Self::MaxProb => ("max_prob", "MaxProb"),
            Self::Entropy => ("entropy", "Entropy"),
            Self::Margin => ("margin", "Margin"),
            Self::Energy => ("energy", "Energy"),
            Self::MaxLogit => ("max_logit", "MaxLogit"),
            Self::Gen => ("gen", "GEN"),
            Self::EnsembleEntropy => ("ensemble_entropy", "ensemble entropy"),
            Self::EnsembleMutualInformation => ("ensemble_mutual_information", "ensemble mutual information"),
            Self::EnsembleMeanEntropy => ("ensemble_mean_entropy", "ensemble mean entropy"),
            Self::EnsembleStd => ("ensemble_std", "ensemble deviation"),
            Self::EnsembleMaxProb => ("ensemble_max_prob", "ensemble MaxProb"),
            Self::Ddu => ("ddu", "DDU"),
            Self::DduL2 => ("ddu_l2", "DDU, L2"),
            Self::Mahalanobis => ("mahalanobis", "Mahalanobis"),
            Self::MahalanobisL2 => ("mahalanobis_l2", "Mahalanobis, L2"),
            Self::RelativeMahalanobis => ("relative_mahalanobis", "relative Mahalanobis"),
            Self::RelativeMahalanobisL2 => ("relative_mahalanobis_l2", "relative Mahalanobis, L2"),
            Self::KnnDistance => ("knn_distance", "kNN distance"),
            Self::KnnDistanceL2 => ("knn_distance_l2", "kNN distance, L2"),
            Self::Lof => ("lof", "LOF"),
            Self::LofL2 => ("lof_l2", "LOF, L2"),
            Self::Sngp => ("sngp", "SNGP"),
            Self::SngpL2 => ("sngp_l2", "SNGP, L2"),
            Self::Duq => ("duq", "DUQ"),
            Self::DuqL2 => ("duq_l2", "DUQ, L2"),
            Self::Vim => ("vim", "ViM"),
            Self::Fdbd => ("fdbd", "fDBD"),
            Self::NnGuide => ("nnguide", "NNGuide"),
            Self::React => ("react", "ReAct"),
        }
    }
}

impl fmt::Display for MethodId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.names().0)
    }
}

impl From<Reduction> for MethodId {
    fn from(reduction: Reduction) -> Self {
        match reduction {
            Reduction::Entropy => Self::EnsembleEntropy,
            Reduction::MutualInformation => Self::EnsembleMutualInformation,
            Reduction::MeanEntropy => Self::EnsembleMeanEntropy,
            Reduction::Std => Self::EnsembleStd,
            Reduction::MaxProb => Self::EnsembleMaxProb,
        }
    }
}
