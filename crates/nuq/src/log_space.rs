//! Sums of numbers that are given by their logarithms.
//!
//! Far from the training rows, and at small bandwidths, all kernel values underflow. So all computations stay in log space until
//! the last step. `-inf` represents zero.

/// `ln(e^a + e^b)`.
#[must_use]
pub fn log_add(a: f64, b: f64) -> f64 {
    let (low, high) = if a < b { (a, b) } else { (b, a) };
    if low == f64::NEG_INFINITY { high } else { high + (low - high).exp().ln_1p() }
}

/// `ln Σ_i e^(v_i)`; `-inf` without terms.
#[must_use]
pub fn log_sum(values: impl Iterator<Item = f64> + Clone) -> f64 {
    let high = values.clone().fold(f64::NEG_INFINITY, f64::max);
    if high == f64::NEG_INFINITY {
        return high;
    }
    high + values.map(|v| (v - high).exp()).sum::<f64>().ln()
}

/// `ln(1 − e^a)` for `a ≤ 0`, accurate for small and large `|a|` (Mächler 2012).
#[must_use]
pub fn log_complement(a: f64) -> f64 {
    if a > -std::f64::consts::LN_2 { (-a.exp_m1()).ln() } else { (-a.exp()).ln_1p() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_do_not_underflow() {
        assert_eq!(log_add(-1e6, -1e6), -1e6 + std::f64::consts::LN_2);
        assert_eq!(log_sum([f64::NEG_INFINITY; 3].into_iter()), f64::NEG_INFINITY);
        assert_eq!(log_add(f64::NEG_INFINITY, f64::NEG_INFINITY), f64::NEG_INFINITY);
        assert!(
            (log_sum([-2000.0, -2001.0].into_iter()) + 2000.0 - (1.0 + (-1f64).exp()).ln()).abs() < 1e-12
        );
    }

    #[test]
    fn complements_are_accurate_near_zero_and_one() {
        assert!((log_complement(-1e-20) - 1e-20f64.ln()).abs() < 1e-12);
        assert!((log_complement(-50.0) + (-50f64).exp()).abs() < 1e-30);
        assert_eq!(log_complement(0.0), f64::NEG_INFINITY);
    }
}
