//! Telling outliers from inliers by a score that should be higher for outliers.
//!
//! With inlier scores $a_i$ and outlier scores $b_j$, a threshold $t$ calls a row an outlier when its score exceeds $t$:
//!
//! - ROC-AUC $= \Pr(b > a) + \tfrac12 \Pr(b = a)$, the area under detections against false alarms.
//! - Average precision $= \sum_t (R_t - R_{t'})\, P_t$ over thresholds from the highest down, with precision $P$ and recall $R$.
//! - FPR at TPR $r$: the smallest share of false alarms among thresholds that find at least the share $r$ of outliers.
//! - Detection error: the smallest mean of misses and false alarms over all thresholds.

use super::ranked::Ranked;
use crate::Error;
use nuq::calibrate::check_scores;

/// Scores of inliers and outliers, sorted once.
///
/// ```
/// use nuq_eval::metrics::Detection;
/// let found = Detection::new(&[0.1, 0.2, 0.4], &[0.3, 0.9])?;
/// assert_eq!(found.roc_auc(), 5.0 / 6.0); // of six pairs one is in the wrong order
/// assert_eq!(found.fpr_at_tpr(0.95), 1.0 / 3.0);
/// # Ok::<(), nuq_eval::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Detection {
    /// Inliers are numbered first.
    ranked: Ranked,
    inliers: usize,
}

/// Inliers and outliers with one score, how often each is counted.
struct Group {
    inliers: f64,
    outliers: f64,
}

impl Detection {
    /// Sorts the scores; NaN and empty sets are refused.
    pub fn new(inliers: &[f64], outliers: &[f64]) -> Result<Self, Error> {
        check_scores(inliers, "inlier scores")?;
        check_scores(outliers, "outlier scores")?;
        let scores = [inliers, outliers].concat();
        Ok(Self { ranked: Ranked::new(&scores, "scores")?, inliers: inliers.len() })
    }

    /// The numbers of inliers and outliers: the strata of [`Resampling::draws`](super::Resampling::draws).
    pub fn strata(&self) -> [usize; 2] {
        [self.inliers, self.ranked.len() - self.inliers]
    }

    /// The chance that an outlier scores above an inlier, ties counting half.
    pub fn roc_auc(&self) -> f64 {
        self.roc_auc_of(&|_| 1.0)
    }

    /// Average precision of finding outliers.
    pub fn average_precision(&self) -> f64 {
        self.average_precision_of(&|_| 1.0)
    }

    /// Average precision of finding inliers by low scores.
    pub fn average_precision_of_inliers(&self) -> f64 {
        let (inliers, _) = self.totals(&|_| 1.0);
        precision(self.groups(&|_| 1.0).map(|group| (group.inliers, group.outliers)), inliers)
    }

    /// The smallest share of false alarms at which at least the share `tpr` of the outliers is found.
    pub fn fpr_at_tpr(&self, tpr: f64) -> f64 {
        self.fpr_at_tpr_of(tpr, &|_| 1.0)
    }

    /// The smallest mean of misses and false alarms.
    pub fn detection_error(&self) -> f64 {
        let half = |(fpr, tpr): &(f64, f64)| 0.5 * (1.0 - tpr + fpr);
        self.curve().iter().map(half).fold(0.5, f64::min)
    }

    /// The ROC curve: false alarms and detections at every threshold, from (0, 0) to (1, 1).
    pub fn curve(&self) -> Vec<(f64, f64)> {
        let (inliers, outliers) = self.totals(&|_| 1.0);
        let (mut false_alarms, mut found) = (0.0, 0.0);
        let steps = self.groups(&|_| 1.0).rev().map(|group| {
            false_alarms += group.inliers;
            found += group.outliers;
            (false_alarms / inliers, found / outliers)
        });
        std::iter::once((0.0, 0.0)).chain(steps).collect()
    }

    /// How many outliers there are among the `k` rows of lowest score, for each `k` from 0 to all rows.
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

    /// ROC-AUC when row `i` (inliers first) counts `count(i)` times.
    pub(crate) fn roc_auc_of(&self, count: &impl Fn(u32) -> f64) -> f64 {
        let (mut below, mut won) = (0.0, 0.0);
        for Group { inliers, outliers } in self.groups(count) {
            won += outliers * (below + 0.5 * inliers);
            below += inliers;
        }
        let (inliers, outliers) = self.totals(count);
        won / (inliers * outliers)
    }

    pub(crate) fn average_precision_of(&self, count: &impl Fn(u32) -> f64) -> f64 {
        let (_, outliers) = self.totals(count);
        precision(self.groups(count).rev().map(|group| (group.outliers, group.inliers)), outliers)
    }

    pub(crate) fn fpr_at_tpr_of(&self, tpr: f64, count: &impl Fn(u32) -> f64) -> f64 {
        let (inliers, outliers) = self.totals(count);
        let (mut false_alarms, mut found) = (0.0, 0.0);
        for group in self.groups(count).rev() {
            false_alarms += group.inliers;
            found += group.outliers;
            if found / outliers >= tpr {
                break;
            }
        }
        false_alarms / inliers
    }

    /// ROC-AUC, average precision and FPR at a TPR when row `i` counts `counts[i]` times, in one pass from the highest score down:
    /// nearly all of a comparison's resampling is this.
    pub(crate) fn all_of(&self, tpr: f64, counts: &[u16]) -> [f64; 3] {
        let total = |counts: &[u16]| counts.iter().map(|&count| u32::from(count)).sum::<u32>();
        let (inliers, outliers) = counts.split_at(self.inliers);
        let (inliers, outliers) = (f64::from(total(inliers)), f64::from(total(outliers)));
        let (mut found, mut false_alarms) = (0u32, 0u32);
        let (mut won, mut precision, mut at_tpr) = (0.0, 0.0, None);
        for rows in self.ranked.groups().rev() {
            let (mut all, mut good) = (0, 0);
            for &row in rows {
                let count = u32::from(counts[row as usize]);
                all += count;
                good += count * u32::from(row as usize >= self.inliers);
            }
            // Those above lost nothing to these inliers, and those beside them half.
            won += f64::from(all - good) * (f64::from(found) + 0.5 * f64::from(good));
            found += good;
            false_alarms += all - good;
            if good > 0 {
                precision +=
                    f64::from(good) / outliers * (f64::from(found) / f64::from(found + false_alarms));
                if at_tpr.is_none() && f64::from(found) / outliers >= tpr {
                    at_tpr = Some(f64::from(false_alarms) / inliers);
                }
            }
        }
        [won / (inliers * outliers), precision, at_tpr.unwrap_or(1.0)]
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

/// Average precision from groups of (wanted, unwanted), the first to be found first.
fn precision(groups: impl Iterator<Item = (f64, f64)>, wanted: f64) -> f64 {
    let (mut found, mut seen, mut sum) = (0.0, 0.0, 0.0);
    for (good, bad) in groups {
        found += good;
        seen += good + bad;
        if good > 0.0 {
            sum += good / wanted * (found / seen);
        }
    }
    sum
}

/// The chance that an outlier scores above an inlier, ties counting half.
///
/// ```
/// assert_eq!(nuq_eval::metrics::roc_auc(&[1.0, 2.0], &[2.0, 3.0])?, 0.875); // 3.5 of 4 pairs
/// # Ok::<(), nuq_eval::Error>(())
/// ```
pub fn roc_auc(inliers: &[f64], outliers: &[f64]) -> Result<f64, Error> {
    Ok(Detection::new(inliers, outliers)?.roc_auc())
}

/// Average precision of finding outliers by high scores.
pub fn average_precision(inliers: &[f64], outliers: &[f64]) -> Result<f64, Error> {
    Ok(Detection::new(inliers, outliers)?.average_precision())
}

/// The smallest share of false alarms at which at least the share `tpr` of the outliers is found.
pub fn fpr_at_tpr(inliers: &[f64], outliers: &[f64], tpr: f64) -> Result<f64, Error> {
    if !(tpr > 0.0 && tpr <= 1.0) {
        return Err(crate::error::out_of_range("true-positive rate", tpr, "it must lie in (0, 1]"));
    }
    Ok(Detection::new(inliers, outliers)?.fpr_at_tpr(tpr))
}

/// The smallest mean of misses and false alarms over all thresholds.
pub fn detection_error(inliers: &[f64], outliers: &[f64]) -> Result<f64, Error> {
    Ok(Detection::new(inliers, outliers)?.detection_error())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ties_by_hand() {
        let found = Detection::new(&[0.0, 1.0, 1.0], &[1.0, 2.0]).unwrap();
        assert_eq!(found.curve(), [(0.0, 0.0), (0.0, 0.5), (2.0 / 3.0, 1.0), (1.0, 1.0)]);
        assert_eq!(found.count_curve(), [0.0, 0.0, 1.0 / 3.0, 2.0 / 3.0, 1.0, 2.0]);
        // Half the outliers at precision 1, the other half at 2/4.
        assert_eq!(found.average_precision(), 0.75);
        assert_eq!(found.detection_error(), 0.25);
        assert_eq!((found.fpr_at_tpr(0.5), found.fpr_at_tpr(0.95)), (0.0, 2.0 / 3.0));
    }

    #[test]
    fn counts_stand_for_repeated_rows() {
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
