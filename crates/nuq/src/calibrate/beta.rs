//! Binomial tails and beta quantiles, from the regularized incomplete beta function `I_x(a, b)`.

/// `I_x(a, b)` by its continued fraction (DLMF 8.17.22), evaluated by Lentz's method.
fn incomplete_beta(x: f64, a: f64, b: f64) -> f64 {
    if x <= 0.0 {
        return 0.0;
    }
    if x >= 1.0 {
        return 1.0;
    }
    // The fraction converges fast if x is below (a + 1)/(a + b + 2). Above this value, I_x(a, b) = 1 − I_{1−x}(b, a)
    // is used.
    if x > (a + 1.0) / (a + b + 2.0) {
        return 1.0 - incomplete_beta(1.0 - x, b, a);
    }
    let log_front = a * x.ln() + b * (-x).ln_1p() + libm::lgamma(a + b) - libm::lgamma(a) - libm::lgamma(b);
    (log_front.exp() / a * fraction(x, a, b)).min(1.0)
}

fn fraction(x: f64, a: f64, b: f64) -> f64 {
    /// Denominators with a smaller absolute value are replaced by this value, so that no division by zero occurs.
    const TINY: f64 = 1e-300;
    let away_from_zero = |v: f64| if v.abs() < TINY { TINY } else { v };
    let mut c = 1.0;
    let mut d = 1.0 / away_from_zero(1.0 - (a + b) * x / (a + 1.0));
    let mut value = d;
    // Convergence takes O(√max(a, b)) steps, about a thousand for a million rows.
    for m in 1..100_000 {
        let m = f64::from(m);
        let even = m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m));
        let odd = -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0));
        let mut change = 1.0;
        for term in [even, odd] {
            d = 1.0 / away_from_zero(1.0 + term * d);
            c = away_from_zero(1.0 + term / c);
            change = c * d;
            value *= change;
        }
        if (change - 1.0).abs() < 1e-15 {
            break;
        }
    }
    value
}

/// `P(X ≤ k)` for a binomial variable `X` with `n` trials of probability `p`.
pub(crate) fn binomial_at_most(k: usize, n: usize, p: f64) -> f64 {
    if k >= n { 1.0 } else { incomplete_beta(1.0 - p, (n - k) as f64, k as f64 + 1.0) }
}

/// The quantile of `Beta(a, b)` at probability `share`, by bisection.
pub(crate) fn beta_quantile(share: f64, a: f64, b: f64) -> f64 {
    let (mut low, mut high) = (0.0, 1.0);
    for _ in 0..200 {
        let middle = 0.5 * (low + high);
        if middle <= low || middle >= high {
            break;
        }
        *(if incomplete_beta(middle, a, b) < share { &mut low } else { &mut high }) = middle;
    }
    0.5 * (low + high)
}

/// The 95 % interval of Clopper and Pearson (1934) for the success probability, given `count` successes in `n` trials.
///
/// # Panics
/// If `count` exceeds `n`.
#[must_use]
pub fn binomial_interval(count: usize, n: usize) -> (f64, f64) {
    assert!(count <= n, "{count} successes in {n} trials");
    let (k, rest) = (count as f64, (n - count) as f64);
    let low = if count == 0 { 0.0 } else { beta_quantile(0.025, k, rest + 1.0) };
    let high = if count == n { 1.0 } else { beta_quantile(0.975, k + 1.0, rest) };
    (low, high)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(got: f64, expected: f64) {
        assert!((got - expected).abs() <= 1e-11 * expected.abs().max(1e-3), "{got} instead of {expected}");
    }

    #[test]
    fn binomial_tails_are_sums_of_their_terms() {
        for (n, p) in [(1usize, 0.3), (10, 0.05), (40, 0.5), (60, 0.97)] {
            let term = |k: usize| {
                let choose: f64 = (0..k).map(|i| (n - i) as f64 / (i + 1) as f64).product();
                choose * f64::powi(p, k as i32) * (1.0 - p).powi((n - k) as i32)
            };
            let mut sum = 0.0;
            for k in 0..=n {
                sum += term(k);
                close(binomial_at_most(k, n, p), sum);
            }
        }
    }

    #[test]
    fn quantiles_and_intervals_match_scipy() {
        // scipy.stats.beta.ppf(0.025, 901, 100), scipy.stats.binomtest(3, 50).proportion_ci()
        close(beta_quantile(0.025, 901.0, 100.0), 0.8807915173137935);
        let (low, high) = binomial_interval(3, 50);
        close(low, 0.01254858783533406);
        close(high, 0.1654819466037729);
        assert_eq!(binomial_interval(0, 5).0, 0.0);
        // The lower end solves p^5 = 0.025.
        close(binomial_interval(5, 5).0, 0.025f64.powf(0.2));
    }

    #[test]
    fn a_million_trials_match_scipy() {
        // scipy.stats.binom.cdf(500000, 1000000, 0.5); at this size, cancellation of the logarithms in `log_front`
        // leaves an error of about 1e-9.
        let half = binomial_at_most(500_000, 1_000_000, 0.5);
        assert!((half - 0.500_398_942_180_665_4).abs() < 1e-8, "{half}");
    }
}
