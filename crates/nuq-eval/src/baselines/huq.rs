//! HUQ, hybrid uncertainty quantification (Vazhentsev et al. 2023): aleatoric uncertainty where a row is like the data, a mixture
//! of ranks where it is not.
//!
//! Let $R(u, D)$ be the rank of $u$ in $D$, the number of values of $D$ below it, divided by the number of all reference rows:
//! among the known ones, of which there are fewer, ranks stay lower. Rows whose epistemic uncertainty is within the quantile
//! $q_e$ of the reference rows (the nearest order statistic) are taken as known. Then
//!
//! $$s(x) = \begin{cases}
//! R(U_a, D_{\text{known}}) & \text{known, and not ambiguous: } U_a \text{ within the quantile } q_a \\
//! R(U_a, D) & \text{known and ambiguous} \\
//! (1 - \alpha) R(U_e, D) + \alpha R(U_a, D) & \text{otherwise}
//! \end{cases}$$

use crate::Error;
use crate::error::{length_mismatch, out_of_range};
use nuq::calibrate::check_scores;

/// The ranks of reference rows, by which uncertainties of two kinds are brought onto one scale.
///
/// ```
/// use nuq_eval::baselines::Huq;
/// // Reference rows: four known ones and one that is far from the data.
/// let huq = Huq::fit(&[0.1, 0.2, 0.3, 0.4, 0.1], &[0.0, 0.0, 0.0, 0.0, 9.0], 0.2, 0.8, 0.9)?;
/// // As ambiguous as each other, but the second is far away.
/// let scores = huq.score(&[0.15, 0.15], &[0.0, 20.0])?;
/// assert!(scores[1] > scores[0]);
/// # Ok::<(), nuq_eval::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Huq {
    alpha: f64,
    known: f64,
    ambiguous: f64,
    aleatoric: Vec<f64>,
    aleatoric_of_known: Vec<f64>,
    epistemic: Vec<f64>,
}

impl Huq {
    /// Takes reference rows (held-out or training) by their uncertainties, the weight $\alpha$ of the aleatoric rank, and the
    /// quantiles $q_e$ and $q_a$, all in [0, 1].
    pub fn fit(aleatoric: &[f64], epistemic: &[f64], alpha: f64, q_e: f64, q_a: f64) -> Result<Self, Error> {
        check_scores(aleatoric, "aleatoric uncertainties")?;
        check_scores(epistemic, "epistemic uncertainties")?;
        paired(aleatoric, epistemic)?;
        for (name, value) in
            [("alpha", alpha), ("quantile of known rows", q_e), ("quantile of ambiguous rows", q_a)]
        {
            if !(0.0..=1.0).contains(&value) {
                return Err(out_of_range(name, value, "it must lie in [0, 1]"));
            }
        }
        let (sorted_a, sorted_e) = (sorted(aleatoric.to_vec()), sorted(epistemic.to_vec()));
        let known = quantile(&sorted_e, q_e);
        let rows = aleatoric.iter().zip(epistemic);
        let of_known = sorted(rows.filter(|(_, e)| **e <= known).map(|(a, _)| *a).collect());
        Ok(Self {
            alpha,
            known,
            ambiguous: quantile(&sorted_a, q_a),
            aleatoric: sorted_a,
            aleatoric_of_known: of_known,
            epistemic: sorted_e,
        })
    }

    /// A score per row, from its two uncertainties.
    pub fn score(&self, aleatoric: &[f64], epistemic: &[f64]) -> Result<Vec<f64>, Error> {
        paired(aleatoric, epistemic)?;
        if !aleatoric.is_empty() {
            check_scores(aleatoric, "aleatoric uncertainties")?;
            check_scores(epistemic, "epistemic uncertainties")?;
        }
        let rank = |value: f64, sorted: &[f64]| below(value, sorted) as f64 / self.aleatoric.len() as f64;
        let of = |(&a, &e): (&f64, &f64)| match (e <= self.known, a <= self.ambiguous) {
            (true, true) => rank(a, &self.aleatoric_of_known),
            (true, false) => rank(a, &self.aleatoric),
            (false, _) => {
                (1.0 - self.alpha) * rank(e, &self.epistemic) + self.alpha * rank(a, &self.aleatoric)
            }
        };
        Ok(aleatoric.iter().zip(epistemic).map(of).collect())
    }
}

fn paired(aleatoric: &[f64], epistemic: &[f64]) -> Result<(), Error> {
    if aleatoric.len() == epistemic.len() {
        return Ok(());
    }
    let (got, expected) = (epistemic.len(), aleatoric.len());
    Err(length_mismatch("epistemic uncertainties", got, "aleatoric ones", expected))
}

fn sorted(mut values: Vec<f64>) -> Vec<f64> {
    values.sort_by(f64::total_cmp);
    values
}

fn quantile(sorted: &[f64], share: f64) -> f64 {
    sorted[(share * (sorted.len() - 1) as f64).round() as usize]
}

/// How many reference values are below `value`.
fn below(value: f64, sorted: &[f64]) -> usize {
    sorted.partition_point(|reference| *reference < value)
}
