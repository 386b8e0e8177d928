//! Identities of the methods that an evaluation can compare.

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
    /// Epistemic uncertainty of NUQ about the prediction of the network, from its logits.
    NuqEpistemicWithLogits,
    /// Total uncertainty of NUQ about the prediction of the network, from its logits.
    NuqTotalWithLogits,
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

impl MethodId {
    /// The text for tables and legends, for example `NUQ epistemic` or `Mahalanobis, L2`.
    #[must_use]
    pub fn title(self) -> &'static str {
        match self {
            Self::NuqEpistemic => "NUQ epistemic",
            Self::NuqTotal => "NUQ total",
            Self::NuqAleatoric => "NUQ aleatoric",
            Self::NuqDensity => "NUQ density",
            Self::NuqEpistemicWithLogits => "NUQ epistemic, with logits",
            Self::NuqTotalWithLogits => "NUQ total, with logits",
            Self::Huq => "HUQ",
            Self::MaxProb => "MaxProb",
            Self::Entropy => "Entropy",
            Self::Margin => "Margin",
            Self::Energy => "Energy",
            Self::MaxLogit => "MaxLogit",
            Self::Gen => "GEN",
            Self::EnsembleEntropy => "ensemble entropy",
            Self::EnsembleMutualInformation => "ensemble mutual information",
            Self::EnsembleMeanEntropy => "ensemble mean entropy",
            Self::EnsembleStd => "ensemble deviation",
            Self::EnsembleMaxProb => "ensemble MaxProb",
            Self::Ddu => "DDU",
            Self::DduL2 => "DDU, L2",
            Self::Mahalanobis => "Mahalanobis",
            Self::MahalanobisL2 => "Mahalanobis, L2",
            Self::RelativeMahalanobis => "relative Mahalanobis",
            Self::RelativeMahalanobisL2 => "relative Mahalanobis, L2",
            Self::KnnDistance => "kNN distance",
            Self::KnnDistanceL2 => "kNN distance, L2",
            Self::Lof => "LOF",
            Self::LofL2 => "LOF, L2",
            Self::Sngp => "SNGP",
            Self::SngpL2 => "SNGP, L2",
            Self::Duq => "DUQ",
            Self::DuqL2 => "DUQ, L2",
            Self::Vim => "ViM",
            Self::Fdbd => "fDBD",
            Self::NnGuide => "NNGuide",
            Self::React => "ReAct",
        }
    }

    /// The same method for L2-normalized rows. `None` if the method has no such variant.
    #[must_use]
    pub fn normalized(self) -> Option<Self> {
        L2_METHODS.iter().find(|(plain, _)| *plain == self).map(|(_, l2)| *l2)
    }

    /// The same method without normalization of rows, and whether this method normalizes them.
    #[must_use]
    pub fn without_normalization(self) -> (Self, bool) {
        match L2_METHODS.iter().find(|(_, l2)| *l2 == self) {
            Some((plain, _)) => (*plain, true),
            None => (self, false),
        }
    }

    /// Whether the score is an uncertainty of NUQ itself. [`MethodId::Huq`] combines two of these uncertainties, but is
    /// a baseline.
    #[must_use]
    pub fn is_nuq(self) -> bool {
        matches!(
            self,
            Self::NuqEpistemic
                | Self::NuqTotal
                | Self::NuqAleatoric
                | Self::NuqDensity
                | Self::NuqEpistemicWithLogits
                | Self::NuqTotalWithLogits
        )
    }
}

/// Methods that have a variant for L2-normalized rows, with this variant.
const L2_METHODS: [(MethodId, MethodId); 7] = [
    (MethodId::Ddu, MethodId::DduL2),
    (MethodId::Mahalanobis, MethodId::MahalanobisL2),
    (MethodId::RelativeMahalanobis, MethodId::RelativeMahalanobisL2),
    (MethodId::KnnDistance, MethodId::KnnDistanceL2),
    (MethodId::Lof, MethodId::LofL2),
    (MethodId::Sngp, MethodId::SngpL2),
    (MethodId::Duq, MethodId::DuqL2),
];

nuq_neighbors::choices!(MethodId, "method", {
    NuqEpistemic => "nuq_epistemic",
    NuqTotal => "nuq_total",
    NuqAleatoric => "nuq_aleatoric",
    NuqDensity => "nuq_density",
    NuqEpistemicWithLogits => "nuq_epistemic_with_logits",
    NuqTotalWithLogits => "nuq_total_with_logits",
    Huq => "huq",
    MaxProb => "max_prob",
    Entropy => "entropy",
    Margin => "margin",
    Energy => "energy",
    MaxLogit => "max_logit",
    Gen => "gen",
    EnsembleEntropy => "ensemble_entropy",
    EnsembleMutualInformation => "ensemble_mutual_information",
    EnsembleMeanEntropy => "ensemble_mean_entropy",
    EnsembleStd => "ensemble_std",
    EnsembleMaxProb => "ensemble_max_prob",
    Ddu => "ddu",
    DduL2 => "ddu_l2",
    Mahalanobis => "mahalanobis",
    MahalanobisL2 => "mahalanobis_l2",
    RelativeMahalanobis => "relative_mahalanobis",
    RelativeMahalanobisL2 => "relative_mahalanobis_l2",
    KnnDistance => "knn_distance",
    KnnDistanceL2 => "knn_distance_l2",
    Lof => "lof",
    LofL2 => "lof_l2",
    Sngp => "sngp",
    SngpL2 => "sngp_l2",
    Duq => "duq",
    DuqL2 => "duq_l2",
    Vim => "vim",
    Fdbd => "fdbd",
    NnGuide => "nnguide",
    React => "react",
});

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

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn ids_are_read_back_and_titles_are_unique() {
        for &id in MethodId::ALL {
            assert_eq!(id.to_string().parse(), Ok(id));
        }
        let titles: BTreeSet<&str> = MethodId::ALL.iter().map(|id| id.title()).collect();
        assert_eq!(titles.len(), MethodId::ALL.len());
    }

    #[test]
    fn methods_of_normalized_rows_end_in_l2() {
        for &id in MethodId::ALL {
            let (plain, is_normalized) = id.without_normalization();
            assert_eq!(is_normalized, id.name().ends_with("_l2"));
            if is_normalized {
                assert_eq!(format!("{plain}_l2"), id.name());
                assert_eq!(plain.normalized(), Some(id));
            }
        }
    }
}
