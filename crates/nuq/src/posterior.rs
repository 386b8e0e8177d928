//! Class probabilities: the Nadaraya-Watson estimate with a prior.
//!
//! With `S_c = Σ_{k: y_k = c} K(z_k)/K(0)` over the neighbors `k` of the query and their classes `y_k`, `S = Σ_c S_c`, class
//! frequencies `π_c` and the weight `w` of the prior (a prior with `w = 1` counts as one training row at distance zero from the query):
//!
//! ```text
//! η_c = (S_c + w π_c) / (S + w)
//! ```
//!
//! Only classes of the neighbors, and the most frequent class, have an explicit term. All other classes are summed as
//! `w Σ π_c`, which is exact because frequencies are ratios of integers. Every complement `1 − η_c` is a sum of positive
//! terms, or a difference without cancellation.
//!
//! If all `N` training rows have the same class, the prior gives `N/(N+1)` to it and `1/(N+1)` to a class without
//! training rows. Without this additional class no probability would vary, and the epistemic uncertainty would be zero
//! at any distance from the data.

use crate::labels::Classes;
use crate::log_space::{log_add, log_complement, log_sum};
use crate::weights::Weights;

/// The class frequencies and their weight `w`.
#[derive(Debug, Clone)]
pub(crate) struct Prior {
    weight: f64,
    log_weight: f64,
    /// Integers `n_c` that are proportional to the class frequencies: numbers of rows, or sums of sample weights.
    counts: Vec<u64>,
    /// `Σ n_c` over the classes of the prior. These are the classes of the rows, and one more class with the weight of
    /// one row if all rows have the same class.
    total: u64,
    /// `Σ n_c²` over the same classes.
    sum_of_squares: u128,
    most_frequent: u32,
}

/// The summary of one query's class probabilities that the uncertainties use, in log space.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Summary {
    /// The class with the highest probability among the classes of the training rows. If several classes have it, the one with the lowest
    /// number.
    pub(crate) class: u32,
    /// `ln η_c` of this class.
    pub(crate) log_top: f64,
    /// `ln(1 − η_c)` of this class.
    pub(crate) log_error: f64,
    /// `ln Σ_c η_c (1 − η_c)`.
    pub(crate) log_variance_sum: f64,
    /// `ln max_c η_c (1 − η_c)`.
    pub(crate) log_variance_max: f64,
}

/// Working memory of one thread.
#[derive(Debug, Default)]
pub(crate) struct Scratch {
    /// The position of each class in `masses`, or `NONE`.
    positions: Vec<u32>,
    masses: Vec<Mass>,
}

const NONE: u32 = u32::MAX;

/// The explicit term of one class.
#[derive(Debug, Clone, Copy)]
struct Mass {
    class: u32,
    /// The largest log weight of the class.
    high: f64,
    /// The sum of weights relative to `e^high`.
    sum: f64,
    /// `ln(S_c + w π_c)`.
    log_numerator: f64,
}

impl Prior {
    pub(crate) fn new(classes: &Classes, weight: f64) -> Self {
        let counts = classes.counts().to_vec();
        let has_one_class = counts.iter().filter(|&&count| count > 0).count() == 1;
        Self::of_counts(counts, u64::from(has_one_class), weight)
    }

    /// The prior from the sum of sample weights of each class.
    ///
    /// Frequencies are exact ratios of integers, as without sample weights. If the sums are not all integers, or if their total is
    /// 2⁵³ or more, they are rounded to multiples of a power of two, which is between 2⁻⁶¹ and 2⁻⁶⁰ of the total.
    pub(crate) fn weighted(sums: &[f64], weight: f64) -> Self {
        let has_one_class = sums.iter().filter(|&&sum| sum > 0.0).count() == 1;
        let unseen = if has_one_class { 1.0 } else { 0.0 };
        let total = sums.iter().sum::<f64>() + unseen;
        let is_exact = total < 2f64.powi(53) && sums.iter().all(|sum| sum.fract() == 0.0);
        let units = if is_exact { 1.0 } else { 2f64.powi(61 - total.log2().ceil() as i32) };
        let count = |sum: f64| if sum > 0.0 { (sum * units).round().max(1.0) as u64 } else { 0 };
        Self::of_counts(sums.iter().map(|&sum| count(sum)).collect(), count(unseen), weight)
    }

    /// The prior from integers that are proportional to the class frequencies. `unseen` is the integer of a class
    /// without rows; 0 if the prior has no such class.
    fn of_counts(counts: Vec<u64>, unseen: u64, weight: f64) -> Self {
        let mut most_frequent = 0;
        for (class, &count) in counts.iter().enumerate() {
            if count > counts[most_frequent] {
                most_frequent = class;
            }
        }
        Self {
            weight,
            log_weight: weight.ln(),
            total: counts.iter().sum::<u64>() + unseen,
            sum_of_squares: counts.iter().chain([&unseen]).map(|&n| u128::from(n).pow(2)).sum(),
            most_frequent: most_frequent as u32,
            counts,
        }
    }

    /// `w`.
    pub(crate) fn weight(&self) -> f64 {
        self.weight
    }

    fn log_frequency(&self, class: u32) -> f64 {
        (self.counts[class as usize] as f64 / self.total as f64).ln()
    }

    /// Fills `scratch.masses` for one query and returns `ln w` and `ln(S + w)`. All values are divided by the largest
    /// of the weights and `w`, because only ratios are used. So the logarithms of the large values are near zero, where their
    /// rounding errors are small.
    fn gather(
        &self,
        classes: impl Iterator<Item = u32>,
        weights: &Weights,
        scratch: &mut Scratch,
    ) -> (f64, f64) {
        let top = weights.log_top.max(self.log_weight);
        let (shift, log_weight) = (weights.log_top - top, self.log_weight - top);
        scratch.positions.resize(self.counts.len(), NONE);
        scratch.masses.clear();
        for (class, &ratio) in classes.zip(&weights.log_relative) {
            scratch.add(class, ratio + shift);
        }
        if log_weight > f64::NEG_INFINITY {
            scratch.add(self.most_frequent, f64::NEG_INFINITY);
        }
        for mass in &mut scratch.masses {
            scratch.positions[mass.class as usize] = NONE;
            let log_sum = if mass.sum > 0.0 { mass.high + mass.sum.ln() } else { f64::NEG_INFINITY };
            mass.log_numerator = log_add(log_sum, log_weight + self.log_frequency(mass.class));
        }
        let explicit = log_sum(scratch.masses.iter().map(|mass| mass.log_numerator));
        (log_weight, log_add(explicit, log_weight + self.rest(&scratch.masses).0.ln()))
    }

    /// `Σ π_c` and `Σ π_c²` over the classes without an explicit term.
    fn rest(&self, masses: &[Mass]) -> (f64, f64) {
        let count = |mass: &Mass| self.counts[mass.class as usize];
        let rest = self.total - masses.iter().map(count).sum::<u64>();
        let squares = masses.iter().map(|mass| u128::from(count(mass)).pow(2)).sum::<u128>();
        let total = self.total as f64;
        (rest as f64 / total, (self.sum_of_squares - squares) as f64 / (total * total))
    }

    /// Summarizes the class probabilities of one query, from the classes and weights of its neighbors.
    pub(crate) fn summarize(
        &self,
        classes: impl Iterator<Item = u32>,
        weights: &Weights,
        scratch: &mut Scratch,
    ) -> Summary {
        let (log_weight, log_total) = self.gather(classes, weights, scratch);
        let masses = &mut scratch.masses;
        let better =
            |a: &Mass, b: &Mass| b.log_numerator.total_cmp(&a.log_numerator).then(a.class.cmp(&b.class));
        masses.sort_unstable_by(better);
        let (sum_rest, sum_sq_rest) = self.rest(masses);
        let log_prior_share = log_weight - log_total;
        let others = masses[1..].iter().map(|mass| mass.log_numerator - log_total);
        let log_error = log_add(log_sum(others.clone()), log_prior_share + sum_rest.ln());
        let log_top = masses[0].log_numerator - log_total;
        let top_variance = log_top + log_error;
        // A class other than the predicted one has η ≤ 1/2, so 1 − η loses no digits.
        let log_variance = |log_eta: f64| log_eta + log_complement(log_eta);
        let mut log_variance_sum = log_add(top_variance, log_sum(others.clone().map(log_variance)));
        if sum_rest > 0.0 && log_prior_share > f64::NEG_INFINITY {
            // With the share p = w/(S + w) of the prior, a class without an explicit term has η_c = p π_c, and the sum of
            // η_c (1 − η_c) over these classes is p Σπ_c (1 − p Σπ_c²/Σπ_c).
            let shrink = log_prior_share.exp() * sum_sq_rest / sum_rest;
            log_variance_sum = log_add(log_variance_sum, log_prior_share + sum_rest.ln() + (-shrink).ln_1p());
        }
        // Classes without an explicit term need not be considered. Such a class is not more probable than the most frequent class, which
        // has an explicit term, so its variance is not larger than the variance of that class. A class without training rows may be
        // more probable, but then there are two classes, which have equal variances.
        let log_variance_max = others.map(log_variance).fold(top_variance, f64::max);
        Summary { class: masses[0].class, log_top, log_error, log_variance_sum, log_variance_max }
    }

    /// Writes all class probabilities of one query.
    pub(crate) fn probabilities(
        &self,
        classes: impl Iterator<Item = u32>,
        weights: &Weights,
        scratch: &mut Scratch,
        probabilities: &mut [f64],
    ) {
        let (log_weight, log_total) = self.gather(classes, weights, scratch);
        let share = (log_weight - log_total).exp() / self.total as f64;
        for (probability, &count) in probabilities.iter_mut().zip(&self.counts) {
            *probability = share * count as f64;
        }
        for mass in &scratch.masses {
            probabilities[mass.class as usize] = (mass.log_numerator - log_total).exp();
        }
    }

    /// `ln η_c` of one class.
    pub(crate) fn log_probability(
        &self,
        class: u32,
        classes: impl Iterator<Item = u32>,
        weights: &Weights,
        scratch: &mut Scratch,
    ) -> f64 {
        let (log_weight, log_total) = self.gather(classes, weights, scratch);
        let mass = scratch.masses.iter().find(|mass| mass.class == class);
        let log_numerator = match mass {
            Some(mass) => mass.log_numerator,
            None => log_weight + self.log_frequency(class),
        };
        log_numerator - log_total
    }
}

impl Scratch {
    /// Adds `e^ratio` to the sum of a class. The sum is stored relative to its largest term.
    fn add(&mut self, class: u32, ratio: f64) {
        let position = &mut self.positions[class as usize];
        if *position == NONE {
            *position = self.masses.len() as u32;
            let sum = if ratio > f64::NEG_INFINITY { 1.0 } else { 0.0 };
            self.masses.push(Mass { class, high: ratio, sum, log_numerator: f64::NEG_INFINITY });
            return;
        }
        let mass = &mut self.masses[*position as usize];
        if ratio <= mass.high {
            if ratio > f64::NEG_INFINITY {
                mass.sum += (ratio - mass.high).exp();
            }
        } else {
            mass.sum = mass.sum * (mass.high - ratio).exp() + 1.0;
            mass.high = ratio;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prior(labels: &[i64], weight: f64) -> Prior {
        Prior::new(&Classes::encode(labels).0, weight)
    }

    #[test]
    fn two_neighbors_of_three_classes_match_a_manual_calculation() {
        // Frequencies 1/2, 1/4, 1/4; neighbors of class 0 (ratio 1) and 1 (ratio 1/2); w = 1/2.
        let prior = prior(&[0, 0, 1, 2], 0.5);
        let ratios = Weights::of(&[0.0, 0.5f64.ln()]);
        let mut eta = [0.0; 3];
        prior.probabilities([0, 1].into_iter(), &ratios, &mut Scratch::default(), &mut eta);
        let expected = [1.25 / 2.0, 0.625 / 2.0, 0.125 / 2.0];
        for (got, want) in eta.iter().zip(expected) {
            assert!((got - want).abs() < 1e-15);
        }
        let s = prior.summarize([0, 1].into_iter(), &ratios, &mut Scratch::default());
        assert_eq!(s.class, 0);
        assert!((s.log_error.exp() - 0.375).abs() < 1e-15);
        let variance: f64 = expected.iter().map(|e| e * (1.0 - e)).sum();
        assert!((s.log_variance_sum.exp() - variance).abs() < 1e-15);
        assert!((s.log_variance_max.exp() - 0.625 * 0.375).abs() < 1e-15);
    }

    #[test]
    fn without_a_prior_neighbors_of_one_class_have_no_variance() {
        let s =
            prior(&[0, 1], 0.0).summarize([1].into_iter(), &Weights::of(&[-1e9]), &mut Scratch::default());
        assert_eq!((s.class, s.log_top), (1, 0.0));
        assert_eq!(s.log_error, f64::NEG_INFINITY);
        assert_eq!(s.log_variance_sum, f64::NEG_INFINITY);
        assert_eq!(s.log_variance_max, f64::NEG_INFINITY);
    }

    #[test]
    fn with_a_single_class_the_prior_has_an_unseen_class() {
        // Four rows of one class: π = 4/5 and 1/5. One neighbor of ratio 1/2 and w = 1/2: η = 9/10.
        let prior = prior(&[7; 4], 0.5);
        let weights = Weights::of(&[0.5f64.ln()]);
        let s = prior.summarize([0].into_iter(), &weights, &mut Scratch::default());
        assert!((s.log_top.exp() - 0.9).abs() < 1e-15 && (s.log_error.exp() - 0.1).abs() < 1e-15);
        assert!((s.log_variance_sum.exp() - 0.18).abs() < 1e-15);
        assert!((s.log_variance_max.exp() - 0.09).abs() < 1e-15);
        let mut eta = [0.0];
        prior.probabilities([0].into_iter(), &weights, &mut Scratch::default(), &mut eta);
        assert!((eta[0] - 0.9).abs() < 1e-15);
    }

    #[test]
    fn class_frequencies_are_proportional_to_sums_of_sample_weights() {
        let weights = Weights::of(&[0.0, 0.5f64.ln()]);
        let eta = |prior: &Prior| {
            let mut eta = [0.0; 3];
            prior.probabilities([0, 1].into_iter(), &weights, &mut Scratch::default(), &mut eta);
            eta
        };
        assert_eq!(eta(&Prior::weighted(&[2.0, 1.0, 1.0], 0.5)), eta(&prior(&[0, 0, 1, 2], 0.5)));
        for factor in [1e-100, 0.3, 1e90] {
            let scaled = Prior::weighted(&[2.0 * factor, factor, factor], 0.5);
            for (a, b) in eta(&scaled).into_iter().zip(eta(&prior(&[0, 0, 1, 2], 0.5))) {
                assert!((a - b).abs() < 1e-15, "{factor}");
            }
        }
        // One class: π = 0.3/1.3, and S = 0.
        let s = Prior::weighted(&[0.3], 1.0).summarize(
            [0].into_iter(),
            &Weights::of(&[-1e9]),
            &mut Scratch::default(),
        );
        assert!((s.log_top.exp() - 0.3 / 1.3).abs() < 1e-15);
    }

    #[test]
    fn far_away_the_most_frequent_class_is_predicted() {
        let labels = [0, 1, 2, 2, 2];
        let s = prior(&labels, 1e-3).summarize(
            [0, 1].into_iter(),
            &Weights::of(&[-1e12, -1e12]),
            &mut Scratch::default(),
        );
        assert_eq!(s.class, 2);
        assert!((s.log_top.exp() - 0.6).abs() < 1e-15);
        assert!((s.log_variance_sum.exp() - (1.0 - 0.36 - 0.08)).abs() < 1e-15);
    }

    #[test]
    fn logs_of_tiny_probabilities_are_exact() {
        let s = prior(&[0, 1], 0.0).summarize(
            [0, 1].into_iter(),
            &Weights::of(&[0.0, -5000.0]),
            &mut Scratch::default(),
        );
        assert_eq!(s.log_error, -5000.0);
        assert_eq!(s.log_variance_max, -5000.0);
    }

    #[test]
    fn equal_probabilities_predict_the_first_class() {
        let s = prior(&[5, 3], 0.0).summarize(
            [1, 0].into_iter(),
            &Weights::of(&[-1.0, -1.0]),
            &mut Scratch::default(),
        );
        assert_eq!(s.class, 0);
    }

    #[test]
    fn equal_weights_give_frequencies_at_any_distance() {
        let prior = prior(&[0, 0, 1], 0.0);
        for log_ratio in [-5e11, -5e15, -5e19] {
            let mut eta = [0.0; 2];
            let weights = Weights::of(&[log_ratio; 3]);
            prior.probabilities([0, 0, 1].into_iter(), &weights, &mut Scratch::default(), &mut eta);
            assert!((eta[0] - 2.0 / 3.0).abs() < 1e-15 && (eta[1] - 1.0 / 3.0).abs() < 1e-15, "{eta:?}");
        }
    }
}
