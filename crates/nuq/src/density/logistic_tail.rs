//! The upper tail of a score, as a logistic distribution.

use crate::quantiles::Quantiles;

/// A logistic distribution through the 80 and 98 % quantiles of the scores of left-out training rows.
///
/// It describes the upper tail of the scores; a few extreme rows do not change it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LogisticTail {
    /// `m`, the center of the distribution.
    pub center: f64,
    /// `c > 0`, the scale of the distribution.
    pub scale: f64,
}

impl LogisticTail {
    /// Fits the distribution to scores with sample weights; `scores` is not empty.
    pub(crate) fn of(scores: &[(f64, f64)]) -> Self {
        let quantiles = Quantiles::of(scores.iter().copied());
        let at = |share: f64| quantiles.at(share);
        // The standard logistic distribution has its 80 and 98 % quantiles at ln 4 and ln 49.
        let (low, high) = (4f64.ln(), 49f64.ln());
        let scale = (at(0.98) - at(0.8)) / (high - low);
        // If both quantiles are equal, the standard deviation is used, but at least 1.
        let scale = if scale > 0.0 { scale } else { deviation(scores).max(1.0) };
        Self { center: at(0.8) - low * scale, scale }
    }

    /// `ln(1 + e^((s − m)/c))` of a score `s`. This is the negative log of the probability that a variable of this distribution
    /// exceeds `s`.
    pub(crate) fn tail_score(&self, score: f64) -> f64 {
        let z = (score - self.center) / self.scale;
        z.max(0.0) + (-z.abs()).exp().ln_1p()
    }
}

fn deviation(values: &[(f64, f64)]) -> f64 {
    let total: f64 = values.iter().map(|(_, weight)| weight).sum();
    let mean = values.iter().map(|(v, weight)| weight * v).sum::<f64>() / total;
    (values.iter().map(|(v, weight)| weight * (v - mean).powi(2)).sum::<f64>() / total).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tail_has_the_quantiles_of_its_scores_and_does_not_saturate() {
        // Quantiles ln(p / (1 − p)) of the standard logistic distribution.
        let quantile = |share: f64| (share.ln() - (1.0 - share).ln(), 1.0);
        let scores: Vec<(f64, f64)> = (1..=9999).map(|i| quantile(f64::from(i) / 1e4)).collect();
        let tail = LogisticTail::of(&scores);
        assert!(tail.center.abs() < 1e-2 && (tail.scale - 1.0).abs() < 1e-2, "{tail:?}");
        let tail = LogisticTail { center: 1.0, scale: 2.0 };
        assert!((tail.tail_score(1.0) - 2f64.ln()).abs() < 1e-15);
        assert!((tail.tail_score(2001.0) - 1000.0).abs() < 1e-9);
        assert!(tail.tail_score(1e300) > tail.tail_score(1e299));
        assert!(tail.tail_score(-1e6) >= 0.0 && tail.tail_score(-1e6) < 1e-300);
    }

    #[test]
    fn equal_scores_have_scale_one() {
        assert_eq!(LogisticTail::of(&[(3.0, 1.0); 5]).scale, 1.0);
    }
}
