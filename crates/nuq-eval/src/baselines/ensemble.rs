//! Scores of several predictions per row: of a deep ensemble (Lakshminarayanan et al. 2017), of Monte Carlo dropout (Gal and
//! Ghahramani 2016), or of augmented inputs. A member is the source of one prediction: a network, a dropout mask or an augmentation.
//! With probabilities `p_m` of member `m`, their mean `p̄` over `M` members, and the entropy `H`:
//!
//! | reduction | score |
//! | --- | --- |
//! | `Entropy` | `H(p̄)` |
//! | `MutualInformation` | `H(p̄) − (1/M) Σ_m H(p_m)`, the disagreement of the members |
//! | `MeanEntropy` | `(1/M) Σ_m H(p_m)` |
//! | `Std` | standard deviation, over members, of the probability of the class with the largest `p̄_c` |
//! | `MaxProb` | `1 − max_c p̄_c` |

use nuq_neighbors::Embeddings;
use nuq_neighbors::cancel::ParallelCheckpoints;
use rayon::prelude::*;

use super::softmax::{argmax, complement, entropy, softmax};
use super::{BaselineParts, Batch, Input, Scorer};
use crate::Error;
use crate::error::length_mismatch;

/// Logits of several members for the same rows.
#[derive(Debug, Clone)]
pub struct Members {
    logits: Vec<Embeddings<'static>>,
}

impl Members {
    /// Takes one array of logits per member, all of the same shape.
    ///
    /// # Errors
    /// No members, or members of different shapes.
    pub fn new(logits: Vec<Embeddings<'static>>) -> Result<Self, Error> {
        let Some(first) = logits.first() else { return Err(nuq::Error::NoRows { what: "members" }.into()) };
        let (rows, classes) = (first.len(), first.dim());
        for member in &logits {
            if member.len() != rows {
                let got = member.len();
                return Err(length_mismatch("rows of a member", got, "rows of the first member", rows));
            }
            if member.dim() != classes {
                let (got, expected) = (member.dim(), classes);
                return Err(nuq_neighbors::Error::DimensionMismatch { got, expected }.into());
            }
        }
        Ok(Self { logits })
    }

    /// The number of members.
    #[must_use]
    pub fn count(&self) -> usize {
        self.logits.len()
    }

    /// The number of columns of the logits of each member.
    pub(crate) fn n_classes(&self) -> usize {
        self.logits[0].dim()
    }

    /// The number of rows.
    #[must_use]
    pub fn len(&self) -> usize {
        self.logits[0].len()
    }

    /// Whether there are no rows.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The probabilities of one row, one vector per member.
    fn probabilities(&self, row: usize) -> Vec<Vec<f64>> {
        let member_softmax = |member: &Embeddings<'static>| {
            let logits: Vec<f64> = member.row(row).iter().map(|&z| f64::from(z)).collect();
            softmax(&logits)
        };
        self.logits.iter().map(member_softmax).collect()
    }
}

/// Function that maps the predictions of several members to one score.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reduction {
    /// Entropy of the mean probabilities.
    Entropy,
    /// Entropy of the mean probabilities minus the mean entropy.
    MutualInformation,
    /// Mean entropy of the members.
    MeanEntropy,
    /// Standard deviation, over members, of the probability of the class that is most probable on average.
    Std,
    /// One minus the largest mean probability.
    MaxProb,
}

nuq_neighbors::choices!(Reduction, "reduction", {
    Entropy => "entropy",
    MutualInformation => "mutual_information",
    MeanEntropy => "mean_entropy",
    Std => "std",
    MaxProb => "max_prob",
});

/// Score of the predictions of several members.
#[derive(Debug, Clone, Copy)]
pub struct Ensemble(
    /// Function that maps the predictions to one score.
    pub Reduction,
);

impl Ensemble {
    fn reduce(self, members: &[Vec<f64>]) -> f64 {
        let (count, classes) = (members.len() as f64, members[0].len());
        let mean: Vec<f64> =
            (0..classes).map(|c| members.iter().map(|p| p[c]).sum::<f64>() / count).collect();
        let mean_entropy = || members.iter().map(|p| entropy(p)).sum::<f64>() / count;
        let best = argmax(&mean);
        match self.0 {
            Reduction::Entropy => entropy(&mean),
            // Rounding errors may make the difference negative.
            Reduction::MutualInformation => (entropy(&mean) - mean_entropy()).max(0.0),
            Reduction::MeanEntropy => mean_entropy(),
            Reduction::Std => {
                // 1 − p has the same deviation as p, and is more precise if p is near one.
                let mean_complement = complement(&mean, best);
                let sq: f64 = members.iter().map(|p| (complement(p, best) - mean_complement).powi(2)).sum();
                (sq / count).sqrt()
            }
            Reduction::MaxProb => complement(&mean, best),
        }
    }
}

impl Scorer for Ensemble {
    fn name(&self) -> String {
        match self.0 {
            Reduction::Entropy => "ensemble entropy",
            Reduction::MutualInformation => "ensemble mutual information",
            Reduction::MeanEntropy => "ensemble mean entropy",
            Reduction::Std => "ensemble deviation",
            Reduction::MaxProb => "ensemble MaxProb",
        }
        .to_owned()
    }

    fn inputs(&self) -> &'static [Input] {
        &[Input::Members]
    }

    fn score(&self, batch: &Batch<'_>) -> Result<Vec<f64>, Error> {
        let members = batch.need_members(self)?;
        let score = |row: usize| self.reduce(&members.probabilities(row));
        Ok((0..members.len()).into_par_iter().with_checkpoints().map(score).collect())
    }

    fn parts(&self) -> Option<BaselineParts> {
        Some(BaselineParts::new(self.0.into()))
    }
}
