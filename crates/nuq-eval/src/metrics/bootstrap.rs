//! Bootstrap intervals of metrics and of differences of two metrics (Efron 1979).
//!
//! Each resample draws rows with replacement and computes the metric again. Rows may be divided into strata, for example inliers and
//! outliers. From each stratum a resample draws as many rows as the stratum has. A resample depends only on the seed, its number and
//! the strata. Two metrics of the same rows are therefore computed on the same resamples, and their differences are paired.

use nuq_neighbors::SeededRng;
use nuq_neighbors::cancel::{Checkpoint, ParallelCheckpoints};
use rayon::prelude::*;

use super::{Detection, Selective};
use crate::Error;
use crate::error::length_mismatch;

/// Distance between the first states of two consecutive seeds: 2⁶⁴ divided by the golden ratio, an odd number. Resamples of consecutive
/// seeds have different states, because the number of resamples is much smaller than this distance.
const SEED_DISTANCE: u64 = 0x9e37_79b9_7f4a_7c15;

/// A value with a confidence interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Interval {
    /// The value on all rows.
    pub value: f64,
    /// The lower end of the interval.
    pub low: f64,
    /// The upper end of the interval.
    pub high: f64,
}

/// The difference of a metric between two methods on the same rows.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Difference {
    /// First minus second, with its 95 % interval.
    pub interval: Interval,
    /// Two-sided p-value of the null hypothesis that the difference is zero.
    pub p_value: f64,
}

/// Parameters of the bootstrap.
///
/// ```
/// use nuq_eval::metrics::{Detection, Resampling};
/// let inliers: Vec<f64> = (0..100).map(f64::from).collect();
/// let outliers: Vec<f64> = (50..150).map(f64::from).collect();
/// let detection = Detection::new(&inliers, &outliers)?;
/// let auc = Resampling::default().roc_auc(&detection);
/// assert!(auc.low < 0.875 && 0.875 < auc.high && auc.high - auc.low < 0.15);
/// # Ok::<(), nuq_eval::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Resampling {
    /// The number of resamples.
    pub resamples: usize,
    /// The seed of all resamples.
    pub seed: u64,
}

impl Default for Resampling {
    fn default() -> Self {
        Self { resamples: 1000, seed: 0 }
    }
}

impl Resampling {
    /// The metric on each resample. `strata` has the number of rows of each stratum; the rows of a stratum are contiguous. `metric`
    /// receives the number of times that each row was drawn.
    #[must_use]
    pub fn draws(&self, strata: &[usize], metric: impl Fn(&[u16]) -> f64 + Sync) -> Vec<f64> {
        self.table(strata, |counts| vec![metric(counts)]).into_iter().map(|row| row[0]).collect()
    }

    /// Several metrics on each resample, one row per resample.
    pub(crate) fn table(
        &self,
        strata: &[usize],
        metrics: impl Fn(&[u16]) -> Vec<f64> + Sync,
    ) -> Vec<Vec<f64>> {
        let (rows, here) = (strata.iter().sum(), Checkpoint::current());
        let draw = |counts: &mut Vec<u16>, i: usize| {
            let state = self.seed.wrapping_mul(SEED_DISTANCE).wrapping_add(i as u64);
            // One round of the generator decorrelates the streams of consecutive states.
            let mut rng = SeededRng::new(SeededRng::new(state).next_u64());
            counts.clear();
            counts.resize(rows, 0);
            let mut first = 0;
            for &size in strata {
                for _ in 0..size {
                    counts[first + rng.below(size)] += 1;
                }
                first += size;
            }
            here.enter(|| metrics(counts))
        };
        (0..self.resamples).into_par_iter().with_checkpoints().map_init(Vec::new, draw).collect()
    }

    /// ROC-AUC with its 95 % interval.
    #[must_use]
    pub fn roc_auc(&self, detection: &Detection) -> Interval {
        Interval::new(detection.roc_auc(), &self.roc_auc_draws(detection))
    }

    /// Average precision with its 95 % interval.
    #[must_use]
    pub fn average_precision(&self, detection: &Detection) -> Interval {
        Interval::new(detection.average_precision(), &self.average_precision_draws(detection))
    }

    /// False positive rate at a true positive rate, with its 95 % interval.
    #[must_use]
    pub fn fpr_at_tpr(&self, detection: &Detection, tpr: f64) -> Interval {
        Interval::new(detection.fpr_at_tpr(tpr), &self.fpr_at_tpr_draws(detection, tpr))
    }

    /// RCC-AUC with its 95 % interval.
    #[must_use]
    pub fn rcc_auc(&self, selective: &Selective) -> Interval {
        Interval::new(selective.rcc_auc(), &self.rcc_auc_draws(selective))
    }

    /// ROC-AUC on each resample.
    #[must_use]
    pub fn roc_auc_draws(&self, detection: &Detection) -> Vec<f64> {
        self.draws(&detection.strata(), |counts| detection.roc_auc_of(&|row| f64::from(counts[row as usize])))
    }

    /// Average precision on each resample.
    #[must_use]
    pub fn average_precision_draws(&self, detection: &Detection) -> Vec<f64> {
        self.draws(&detection.strata(), |counts| {
            detection.average_precision_of(&|row| f64::from(counts[row as usize]))
        })
    }

    /// False positive rate at a true positive rate, on each resample.
    #[must_use]
    pub fn fpr_at_tpr_draws(&self, detection: &Detection, tpr: f64) -> Vec<f64> {
        self.draws(&detection.strata(), |counts| {
            detection.fpr_at_tpr_of(tpr, &|row| f64::from(counts[row as usize]))
        })
    }

    /// RCC-AUC on each resample.
    #[must_use]
    pub fn rcc_auc_draws(&self, selective: &Selective) -> Vec<f64> {
        self.draws(&selective.strata(), |counts| selective.rcc_auc_of(&|row| u32::from(counts[row as usize])))
    }
}

impl Interval {
    /// A value with the percentile interval of its draws: the 2.5 % and 97.5 % quantiles, extended to contain the value.
    #[must_use]
    pub fn new(value: f64, draws: &[f64]) -> Self {
        let mut sorted = draws.to_vec();
        sorted.sort_by(f64::total_cmp);
        Self { value, low: quantile(&sorted, 0.025).min(value), high: quantile(&sorted, 0.975).max(value) }
    }
}

/// A quantile of sorted draws; NaN without draws.
fn quantile(sorted: &[f64], share: f64) -> f64 {
    let at = (share * (sorted.len().saturating_sub(1)) as f64).round() as usize;
    sorted.get(at).copied().unwrap_or(f64::NAN)
}

impl Difference {
    /// Compares two values of a metric, given with their draws from the same [`Resampling`].
    ///
    /// # Errors
    /// No draws, or unequal numbers of draws.
    pub fn new(first: (f64, &[f64]), second: (f64, &[f64])) -> Result<Self, Error> {
        let (got, expected) = (first.1.len(), second.1.len());
        if got != expected {
            return Err(length_mismatch(
                "draws of the first value",
                got,
                "draws of the second value",
                expected,
            ));
        }
        if got == 0 {
            return Err(nuq::Error::NoRows { what: "draws" }.into());
        }
        let differences: Vec<f64> = first.1.iter().zip(second.1).map(|(a, b)| a - b).collect();
        let count = |is: fn(&f64) -> bool| differences.iter().filter(|d| is(d)).count();
        let (below, above) = (count(|d| *d <= 0.0), count(|d| *d >= 0.0));
        let p_value = 2.0 * (1 + below.min(above)) as f64 / (1 + differences.len()) as f64;
        Ok(Self { interval: Interval::new(first.0 - second.0, &differences), p_value: p_value.min(1.0) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws_keep_the_stratum_sizes_and_do_not_depend_on_threads() {
        let resampling = Resampling { resamples: 50, seed: 3 };
        let sums = |counts: &[u16]| {
            let sum = |part: &[u16]| part.iter().map(|&c| f64::from(c)).sum::<f64>();
            1000.0 * sum(&counts[..7]) + sum(&counts[7..])
        };
        assert!(resampling.draws(&[7, 5], sums).iter().all(|&sum| sum == 7005.0));
        let first = |counts: &[u16]| f64::from(counts[0]);
        let one_thread = rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap();
        assert_eq!(resampling.draws(&[7, 5], first), one_thread.install(|| resampling.draws(&[7, 5], first)));
    }

    #[test]
    fn neighboring_seeds_share_no_resample() {
        let strata = [40];
        let number = |counts: &[u16]| counts.iter().fold(0.0, |sum, &count| sum * 3.0 + f64::from(count));
        let draws = |seed| Resampling { resamples: 50, seed }.draws(&strata, number);
        let (first, second) = (draws(0), draws(1));
        assert!(first.iter().all(|draw| !second.contains(draw)));
    }

    #[test]
    fn intervals_have_their_nominal_coverage() {
        // Scores N(0, 1) against N(1, 1): the true AUC is Φ(1/√2).
        let truth = 0.5 * libm::erfc(-0.5);
        let mut rng = SeededRng::new(11);
        let mut normal = |mean: f64, n: usize| -> Vec<f64> { (0..n).map(|_| mean + rng.normal()).collect() };
        let repetitions = 300;
        let mut covered = 0;
        for _ in 0..repetitions {
            let detection = Detection::new(&normal(0.0, 80), &normal(1.0, 80)).unwrap();
            let auc = Resampling { resamples: 300, seed: 0 }.roc_auc(&detection);
            covered += usize::from(auc.low <= truth && truth <= auc.high);
        }
        // Expected 285 with a standard deviation of 4; the percentile interval is known to be slightly too short.
        assert!((270..=298).contains(&covered), "{covered}");
    }

    #[test]
    fn a_better_method_differs_significantly_and_an_equal_one_does_not() {
        let inliers: Vec<f64> = (0..200).map(|i| f64::from(i % 97)).collect();
        let near: Vec<f64> = (0..200).map(|i| f64::from(i % 97) + 20.0).collect();
        let far: Vec<f64> = (0..200).map(|i| f64::from(i % 97) + 60.0).collect();
        let draws = |outliers: &[f64]| {
            let detection = Detection::new(&inliers, outliers).unwrap();
            (detection.roc_auc(), Resampling::default().roc_auc_draws(&detection))
        };
        let ((a, draws_a), (b, draws_b)) = (draws(&near), draws(&far));
        let same = Difference::new((a, &draws_a), (a, &draws_a)).unwrap();
        assert_eq!((same.interval.value, same.p_value), (0.0, 1.0));
        let better = Difference::new((b, &draws_b), (a, &draws_a)).unwrap();
        assert!(better.interval.low > 0.0 && better.p_value < 0.01);
    }
}
