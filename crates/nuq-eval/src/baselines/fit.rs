//! Fits a baseline that is chosen by its [`MethodId`], by default with the settings of an evaluation.

use nuq::{Label, Shrinkage};
use nuq_neighbors::Embeddings;

use super::{
    Ddu, Duq, DuqParams, Energy, Ensemble, Entropy, Fdbd, Gen, Head, KnnDistance, LocalOutlierFactor,
    Mahalanobis, Margin, MaxLogit, MaxProb, NnGuide, Normalized, React, Reduction, RelativeMahalanobis,
    Scorer, Sngp, SngpParams, Vim,
};
use crate::Error;
use crate::evaluate::MethodId;

/// Number of neighbors of NNGuide, the default of its authors.
pub(crate) const NNGUIDE_NEIGHBORS: usize = 10;
/// Quantile of ReAct, the default of its authors.
pub(crate) const CLIP_QUANTILE: f64 = 0.9;
/// Number of neighbors of the other methods.
const NEIGHBORS: usize = 20;

/// Arrays and options of [`fit`]. [`Uses::of`] lists those that a method uses; the others are ignored.
#[derive(Debug, Clone, Copy, Default)]
pub struct FitInputs<'t, 'a> {
    /// Embeddings of the training rows.
    pub embeddings: Option<&'t Embeddings<'a>>,
    /// Labels of the training rows.
    pub labels: Option<&'t [Label]>,
    /// Logits of the training rows.
    pub logits: Option<&'t Embeddings<'a>>,
    /// Number of neighbors: 20 by default, 10 for NNGuide.
    pub n_neighbors: Option<usize>,
    /// Shrinkage of covariances.
    pub shrinkage: Shrinkage,
    /// Seed of the random numbers of SNGP and DUQ.
    pub seed: u64,
}

/// The arrays and options that the fit of a method uses.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Uses {
    /// [`FitInputs::embeddings`].
    pub embeddings: bool,
    /// [`FitInputs::labels`].
    pub labels: bool,
    /// [`FitInputs::logits`].
    pub logits: bool,
    /// [`FitInputs::n_neighbors`].
    pub n_neighbors: bool,
    /// [`FitInputs::shrinkage`].
    pub shrinkage: bool,
    /// [`FitInputs::seed`].
    pub seed: bool,
}

impl Uses {
    /// The inputs of a method. `None` for the uncertainties of a NUQ model, and for HUQ, which combines two of these
    /// uncertainties.
    #[must_use]
    pub fn of(method: MethodId) -> Option<Self> {
        let rows = Self { embeddings: true, ..Self::default() };
        Some(match method.without_normalization().0 {
            MethodId::NuqEpistemic
            | MethodId::NuqTotal
            | MethodId::NuqAleatoric
            | MethodId::NuqDensity
            | MethodId::NuqEpistemicWithLogits
            | MethodId::NuqTotalWithLogits
            | MethodId::Huq => return None,
            MethodId::Ddu | MethodId::Mahalanobis | MethodId::RelativeMahalanobis => {
                Self { labels: true, shrinkage: true, ..rows }
            }
            MethodId::KnnDistance | MethodId::Lof => Self { n_neighbors: true, ..rows },
            MethodId::Sngp | MethodId::Duq => Self { labels: true, seed: true, ..rows },
            MethodId::NnGuide => Self { logits: true, n_neighbors: true, ..rows },
            MethodId::Vim | MethodId::Fdbd | MethodId::React => Self { logits: true, ..rows },
            _ => Self::default(),
        })
    }
}

/// Fits a baseline. If the method uses L2-normalized rows, the rows are normalized here.
///
/// ```
/// use nuq::Embeddings;
/// use nuq_eval::baselines::{FitInputs, fit};
/// use nuq_eval::evaluate::MethodId;
///
/// let rows = Embeddings::from_rows(&[[0.0, 1.0], [1.0, 0.0], [1.0, 1.0]])?;
/// let inputs = FitInputs { embeddings: Some(&rows), n_neighbors: Some(2), ..FitInputs::default() };
/// assert_eq!(fit(MethodId::KnnDistanceL2, &inputs)?.name(), "kNN distance, L2");
/// # Ok::<(), nuq_eval::Error>(())
/// ```
///
/// # Errors
/// [`Error::MissingInput`] if an array is missing, or if the method needs a NUQ model (then [`Uses::of`] is `None`); errors of the fit.
pub fn fit<'a>(method: MethodId, inputs: &FitInputs<'_, 'a>) -> Result<Box<dyn Scorer + 'a>, Error> {
    fn boxed<'a, S: Scorer + 'a>(scorer: S, is_normalized: bool) -> Box<dyn Scorer + 'a> {
        if is_normalized { Box::new(Normalized::new(scorer)) } else { Box::new(scorer) }
    }
    let missing = |input: &'static str| Error::MissingInput { scorer: method.title().to_owned(), input };
    let (plain, l2) = method.without_normalization();
    let rows = || {
        let rows = inputs.embeddings.ok_or_else(|| missing("embeddings of training rows"))?;
        Ok::<_, Error>(if l2 { rows.l2_normalized() } else { rows.clone() })
    };
    let labels = || inputs.labels.ok_or_else(|| missing("labels of training rows"));
    let logits = || inputs.logits.ok_or_else(|| missing("logits of training rows"));
    let head = || Head::fit(&rows()?, logits()?);
    let (k, shrinkage, seed) = (inputs.n_neighbors.unwrap_or(NEIGHBORS), inputs.shrinkage, inputs.seed);
    Ok(match plain {
        MethodId::MaxProb => Box::new(MaxProb),
        MethodId::Entropy => Box::new(Entropy),
        MethodId::Margin => Box::new(Margin),
        MethodId::Energy => Box::new(Energy::default()),
        MethodId::MaxLogit => Box::new(MaxLogit),
        MethodId::Gen => Box::new(Gen::default()),
        MethodId::EnsembleEntropy => Box::new(Ensemble(Reduction::Entropy)),
        MethodId::EnsembleMutualInformation => Box::new(Ensemble(Reduction::MutualInformation)),
        MethodId::EnsembleMeanEntropy => Box::new(Ensemble(Reduction::MeanEntropy)),
        MethodId::EnsembleStd => Box::new(Ensemble(Reduction::Std)),
        MethodId::EnsembleMaxProb => Box::new(Ensemble(Reduction::MaxProb)),
        MethodId::Ddu => boxed(Ddu::fit(&rows()?, labels()?, shrinkage)?, l2),
        MethodId::Mahalanobis => boxed(Mahalanobis::fit(&rows()?, labels()?, shrinkage)?, l2),
        MethodId::RelativeMahalanobis => boxed(RelativeMahalanobis::fit(&rows()?, labels()?, shrinkage)?, l2),
        MethodId::KnnDistance => boxed(KnnDistance::kth(&rows()?, k)?, l2),
        MethodId::Lof => boxed(LocalOutlierFactor::fit(&rows()?, k)?, l2),
        MethodId::Sngp => {
            boxed(Sngp::fit(&rows()?, labels()?, SngpParams { seed, ..SngpParams::default() })?, l2)
        }
        MethodId::Duq => {
            boxed(Duq::fit(&rows()?, labels()?, DuqParams { seed, ..DuqParams::default() })?, l2)
        }
        MethodId::Vim => Box::new(Vim::fit(&rows()?, &head()?, None)?),
        MethodId::Fdbd => Box::new(Fdbd::fit(&rows()?, &head()?)?),
        MethodId::NnGuide => {
            Box::new(NnGuide::fit(&rows()?, logits()?, inputs.n_neighbors.unwrap_or(NNGUIDE_NEIGHBORS))?)
        }
        MethodId::React => Box::new(React::fit(&rows()?, &head()?, CLIP_QUANTILE)?),
        MethodId::Huq => return Err(missing("the uncertainties of a NUQ model: give them to Huq::fit")),
        // The uncertainties of a NUQ model.
        _ => return Err(missing("a NUQ model, not a baseline: fit a NuqClassifier and use its predictions")),
    })
}
