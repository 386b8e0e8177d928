//! HUQ, hybrid uncertainty quantification (Vazhentsev et al. 2023): the rank of the aleatoric uncertainty for
//! in-distribution rows, and a mixture of the ranks of aleatoric and epistemic uncertainty for all other rows.
//!
//! `R(u, D)` is the number of values of the reference set `D` below `u`, divided by the number of all reference rows. A
//! row is in distribution if its epistemic uncertainty is at most the quantile `epistemic_quantile` of the epistemic
//! uncertainties of the reference rows. It is ambiguous if its aleatoric uncertainty exceeds the quantile
//! `aleatoric_quantile` of the aleatoric uncertainties of the reference rows. A quantile is the nearest order
//! statistic. `D_in` are the in-distribution reference rows. `U_a` and `U_e` are the aleatoric and the epistemic uncertainty of the
//! row `x`, and `α` is the weight of the aleatoric rank.
//!
//! ```text
//! s(x) = R(U_a, D_in)                         in distribution, not ambiguous
//!        R(U_a, D)                            in distribution, ambiguous
//!        (1 − α) R(U_e, D) + α R(U_a, D)      otherwise
//! ```

use super::parts::damaged;
use super::{BaselineParts, Batch, Input, Scorer};
use crate::Error;
use crate::error::{length_mismatch, out_of_range};
use crate::evaluate::MethodId;
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
    /// `epistemic_quantile` and `aleatoric_quantile`.
    quantiles: (f64, f64),
}

impl Huq {
    /// Takes the uncertainties of reference rows (held-out or training), the weight `alpha` of the aleatoric rank, and
    /// the quantiles `epistemic_quantile` and `aleatoric_quantile`, all three in [0, 1].
    ///
    /// # Errors
    /// Empty arrays, NaN, arrays of unequal lengths, or parameters outside [0, 1].
    pub fn fit(
        aleatoric: &[f64],
        epistemic: &[f64],
        alpha: f64,
        epistemic_quantile: f64,
        aleatoric_quantile: f64,
    ) -> Result<Self, Error> {
        check_scores(aleatoric, "aleatoric uncertainties")?;
        check_scores(epistemic, "epistemic uncertainties")?;
        check_lengths(aleatoric, epistemic)?;
        check_params(alpha, epistemic_quantile, aleatoric_quantile)?;
        let (sorted_a, sorted_e) = (sorted(aleatoric.to_vec()), sorted(epistemic.to_vec()));
        let epistemic_limit = quantile(&sorted_e, epistemic_quantile);
        let rows = aleatoric.iter().zip(epistemic);
        let in_distribution = sorted(rows.filter(|(_, e)| **e <= epistemic_limit).map(|(a, _)| *a).collect());
        Ok(Self {
            alpha,
            epistemic_limit,
            aleatoric_limit: quantile(&sorted_a, aleatoric_quantile),
            aleatoric: sorted_a,
            aleatoric_in_distribution: in_distribution,
            epistemic: sorted_e,
            quantiles: (epistemic_quantile, aleatoric_quantile),
        })
    }

    pub(super) fn from_parts(parts: &mut BaselineParts) -> Result<Self, Error> {
        let (alpha, epistemic_quantile) = (parts.number("alpha")?, parts.number("epistemic_quantile")?);
        let aleatoric_quantile = parts.number("aleatoric_quantile")?;
        check_params(alpha, epistemic_quantile, aleatoric_quantile)?;
        let (aleatoric, epistemic) = (parts.ascending("aleatoric")?, parts.ascending("epistemic")?);
        let aleatoric_in_distribution = parts.ascending("aleatoric_in_distribution")?;
        if epistemic.is_empty() || epistemic.len() != aleatoric.len() {
            return Err(damaged("epistemic", "it has a wrong length"));
        }
        let (epistemic_limit, aleatoric_limit) =
            (quantile(&epistemic, epistemic_quantile), quantile(&aleatoric, aleatoric_quantile));
        if aleatoric_in_distribution.len() != epistemic.partition_point(|value| *value <= epistemic_limit) {
            return Err(damaged("aleatoric_in_distribution", "it has a wrong length"));
        }
        Ok(Self {
            alpha,
            epistemic_limit,
            aleatoric_limit,
            aleatoric,
            aleatoric_in_distribution,
            epistemic,
            quantiles: (epistemic_quantile, aleatoric_quantile),
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

impl Scorer for Huq {
    fn name(&self) -> String {
        "HUQ".to_owned()
    }

    fn inputs(&self) -> &'static [Input] {
        &[Input::Uncertainties]
    }

    fn score(&self, batch: &Batch<'_>) -> Result<Vec<f64>, Error> {
        let uncertainties = batch.need_uncertainties(self)?;
        self.score(uncertainties.aleatoric, uncertainties.epistemic)
    }

    fn bytes(&self) -> u64 {
        8 * (2 * self.aleatoric.len() + self.aleatoric_in_distribution.len()) as u64
    }

    fn parts(&self) -> Option<BaselineParts> {
        let (epistemic_quantile, aleatoric_quantile) = self.quantiles;
        let parts = BaselineParts::new(MethodId::Huq).param("alpha", self.alpha);
        let parts = parts
            .param("epistemic_quantile", epistemic_quantile)
            .param("aleatoric_quantile", aleatoric_quantile);
        let parts =
            parts.array("aleatoric", self.aleatoric.clone()).array("epistemic", self.epistemic.clone());
        Some(parts.array("aleatoric_in_distribution", self.aleatoric_in_distribution.clone()))
    }
}

fn check_params(alpha: f64, epistemic_quantile: f64, aleatoric_quantile: f64) -> Result<(), Error> {
    for (name, value) in [
        ("alpha", alpha),
        ("epistemic_quantile", epistemic_quantile),
        ("aleatoric_quantile", aleatoric_quantile),
    ] {
        if !(0.0..=1.0).contains(&value) {
            return Err(out_of_range(name, value, "it must lie in [0, 1]"));
        }
    }
    Ok(())
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
