//! Metrics of probabilities, and agreement of two models.

use crate::Error;
use crate::error::length_mismatch;

fn check_lengths(
    what: &'static str,
    got: usize,
    counterpart: &'static str,
    expected: usize,
) -> Result<(), Error> {
    match (got, expected) {
        (_, 0) => Err(nuq::Error::NoRows { what: counterpart }.into()),
        _ if got != expected => Err(length_mismatch(what, got, counterpart, expected)),
        _ => Ok(()),
    }
}

fn check_probabilities(values: &[f64]) -> Result<(), Error> {
    // Rounding errors may make a probability slightly larger than 1.
    match values.iter().find(|p| !(0.0..=1.0 + 1e-9).contains(*p)) {
        Some(&value) => Err(crate::error::out_of_range("probability", value, "it must lie in [0, 1]")),
        None => Ok(()),
    }
}

/// Expected calibration error (Naeini et al. 2015): the absolute difference between mean confidence and accuracy in
/// each of `bins` bins of equal width, averaged over the bins with their numbers of rows as weights.
///
/// ```
/// // Confidence 0.9 on four rows, of which three are predicted correctly.
/// let error = nuq_eval::metrics::calibration_error(&[0.9; 4], &[true, true, true, false], 15)?;
/// assert!((error - 0.15).abs() < 1e-12);
/// # Ok::<(), nuq_eval::Error>(())
/// ```
///
/// # Errors
/// No rows, unequal lengths, confidences outside [0, 1], or zero bins.
pub fn calibration_error(confidence: &[f64], is_correct: &[bool], bins: usize) -> Result<f64, Error> {
    check_lengths("correctness flags", is_correct.len(), "confidences", confidence.len())?;
    check_probabilities(confidence)?;
    if bins == 0 {
        return Err(crate::error::out_of_range("bins", 0.0, "at least one is needed"));
    }
    // Bins are half-open, (low, high], so that 1 is in the last bin.
    let bin = |p: f64| ((p * bins as f64).ceil() as usize).clamp(1, bins) - 1;
    let mut gap = vec![0.0; bins];
    for (&p, &correct) in confidence.iter().zip(is_correct) {
        gap[bin(p)] += p - f64::from(u8::from(correct));
    }
    Ok(gap.iter().map(|gap| gap.abs()).sum::<f64>() / confidence.len() as f64)
}

/// Mean negative log probability of the true classes; infinite if the probability of a true class is zero. `probabilities` is
/// row-major, with `classes` columns.
///
/// # Errors
/// No rows, unequal lengths, probabilities outside [0, 1], or a class out of range.
pub fn negative_log_likelihood(probabilities: &[f64], classes: usize, truth: &[u32]) -> Result<f64, Error> {
    let rows = rows_of(probabilities, classes, truth)?;
    Ok(rows.map(|(row, truth)| -row[truth].ln()).sum::<f64>() / truth.len() as f64)
}

/// Squared difference between the probabilities and the one-hot true classes, summed over classes and averaged over
/// rows; between 0 and 2 if the probabilities of each row sum to 1.
///
/// # Errors
/// No rows, unequal lengths, probabilities outside [0, 1], or a class out of range.
pub fn brier_score(probabilities: &[f64], classes: usize, truth: &[u32]) -> Result<f64, Error> {
    let rows = rows_of(probabilities, classes, truth)?;
    let row_score = |(row, truth): (&[f64], usize)| -> f64 {
        row.iter().enumerate().map(|(class, p)| (p - f64::from(u8::from(class == truth))).powi(2)).sum()
    };
    Ok(rows.map(row_score).sum::<f64>() / truth.len() as f64)
}

/// The rows of probabilities with their true classes.
fn rows_of<'p>(
    probabilities: &'p [f64],
    classes: usize,
    truth: &'p [u32],
) -> Result<impl Iterator<Item = (&'p [f64], usize)>, Error> {
    let rows = probabilities.len().checked_div(classes).unwrap_or(0);
    check_lengths("true classes", truth.len(), "rows of probabilities", rows)?;
    check_lengths("probabilities", probabilities.len(), "pairs of a row and a class", rows * classes)?;
    check_probabilities(probabilities)?;
    if let Some(&class) = truth.iter().find(|class| **class as usize >= classes) {
        let range = "it must be below the number of classes";
        return Err(crate::error::out_of_range("true class", f64::from(class), range));
    }
    Ok(probabilities.chunks_exact(classes).zip(truth.iter().map(|class| *class as usize)))
}

/// Agreement of two models.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Agreement {
    /// The share of rows with the same prediction.
    pub share: f64,
    /// The mean rank by uncertainty, in [0, 1], of the rows on which the models disagree; `None` if they agree on all
    /// rows.
    pub percentile_of_disagreements: Option<f64>,
}

/// Compares predicted classes with those of another model, for example of the network. It is desired that the models disagree only on rows
/// with a high uncertainty.
///
/// ```
/// let agreement = nuq_eval::metrics::agreement(&[0, 1, 1, 0], &[0, 1, 1, 1], &[0.1, 0.2, 0.3, 0.4])?;
/// assert_eq!((agreement.share, agreement.percentile_of_disagreements), (0.75, Some(0.875)));
/// # Ok::<(), nuq_eval::Error>(())
/// ```
///
/// # Errors
/// No rows, unequal lengths, or NaN.
pub fn agreement(ours: &[u32], base: &[u32], uncertainty: &[f64]) -> Result<Agreement, Error> {
    check_lengths("predictions of the base model", base.len(), "predictions", ours.len())?;
    check_lengths("uncertainties", uncertainty.len(), "predictions", ours.len())?;
    let ranked = super::ranked::Ranked::new(uncertainty, "uncertainties")?;
    let rows = ours.len() as f64;
    let (mut before, mut differ, mut sum) = (0.0, 0.0, 0.0);
    for group in ranked.groups() {
        let size = group.len() as f64;
        let disagreements =
            group.iter().filter(|&&row| ours[row as usize] != base[row as usize]).count() as f64;
        differ += disagreements;
        sum += disagreements * (before + 0.5 * size) / rows;
        before += size;
    }
    Ok(Agreement {
        share: 1.0 - differ / rows,
        percentile_of_disagreements: (differ > 0.0).then(|| sum / differ),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn likelihood_and_brier_score_equal_hand_computed_values() {
        let p = [0.5, 0.5, 0.25, 0.75];
        let nll = negative_log_likelihood(&p, 2, &[0, 1]).unwrap();
        assert!((nll - (2f64.ln() - 0.75f64.ln()) / 2.0).abs() < 1e-15);
        assert!((brier_score(&p, 2, &[0, 1]).unwrap() - (0.5 + 0.125) / 2.0).abs() < 1e-15);
        assert_eq!(negative_log_likelihood(&[0.0, 1.0], 2, &[0]).unwrap(), f64::INFINITY);
    }

    #[test]
    fn invalid_probabilities_and_classes_are_rejected() {
        assert!(calibration_error(&[f64::NAN], &[true], 15).is_err());
        assert!(brier_score(&[0.5, 1.5], 2, &[0]).is_err());
        assert!(brier_score(&[0.5, 0.5], 2, &[2]).is_err());
        assert!(brier_score(&[0.5, 0.5, 0.1], 2, &[0]).is_err());
        let empty = nuq::Error::NoRows { what: "rows of probabilities" };
        assert_eq!(negative_log_likelihood(&[], 2, &[]), Err(empty.into()));
    }
}
