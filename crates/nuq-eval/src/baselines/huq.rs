//! HUQ, hybrid uncertainty quantification (Vazhentsev et al. 2023): the rank of the aleatoric uncertainty for in-distribution rows,
//! and a mixture of the ranks of aleatoric and epistemic uncertainty for all others.
//!
//! `R(u, D)` is the number of values of the reference set `D` below `u`, divided by the number of all reference rows. A row is in
//! distribution if its epistemic uncertainty is at most the quantile `q_e` of the reference rows (nearest order statistic), and
//! ambiguous if its aleatoric uncertainty exceeds their quantile `q_a`. `D_in` are the in-distribution reference rows.
//!
//! ```text
//! s(x) = R(U_a, D_in)                         in distribution, not ambiguous
//!        R(U_a, D)                            in distribution, ambiguous
//!        (1 − α) R(U_e, D) + α R(U_a, D)      otherwise
//! ```

use crate::Error;
use crate::error::{length_mismatch, out_of_range};
use nuq::calibrate::check_scores;

/// Hybrid score of aleatoric and epistemic uncertainty, by ranks among reference rows.
///
/// ```
/// use nuq_eval::baselines::Huq;
/// // Five reference rows; the last one has a high epistemic uncertainty.
/// let huq = Huq::fit(&[0.1, 0.2, 0.3, 0.4, 0.1], &[0.0, 0.0, 0.0, 0.0, 9.0], 0.2, 0.8, 0.9)?;
/// // Two queries of equal aleatoric uncertainty.
/// let scores = huq.score(&[0.15, 0.15], &[0.0, 20.0])?;
/// assert!(scores[1] > scores[0]);
/// # Ok::<(), nuq_eval::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Huq {
    alpha: f64,
    epistemic_limit: f64,
    aleatoric_limit: f64,
    aleatoric: Vec<f64>,
    aleatoric_in_distribution: Vec<f64>,
    epistemic: Vec<f64>,
}

impl Huq {
    /// Takes the uncertainties of reference rows (held-out or training), the weight `alpha` of the aleatoric rank, and the quantiles
    /// `q_e` and `q_a`, all three in [0, 1].
    ///
    /// # Errors
    /// Empty arrays, NaN, arrays of unequal lengths, or parameters outside [0, 1].
    pub fn fit(aleatoric: &[f64], epistemic: &[f64], alpha: f64, q_e: f64, q_a: f64) -> Result<Self, Error> {
        check_scores(aleatoric, "aleatoric uncertainties")?;
        check_scores(epistemic, "epistemic uncertainties")?;
        check_lengths(aleatoric, epistemic)?;
        for (name, value) in [("alpha", alpha), ("epistemic quantile", q_e), ("aleatoric quantile", q_a)] {
            if !(0.0..=1.0).contains(&value) {
                return Err(out_of_range(name, value, "it must lie in [0, 1]"));
            }
        }
        let (sorted_a, sorted_e) = (sorted(aleatoric.to_vec()), sorted(epistemic.to_vec()));
        let epistemic_limit = quantile(&sorted_e, q_e);
        let rows = aleatoric.iter().zip(epistemic);
        let in_distribution = sorted(rows.filter(|(_, e)| **e <= epistemic_limit).map(|(a, _)| *a).collect());
        Ok(Self {
            alpha,
            epistemic_limit,
            aleatoric_limit: quantile(&sorted_a, q_a),
            aleatoric: sorted_a,
            aleatoric_in_distribution: in_distribution,
            epistemic: sorted_e,
        })
    }

    /// One score per row, from its two uncertainties.
    ///
    /// # Errors
    /// NaN, or arrays of unequal lengths.
    pub fn score(&self, aleatoric: &[f64], epistemic: &[f64]) -> Result<Vec<f64>, Error> {
        check_lengths(aleatoric, epistemic)?;
        if !aleatoric.is_empty() {
            check_scores(aleatoric, "aleatoric uncertainties")?;
            check_scores(epistemic, "epistemic uncertainties")?;
        }
        let rank = |value: f64, sorted: &[f64]| below(value, sorted) as f64 / self.aleatoric.len() as f64;
        let hybrid = |(&a, &e): (&f64, &f64)| match (e <= self.epistemic_limit, a <= self.aleatoric_limit) {
            (true, true) => rank(a, &self.aleatoric_in_distribution),
            (true, false) => rank(a, &self.aleatoric),
            (false, _) => {
                (1.0 - self.alpha) * rank(e, &self.epistemic) + self.alpha * rank(a, &self.aleatoric)
            }
        };
        Ok(aleatoric.iter().zip(epistemic).map(hybrid).collect())
    }
}

fn check_lengths(aleatoric: &[f64], epistemic: &[f64]) -> Result<(), Error> {
    if aleatoric.len() == epistemic.len() {
        return Ok(());
    }
    let (got, expected) = (epistemic.len(), aleatoric.len());
    Err(length_mismatch("epistemic uncertainties", got, "aleatoric uncertainties", expected))
}

fn sorted(mut values: Vec<f64>) -> Vec<f64> {
    values.sort_by(f64::total_cmp);
    values
}

fn quantile(sorted: &[f64], share: f64) -> f64 {
    sorted[(share * (sorted.len() - 1) as f64).round() as usize]
}

/// The number of reference values below `value`.
fn below(value: f64, sorted: &[f64]) -> usize {
    sorted.partition_point(|reference| *reference < value)
}
