//! Scores of ensembles and of pairs of uncertainties, and the derivative of the temperature-scaling loss.

use super::logits::softmax;

/// The predictions of the members of an ensemble for one row.
pub struct Members {
    /// `p_m`, the class probabilities of each of the `M` members.
    probabilities: Vec<Vec<f64>>,
    /// `p̄`, the mean of the members' probabilities.
    mean: Vec<f64>,
}

impl Members {
    /// Takes the logits of each member.
    pub fn new(logits: &[Vec<f64>]) -> Self {
        let probabilities: Vec<Vec<f64>> = logits.iter().map(|z| softmax(z)).collect();
        let mean = (0..logits[0].len())
            .map(|c| probabilities.iter().map(|p| p[c]).sum::<f64>() / logits.len() as f64)
            .collect();
        Self { probabilities, mean }
    }

    fn average(&self, function: impl Fn(&[f64]) -> f64) -> f64 {
        self.probabilities.iter().map(|p| function(p)).sum::<f64>() / self.probabilities.len() as f64
    }

    /// The class with the largest mean probability. If several classes have it, the first one.
    fn most_probable(&self) -> usize {
        let mut best = 0;
        for c in 1..self.mean.len() {
            if self.mean[c] > self.mean[best] {
                best = c;
            }
        }
        best
    }

    /// `H(p̄)`.
    pub fn entropy(&self) -> f64 {
        shannon(&self.mean)
    }

    /// `(1/M) Σ_m H(p_m)`.
    pub fn mean_entropy(&self) -> f64 {
        self.average(shannon)
    }

    /// `(1/M) Σ_m Σ_c p_mc ln(p_mc / p̄_c)`, the mean divergence of the members from their mean.
    pub fn mutual_information(&self) -> f64 {
        self.average(|p| {
            let pairs = p.iter().zip(&self.mean).filter(|(p, _)| **p > 0.0);
            pairs.map(|(p, mean)| p * (p / mean).ln()).sum()
        })
    }

    /// The standard deviation, over members, of `1 − p_c` for the most probable class `c`. It equals the standard
    /// deviation of `p_c`.
    pub fn deviation(&self) -> f64 {
        let best = self.most_probable();
        let mean = complement(&self.mean, best);
        self.average(|p| (complement(p, best) - mean).powi(2)).sqrt()
    }

    /// `1 − max_c p̄_c`.
    pub fn max_prob(&self) -> f64 {
        complement(&self.mean, self.most_probable())
    }
}

/// One minus the probability of class `c`.
fn complement(p: &[f64], c: usize) -> f64 {
    (0..p.len()).filter(|&j| j != c).map(|j| p[j]).sum()
}

/// `−Σ_c p_c ln p_c`, with `ln p_c = ln(1 − Σ_{j ≠ c} p_j)` if this is more accurate.
fn shannon(p: &[f64]) -> f64 {
    let mut sum = 0.0;
    for c in 0..p.len() {
        sum -= match p[c] {
            0.0 => 0.0,
            likely if likely > 0.5 => likely * (-complement(p, c)).ln_1p(),
            unlikely => unlikely * unlikely.ln(),
        };
    }
    sum
}

/// Hybrid uncertainty (Vazhentsev et al. 2023) by ranks among reference rows.
pub struct Huq<'r> {
    /// Aleatoric uncertainties of the reference rows.
    pub aleatoric: &'r [f64],
    /// Epistemic uncertainties of the reference rows.
    pub epistemic: &'r [f64],
    /// The weight of the aleatoric rank for out-of-distribution rows.
    pub alpha: f64,
    /// The largest epistemic uncertainty of in-distribution rows.
    pub epistemic_limit: f64,
    /// The aleatoric uncertainty beyond which in-distribution rows are ambiguous.
    pub aleatoric_limit: f64,
}

impl Huq<'_> {
    /// The score of a row with aleatoric uncertainty `a` and epistemic uncertainty `e`: its rank divided by the number
    /// of reference rows.
    pub fn score(&self, a: f64, e: f64) -> f64 {
        let below = |values: &[f64], v: f64| values.iter().filter(|r| **r < v).count() as f64;
        let pairs = self.aleatoric.iter().zip(self.epistemic);
        let in_distribution: Vec<f64> =
            pairs.filter(|(_, e)| **e <= self.epistemic_limit).map(|(a, _)| *a).collect();
        let rank = if e > self.epistemic_limit {
            (1.0 - self.alpha) * below(self.epistemic, e) + self.alpha * below(self.aleatoric, a)
        } else if a > self.aleatoric_limit {
            below(self.aleatoric, a)
        } else {
            below(&in_distribution, a)
        };
        rank / self.aleatoric.len() as f64
    }
}

/// The derivative of `−Σ_i ln softmax(z_i / T)_{y_i}` with respect to `1/T`, which is
/// `Σ_i Σ_c p_ic (z_ic − z_{i y_i})`, and the sum of the absolute values of its terms, to which its rounding
/// error is proportional. The derivative is zero at the best temperature.
pub fn temperature_derivative(z: &[Vec<f64>], y: &[usize], temperature: f64) -> (f64, f64) {
    let (mut derivative, mut magnitude) = (0.0, 0.0);
    for (z, &y) in z.iter().zip(y) {
        let scaled: Vec<f64> = z.iter().map(|v| v / temperature).collect();
        for (p, v) in softmax(&scaled).iter().zip(z) {
            derivative += p * (v - z[y]);
            magnitude += p * (v - z[y]).abs();
        }
    }
    (derivative, magnitude)
}
