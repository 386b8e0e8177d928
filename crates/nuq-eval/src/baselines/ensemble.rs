//! Several predictions of each row: of a deep ensemble (Lakshminarayanan et al. 2017), of dropout that stays on (Gal and Ghahramani
//! 2016), or of transformed inputs. With member probabilities $p_{mc}$ and their mean $\bar p_c$ over $M$ members:
//!
//! | reduction | score |
//! | --- | --- |
//! | `Entropy` | $H(\bar p)$ |
//! | `MutualInformation` | $H(\bar p) - \frac1M \sum_m H(p_m)$: how much members disagree |
//! | `MeanEntropy` | $\frac1M \sum_m H(p_m)$ |
//! | `Std` | the standard deviation over members of the probability of the class that is likeliest on average |
//! | `MaxProb` | $1 - \max_c \bar p_c$ |

use nuq_neighbors::Embeddings;
use rayon::prelude::*;

use super::softmax::{entropy, first_largest, others, softmax};
use super::{Batch, Input, Scorer};
use crate::Error;
use crate::error::length_mismatch;

/// Logits of several members for the same rows.
#[derive(Debug, Clone)]
pub struct Members {
    logits: Vec<Embeddings<'static>>,
}

impl Members {
    /// One array of logits per member, all of the same shape.
    pub fn new(logits: Vec<Embeddings<'static>>) -> Result<Self, Error> {
        let Some(first) = logits.first() else { return Err(nuq::Error::NoRows { what: "members" }.into()) };
        let (rows, classes) = (first.len(), first.dim());
        for member in &logits {
            if member.len() != rows {
                let got = member.len();
                return Err(length_mismatch("rows of a member", got, "rows of the first", rows));
            }
            if member.dim() != classes {
                let (got, expected) = (member.dim(), classes);
                return Err(nuq_neighbors::Error::DimensionMismatch { got, expected }.into());
            }
        }
        Ok(Self { logits })
    }

    /// The number of members.
    pub fn count(&self) -> usize {
        self.logits.len()
    }

    /// The number of rows.
    pub fn len(&self) -> usize {
        self.logits[0].len()
    }

    /// Whether there is no row.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The members' probabilities of one row.
    fn probabilities(&self, row: usize) -> Vec<Vec<f64>> {
        let of = |member: &Embeddings<'static>| {
            let logits: Vec<f64> = member.row(row).iter().map(|&z| f64::from(z)).collect();
            softmax(&logits)
        };
        self.logits.iter().map(of).collect()
    }
}

/// How several predictions become one number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reduction {
    /// Entropy of the mean.
    Entropy,
    /// Entropy of the mean less the mean entropy.
    MutualInformation,
    /// Mean of the members' entropies.
    MeanEntropy,
    /// Standard deviation of the likeliest class's probability.
    Std,
    /// One minus the largest mean probability.
    MaxProb,
}

/// A reduction of several predictions.
#[derive(Debug, Clone, Copy)]
pub struct Ensemble(
    /// Which.
    pub Reduction,
);

impl Ensemble {
    fn of(self, members: &[Vec<f64>]) -> f64 {
        let (count, classes) = (members.len() as f64, members[0].len());
        let mean: Vec<f64> =
            (0..classes).map(|c| members.iter().map(|p| p[c]).sum::<f64>() / count).collect();
        let mean_entropy = || members.iter().map(|p| entropy(p)).sum::<f64>() / count;
        let best = first_largest(&mean);
        match self.0 {
            Reduction::Entropy => entropy(&mean),
            // Rounding may make nothing less than nothing.
            Reduction::MutualInformation => (entropy(&mean) - mean_entropy()).max(0.0),
            Reduction::MeanEntropy => mean_entropy(),
            Reduction::Std => {
                // What the chances lack deviates as they do, and keeps its digits where they are near one.
                let lacking = others(&mean, best);
                let sq: f64 = members.iter().map(|p| (others(p, best) - lacking).powi(2)).sum();
                (sq / count).sqrt()
            }
            Reduction::MaxProb => others(&mean, best),
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
        Ok((0..members.len()).into_par_iter().map(|row| self.of(&members.probabilities(row))).collect())
    }
}
