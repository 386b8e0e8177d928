//! Conformal p-values and the control of false alarms in a batch.

use super::{check_scores, check_share};
use crate::Error;
use crate::error::out_of_range;

/// The conformal p-value of each score: `(1 + #{i : s_i ≥ s}) / (n + 1)` with calibration scores `s_i`.
///
/// For rows of the same distribution as the calibration rows, a p-value is at most `α` with probability at most `α`,
/// whatever this distribution is (Vovk et al. 2005; Bates et al. 2023).
///
/// ```
/// use nuq::calibrate::conformal_p_values;
/// assert_eq!(conformal_p_values(&[1.0, 2.0, 3.0], &[0.0, 3.0, 9.0])?, [1.0, 0.5, 0.25]);
/// # Ok::<(), nuq::Error>(())
/// ```
///
/// # Errors
/// [`Error::NoRows`] without calibration scores, [`Error::NanScore`] for NaN.
pub fn conformal_p_values(calibration: &[f64], scores: &[f64]) -> Result<Vec<f64>, Error> {
    check_scores(calibration, "calibration scores")?;
    if let Some(row) = scores.iter().position(|score| score.is_nan()) {
        return Err(Error::NanScore { what: "scores", row });
    }
    let mut sorted = calibration.to_vec();
    sorted.sort_by(f64::total_cmp);
    let n = sorted.len();
    let p_value = |score: f64| {
        let below = sorted.partition_point(|&held_out| held_out < score);
        (1 + n - below) as f64 / (n + 1) as f64
    };
    Ok(scores.iter().map(|&score| p_value(score)).collect())
}

/// Marks the p-values of a batch that are alarms, such that the expected share of false alarms among all alarms is at
/// most `level` (Benjamini and Hochberg 1995). This also holds for conformal p-values that use the same calibration
/// rows (Bates et al. 2023).
///
/// ```
/// use nuq::calibrate::benjamini_hochberg;
/// // The sorted p-values 0.01, 0.03, 0.2, 0.9 have the bounds 0.025, 0.05, 0.075, 0.1: the first two are alarms.
/// assert_eq!(benjamini_hochberg(&[0.03, 0.9, 0.01, 0.2], 0.1)?, [true, false, true, false]);
/// # Ok::<(), nuq::Error>(())
/// ```
///
/// # Errors
/// [`Error::OutOfRange`] for a level outside (0, 1) or a p-value outside [0, 1].
pub fn benjamini_hochberg(p_values: &[f64], level: f64) -> Result<Vec<bool>, Error> {
    check_share("level", level)?;
    if let Some(&p) = p_values.iter().find(|p| !(0.0..=1.0).contains(*p)) {
        return Err(out_of_range("p_values", p, "it must lie in [0, 1]"));
    }
    let mut sorted = p_values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let line = |rank: usize| level * (rank + 1) as f64 / p_values.len() as f64;
    let last = (0..sorted.len()).rev().find(|&rank| sorted[rank] <= line(rank));
    Ok(p_values.iter().map(|&p| last.is_some_and(|rank| p <= sorted[rank])).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn p_values_up_to_the_largest_one_within_its_bound_are_alarms() {
        assert_eq!(benjamini_hochberg(&[0.06, 0.07], 0.07).unwrap(), [true, true]);
        assert_eq!(benjamini_hochberg(&[0.06, 0.08], 0.07).unwrap(), [false, false]);
        assert!(benjamini_hochberg(&[], 0.1).unwrap().is_empty());
    }

    #[test]
    fn nan_no_calibration_scores_and_a_level_of_one_are_errors() {
        assert!(matches!(conformal_p_values(&[], &[1.0]), Err(Error::NoRows { .. })));
        assert!(matches!(conformal_p_values(&[1.0], &[f64::NAN]), Err(Error::NanScore { row: 0, .. })));
        assert!(benjamini_hochberg(&[f64::NAN], 0.1).is_err());
        assert!(benjamini_hochberg(&[0.1], 1.0).is_err());
    }
}
