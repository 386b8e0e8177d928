//! Scores of several predictions, of two uncertainties, and the slope that a temperature makes zero.

use super::logits::softmax;

/// What several members say of one row.
pub struct Members {
    probabilities: Vec<Vec<f64>>,
    mean: Vec<f64>,
}

impl Members {
    /// From each member's logits.
    pub fn new(logits: &[Vec<f64>]) -> Self {
        let probabilities: Vec<Vec<f64>> = logits.iter().map(|z| softmax(z)).collect();
        let mean = (0..logits[0].len())
            .map(|c| probabilities.iter().map(|p| p[c]).sum::<f64>() / logits.len() as f64)
            .collect();
        Self { probabilities, mean }
    }

    fn average(&self, of: impl Fn(&[f64]) -> f64) -> f64 {
        self.probabilities.iter().map(|p| of(p)).sum::<f64>() / self.probabilities.len() as f64
    }

    /// The class that is likeliest on average, the first of several.
    fn likeliest(&self) -> usize {
        let mut best = 0;
        for c in 1..self.mean.len() {
            if self.mean[c] > self.mean[best] {
                best = c;
            }
        }
        best
    }

    /// $H(\bar p)$.
    pub fn entropy(&self) -> f64 {
        shannon(&self.mean)
    }

    /// $\frac1M \sum_m H(p_m)$.
    pub fn mean_entropy(&self) -> f64 {
        self.average(shannon)
    }

    /// $\frac1M \sum_m \sum_c p_{mc} \ln (p_{mc} / \bar p_c)$, the mean divergence of members from their mean.
    pub fn mutual_information(&self) -> f64 {
        self.average(|p| {
            let pairs = p.iter().zip(&self.mean).filter(|(p, _)| **p > 0.0);
            pairs.map(|(p, mean)| p * (p / mean).ln()).sum()
        })
    }

    /// The standard deviation over members of $1 - p_c$ of the likeliest class: that of $p_c$.
    pub fn deviation(&self) -> f64 {
        let best = self.likeliest();
        let mean = others(&self.mean, best);
        self.average(|p| (others(p, best) - mean).powi(2)).sqrt()
    }

    /// $1 - \max_c \bar p_c$.
    pub fn max_prob(&self) -> f64 {
        others(&self.mean, self.likeliest())
    }
}

/// One minus the probability of class `c`.
fn others(p: &[f64], c: usize) -> f64 {
    (0..p.len()).filter(|&j| j != c).map(|j| p[j]).sum()
}

/// $-\sum_c p_c \ln p_c$ with $\ln p_c = \ln(1 - \sum_{j \ne c} p_j)$ where that is the more exact.
fn shannon(p: &[f64]) -> f64 {
    let mut sum = 0.0;
    for c in 0..p.len() {
        sum -= match p[c] {
            0.0 => 0.0,
            likely if likely > 0.5 => likely * (-others(p, c)).ln_1p(),
            unlikely => unlikely * unlikely.ln(),
        };
    }
    sum
}

/// Hybrid uncertainty (Vazhentsev et al. 2023) by ranks among reference rows.
pub struct Huq<'r> {
    /// Aleatoric uncertainties of the reference rows.
    pub aleatoric: &'r [f64],
    /// Their epistemic uncertainties.
    pub epistemic: &'r [f64],
    /// The weight of the aleatoric rank among rows that are not known.
    pub alpha: f64,
    /// Rows are known up to this epistemic uncertainty.
    pub known: f64,
    /// Known rows are ambiguous beyond this aleatoric uncertainty.
    pub ambiguous: f64,
}

impl Huq<'_> {
    /// The score of a row with aleatoric uncertainty `a` and epistemic uncertainty `e`, divided by the number of rows.
    pub fn score(&self, a: f64, e: f64) -> f64 {
        let below = |values: &[f64], v: f64| values.iter().filter(|r| **r < v).count() as f64;
        let pairs = self.aleatoric.iter().zip(self.epistemic);
        let of_known: Vec<f64> = pairs.filter(|(_, e)| **e <= self.known).map(|(a, _)| *a).collect();
        let rank = if e > self.known {
            (1.0 - self.alpha) * below(self.epistemic, e) + self.alpha * below(self.aleatoric, a)
        } else if a > self.ambiguous {
            below(self.aleatoric, a)
        } else {
            below(&of_known, a)
        };
        rank / self.aleatoric.len() as f64
    }
}

/// The slope of $-\sum_i \ln \mathrm{softmax}(z_i / T)_{y_i}$ in $1/T$, $\sum_i \sum_c p_{ic} (z_{ic} - z_{i y_i})$, and the sum of
/// the magnitudes of its terms. The slope is zero at the best temperature.
pub fn temperature_slope(z: &[Vec<f64>], y: &[usize], temperature: f64) -> (f64, f64) {
    let (mut slope, mut size) = (0.0, 0.0);
    for (z, &y) in z.iter().zip(y) {
        let scaled: Vec<f64> = z.iter().map(|v| v / temperature).collect();
        for (p, v) in softmax(&scaled).iter().zip(z) {
            slope += p * (v - z[y]);
            size += p * (v - z[y]).abs();
        }
    }
    (slope, size)
}
