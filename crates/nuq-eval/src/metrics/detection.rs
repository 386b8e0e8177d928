//! Detection of outliers by a score that should be higher for outliers than for inliers.
//!
//! With inlier scores `a` and outlier scores `b`, a row is detected at threshold `t` if its score exceeds `t`:
//!
//! - ROC-AUC: `P(b > a) + ½ P(b = a)`, the area under the curve of the true positive rate against the false positive
//!   rate.
//! - Average precision: `Σ_t (R_t − R_t') P_t` over descending thresholds, with precision `P`, recall `R` and the
//!   previous threshold `t'`.
//! - FPR at TPR `r`: the smallest false positive rate among the thresholds with a true positive rate of at least `r`.
//! - Detection error: the smallest mean of false negative rate and false positive rate over all thresholds.

use super::ranked::Ranked;
use crate::Error;
use nuq::calibrate::check_scores;

/// Scores of inliers and outliers, sorted once.
///
/// ```
/// use nuq_eval::metrics::Detection;
/// let detection = Detection::new(&[0.1, 0.2, 0.4], &[0.3, 0.9])?;
/// assert_eq!(detection.roc_auc(), 5.0 / 6.0); // five of six pairs are in the right order
/// assert_eq!(detection.fpr_at_tpr(0.95), 1.0 / 3.0);
/// # Ok::<(), nuq_eval::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Detection {
    /// Rows with a number below `inliers` are the inliers.
    ranked: Ranked,
    inliers: usize,
}

/// Weighted numbers of inliers and outliers with equal scores.
struct Group {
    inliers: f64,
    outliers: f64,
}

impl Detection {
    /// Sorts the scores.
    ///
    /// # Errors
    /// Empty sets, or NaN.
    pub fn new(inliers: &[f64], outliers: &[f64]) -> Result<Self, Error> {
        check_scores(inliers, "inlier scores")?;
        check_scores(outliers, "outlier scores")?;
        let scores = [inliers, outliers].concat();
        Ok(Self { ranked: Ranked::new(&scores, "scores")?, inliers: inliers.len() })
    }

    /// The numbers of inliers and outliers, which are the strata of [`Resampling::draws`](super::Resampling::draws).
    #[must_use]
    pub fn strata(&self) -> [usize; 2] {
        [self.inliers, self.ranked.len() - self.inliers]
    }

    /// The probability that an outlier has a higher score than an inlier; ties count one half.
    #[must_use]
    pub fn roc_auc(&self) -> f64 {
        self.roc_auc_of(&|_| 1.0)
    }

    /// Average precision with outliers as positives.
    #[must_use]
    pub fn average_precision(&self) -> f64 {
        self.average_precision_of(&|_| 1.0)
    }

    /// Average precision with inliers as positives, by ascending score.
    #[must_use]
    pub fn average_precision_of_inliers(&self) -> f64 {
        let (inliers, _) = self.totals(&|_| 1.0);
        precision(self.groups(&|_| 1.0).map(|group| (group.inliers, group.outliers)), inliers)
    }

    /// The smallest false positive rate at a true positive rate of at least `tpr`.
    #[must_use]
    pub fn fpr_at_tpr(&self, tpr: f64) -> f64 {
        self.fpr_at_tpr_of(tpr, &|_| 1.0)
    }

    /// The smallest mean of false negative rate and false positive rate over all thresholds.
    #[must_use]
    pub fn detection_error(&self) -> f64 {
        let mean_error = |(fpr, tpr): &(f64, f64)| 0.5 * (1.0 - tpr + fpr);
        self.curve().iter().map(mean_error).fold(0.5, f64::min)
    }

    /// The ROC curve: false positive rate and true positive rate at every threshold, from (0, 0) to (1, 1).
    #[must_use]
    pub fn curve(&self) -> Vec<(f64, f64)> {
        let (inliers, outliers) = self.totals(&|_| 1.0);
        let (mut false_positives, mut true_positives) = (0.0, 0.0);
        let steps = self.groups(&|_| 1.0).rev().map(|group| {
            false_positives += group.inliers;
            true_positives += group.outliers;
            (false_positives / inliers, true_positives / outliers)
        });
        std::iter::once((0.0, 0.0)).chain(steps).collect()
    }

    /// The number of outliers among the `k` rows with the lowest scores, for each `k` from 0 to the number of rows. If
    /// rows have equal scores, it is the mean over all orders of these rows.
    #[must_use]
    pub fn count_curve(&self) -> Vec<f64> {
        let mut curve = vec![0.0];
        let mut before = 0.0;
        for Group { inliers, outliers } in self.groups(&|_| 1.0) {
            let size = inliers + outliers;
            curve.extend((1..=size as usize).map(|j| before + outliers * j as f64 / size));
            before += outliers;
        }
        curve
    }

    /// ROC-AUC if each row `i` (inliers first) is repeated `count(i)` times.
    pub(crate) fn roc_auc_of(&self, count: &impl Fn(u32) -> f64) -> f64 {
        let (mut below, mut ordered_pairs) = (0.0, 0.0);
        for Group { inliers, outliers } in self.groups(count) {
            ordered_pairs += outliers * (below + 0.5 * inliers);
            below += inliers;
        }
        let (inliers, outliers) = self.totals(count);
        ordered_pairs / (inliers * outliers)
    }

    pub(crate) fn average_precision_of(&self, count: &impl Fn(u32) -> f64) -> f64 {
        let (_, outliers) = self.totals(count);
        precision(self.groups(count).rev().map(|group| (group.outliers, group.inliers)), outliers)
    }

    pub(crate) fn fpr_at_tpr_of(&self, tpr: f64, count: &impl Fn(u32) -> f64) -> f64 {
        if tpr <= 0.0 {
            // No row exceeds an infinite threshold.
            return 0.0;
        }
        let (inliers, outliers) = self.totals(count);
        let (mut false_positives, mut true_positives) = (0.0, 0.0);
        for group in self.groups(count).rev() {
            false_positives += group.inliers;
            true_positives += group.outliers;
            if true_positives / outliers >= tpr {
                break;
            }
        }
        false_positives / inliers
    }

    /// ROC-AUC, average precision and FPR at a TPR if each row `i` is repeated `counts[i]` times, in one pass over
    /// descending scores. Nearly all of the resampling time of a comparison is spent here.
    pub(crate) fn all_of(&self, tpr: f64, counts: &[u16]) -> [f64; 3] {
        let total = |counts: &[u16]| counts.iter().map(|&count| u32::from(count)).sum::<u32>();
        let (inliers, outliers) = counts.split_at(self.inliers);
        let (inliers, outliers) = (f64::from(total(inliers)), f64::from(total(outliers)));
        let (mut true_positives, mut false_positives) = (0u32, 0u32);
        let (mut ordered_pairs, mut precision, mut fpr) = (0.0, 0.0, (tpr <= 0.0).then_some(0.0));
        for rows in self.ranked.groups().rev() {
            let (mut all, mut positives) = (0, 0);
            for &row in rows {
                let count = u32::from(counts[row as usize]);
                all += count;
                positives += count * u32::from(row as usize >= self.inliers);
            }
            // Outliers above these inliers are in the right order; ties count one half.
            ordered_pairs +=
                f64::from(all - positives) * (f64::from(true_positives) + 0.5 * f64::from(positives));
            true_positives += positives;
            false_positives += all - positives;
            if positives > 0 {
                precision += f64::from(positives) / outliers
                    * (f64::from(true_positives) / f64::from(true_positives + false_positives));
                if fpr.is_none() && f64::from(true_positives) / outliers >= tpr {
                    fpr = Some(f64::from(false_positives) / inliers);
                }
            }
        }
        [ordered_pairs / (inliers * outliers), precision, fpr.unwrap_or(1.0)]
    }

    fn groups<'g>(&'g self, count: &'g impl Fn(u32) -> f64) -> impl DoubleEndedIterator<Item = Group> + 'g {
        let inliers = self.inliers as u32;
        self.ranked.groups().map(move |rows| {
            let mut group = Group { inliers: 0.0, outliers: 0.0 };
            for &row in rows {
                *(if row < inliers { &mut group.inliers } else { &mut group.outliers }) += count(row);
            }
            group
        })
    }

    fn totals(&self, count: &impl Fn(u32) -> f64) -> (f64, f64) {
        let (inliers, all) = (self.inliers as u32, self.ranked.len() as u32);
        ((0..inliers).map(count).sum(), (inliers..all).map(count).sum())
    }
}

/// Average precision from groups of (positives, negatives) in the order of detection.
fn precision(groups: impl Iterator<Item = (f64, f64)>, n_positives: f64) -> f64 {
    let (mut true_positives, mut detected, mut sum) = (0.0, 0.0, 0.0);
    for (positives, negatives) in groups {
        true_positives += positives;
        detected += positives + negatives;
        if positives > 0.0 {
            sum += positives / n_positives * (true_positives / detected);
        }
    }
    sum
}

/// The probability that an outlier has a higher score than an inlier; ties count one half.
///
/// ```
/// assert_eq!(nuq_eval::metrics::roc_auc(&[1.0, 2.0], &[2.0, 3.0])?, 0.875); // 3.5 of 4 pairs
/// # Ok::<(), nuq_eval::Error>(())
/// ```
///
/// # Errors
/// Empty sets, or NaN.
pub fn roc_auc(inliers: &[f64], outliers: &[f64]) -> Result<f64, Error> {
    Ok(Detection::new(inliers, outliers)?.roc_auc())
}

/// Average precision with outliers as positives.
///
/// # Errors
/// Empty sets, or NaN.
pub fn average_precision(inliers: &[f64], outliers: &[f64]) -> Result<f64, Error> {
    Ok(Detection::new(inliers, outliers)?.average_precision())
}

/// The smallest false positive rate at a true positive rate of at least `tpr`.
///
/// # Errors
/// Empty sets, NaN, or `tpr` outside (0, 1].
pub fn fpr_at_tpr(inliers: &[f64], outliers: &[f64], tpr: f64) -> Result<f64, Error> {
    if !(tpr > 0.0 && tpr <= 1.0) {
        return Err(crate::error::out_of_range("tpr", tpr, "it must lie in (0, 1]"));
    }
    Ok(Detection::new(inliers, outliers)?.fpr_at_tpr(tpr))
}

/// The smallest mean of false negative rate and false positive rate over all thresholds.
///
/// # Errors
/// Empty sets, or NaN.
pub fn detection_error(inliers: &[f64], outliers: &[f64]) -> Result<f64, Error> {
    Ok(Detection::new(inliers, outliers)?.detection_error())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metrics_with_ties_equal_hand_computed_values() {
        let detection = Detection::new(&[0.0, 1.0, 1.0], &[1.0, 2.0]).unwrap();
        assert_eq!(detection.curve(), [(0.0, 0.0), (0.0, 0.5), (2.0 / 3.0, 1.0), (1.0, 1.0)]);
        assert_eq!(detection.count_curve(), [0.0, 0.0, 1.0 / 3.0, 2.0 / 3.0, 1.0, 2.0]);
        // Half of the outliers at precision 1, the other half at 2/4.
        assert_eq!(detection.average_precision(), 0.75);
        assert_eq!(detection.detection_error(), 0.25);
        assert_eq!((detection.fpr_at_tpr(0.5), detection.fpr_at_tpr(0.95)), (0.0, 2.0 / 3.0));
    }

    #[test]
    fn the_threshold_above_all_scores_has_a_true_positive_rate_of_zero() {
        let detection = Detection::new(&[5.0], &[1.0]).unwrap();
        assert_eq!((detection.fpr_at_tpr(0.0), detection.fpr_at_tpr(0.01)), (0.0, 1.0));
        assert_eq!(detection.all_of(0.0, &[1, 1]), [0.0, 0.5, 0.0]);
    }

    #[test]
    fn metrics_with_row_counts_equal_those_of_repeated_rows() {
        let (inliers, outliers) = ([0.3, 0.7, 0.7, 2.0], [0.7, 1.0, 5.0]);
        let counts = [2, 0, 1, 3, 1, 2, 0];
        let repeat = |scores: &[f64], counts: &[usize]| -> Vec<f64> {
            scores.iter().zip(counts).flat_map(|(&score, &count)| vec![score; count]).collect()
        };
        let repeated =
            Detection::new(&repeat(&inliers, &counts[..4]), &repeat(&outliers, &counts[4..])).unwrap();
        let weighted = Detection::new(&inliers, &outliers).unwrap();
        let count = |row: u32| counts[row as usize] as f64;
        assert_eq!(weighted.roc_auc_of(&count), repeated.roc_auc());
        assert_eq!(weighted.average_precision_of(&count), repeated.average_precision());
        assert_eq!(weighted.fpr_at_tpr_of(0.95, &count), repeated.fpr_at_tpr(0.95));
        let all = [repeated.roc_auc(), repeated.average_precision(), repeated.fpr_at_tpr(0.6)];
        assert_eq!(weighted.all_of(0.6, &counts.map(|count| count as u16)), all);
    }
}
