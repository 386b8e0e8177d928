//! Quantiles of weighted values.

/// Values in ascending order, with cumulative weights.
pub(crate) struct Quantiles {
    sorted: Vec<f64>,
    /// The sum of weights up to each value, in units in which all weights sum to the number of values.
    cumulative: Vec<f64>,
}

impl Quantiles {
    /// From values and their positive weights. There must be at least one value.
    pub(crate) fn of(values: impl Iterator<Item = (f64, f64)>) -> Self {
        let mut pairs: Vec<(f64, f64)> = values.collect();
        pairs.sort_by(|a, b| a.0.total_cmp(&b.0));
        let (sorted, mut cumulative): (Vec<f64>, Vec<f64>) = pairs.into_iter().unzip();
        // Sums of ones are exact. Sums of other equal weights are rounded, and a rank that is a whole number would fall into
        // the wrong interval.
        if cumulative.iter().all(|&weight| weight == cumulative[0]) {
            cumulative.fill(1.0);
        }
        let mut sum = 0.0;
        for weight in &mut cumulative {
            sum += *weight;
            *weight = sum;
        }
        let unit = sum / sorted.len() as f64;
        cumulative.iter_mut().for_each(|weight| *weight /= unit);
        Self { sorted, cumulative }
    }

    /// The first value whose cumulative weight satisfies `holds`. `holds` must be false up to some weight and true above
    /// it. The last value if, after rounding, no cumulative weight satisfies it.
    fn first(&self, holds: impl Fn(f64) -> bool) -> f64 {
        let at = self.cumulative.partition_point(|&weight| !holds(weight));
        self.sorted[at.min(self.sorted.len() - 1)]
    }

    /// The quantile of `share`. With equal weights it is the value whose rank, counted from zero, is `share · (n − 1)`
    /// rounded.
    pub(crate) fn at(&self, share: f64) -> f64 {
        let rank = (share * (self.sorted.len() - 1) as f64).round();
        self.first(|weight| weight > rank)
    }

    /// The median. With an even number of equal weights it is the mean of the two middle values.
    pub(crate) fn median(&self) -> f64 {
        let half = 0.5 * self.sorted.len() as f64;
        0.5 * (self.first(|weight| weight >= half) + self.first(|weight| weight > half))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(values: &[f64], weights: &[f64]) -> Quantiles {
        Quantiles::of(values.iter().copied().zip(weights.iter().copied()))
    }

    #[test]
    fn equal_weights_give_the_quantiles_without_weights() {
        for weight in [1.0, 7.0, 0.1, 0.3] {
            let even = of(&[4.0, 1.0, 3.0, 2.0], &[weight; 4]);
            assert_eq!([even.median(), even.at(0.0), even.at(0.5), even.at(1.0)], [2.5, 1.0, 3.0, 4.0]);
            assert_eq!(of(&[9.0, 1.0, 3.0], &[weight; 3]).median(), 3.0);
            assert_eq!(of(&[5.0], &[weight]).median(), 5.0);
            let six = of(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0], &[weight; 6]);
            assert_eq!([six.median(), six.at(0.2), six.at(0.4)], [3.5, 2.0, 3.0]);
        }
    }

    #[test]
    fn weights_count_as_repetitions_in_the_median() {
        assert_eq!(of(&[1.0, 2.0, 3.0], &[3.0, 1.0, 1.0]).median(), 1.0);
        assert_eq!(of(&[1.0, 2.0, 3.0], &[2.0, 1.0, 1.0]).median(), 1.5);
        assert_eq!(of(&[1.0, 2.0], &[1e-9, 1.0]).median(), 2.0);
    }
}
