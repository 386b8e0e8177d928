//! Rules of thumb for the bandwidth of one column. They are nearly optimal for normally distributed columns.

/// Silverman's rule, `σ̂ (¾ n)^(−1/5)`; `None` for a constant or empty column.
///
/// `σ̂` is the smaller of two estimates: the standard deviation, and the interquartile range divided by 1.349 (the interquartile range of
/// the standard normal distribution). It is the standard deviation if the interquartile range is zero.
#[must_use]
pub fn silverman(column: &[f64]) -> Option<f64> {
    spread(column).map(|sigma| sigma * (0.75 * column.len() as f64).powf(-0.2))
}

/// Scott's rule, `σ̂ n^(−1/5)` with the `σ̂` of [`silverman`]; `None` for a constant or empty column.
#[must_use]
pub fn scott(column: &[f64]) -> Option<f64> {
    spread(column).map(|sigma| sigma * (column.len() as f64).powf(-0.2))
}

/// The interquartile range of the standard normal distribution.
const NORMAL_IQR: f64 = 1.348_979_500_392_163_4;

fn spread(column: &[f64]) -> Option<f64> {
    let n = column.len();
    if n < 2 {
        return None;
    }
    let mean = column.iter().sum::<f64>() / n as f64;
    let sum_sq: f64 = column.iter().map(|x| (x - mean).powi(2)).sum();
    let deviation = (sum_sq / (n - 1) as f64).sqrt();
    let mut sorted = column.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let quartiles = (quantile(&sorted, 0.75) - quantile(&sorted, 0.25)) / NORMAL_IQR;
    let sigma = if quartiles > 0.0 { deviation.min(quartiles) } else { deviation };
    (sorted[0] < sorted[n - 1]).then_some(sigma)
}

/// The quantile with linear interpolation between order statistics.
fn quantile(sorted: &[f64], q: f64) -> f64 {
    let at = q * (sorted.len() - 1) as f64;
    let below = at.floor() as usize;
    let above = (below + 1).min(sorted.len() - 1);
    sorted[below] + (at - below as f64) * (sorted[above] - sorted[below])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn five_values_match_a_manual_calculation() {
        // 0..=4: deviation √2.5, quartiles 1 and 3.
        let column = [0.0, 1.0, 2.0, 3.0, 4.0];
        let sigma = 2.0 / NORMAL_IQR;
        assert!((silverman(&column).unwrap() - sigma * 3.75f64.powf(-0.2)).abs() < 1e-15);
        assert!((scott(&column).unwrap() - sigma * 5f64.powf(-0.2)).abs() < 1e-15);
    }

    #[test]
    fn constant_columns_have_no_bandwidth_and_sparse_columns_have_one() {
        assert_eq!(silverman(&[0.1; 7]), None);
        let mut sparse = vec![0.0; 100];
        sparse[3] = 5.0;
        assert!(scott(&sparse).unwrap() > 0.0);
    }
}
