//! How honest probabilities are, and whom to believe where two models disagree.

use crate::Error;
use crate::error::length_mismatch;

fn paired(what: &'static str, got: usize, beside: &'static str, expected: usize) -> Result<(), Error> {
    match (got, expected) {
        (_, 0) => Err(nuq::Error::NoRows { what: beside }.into()),
        _ if got != expected => Err(length_mismatch(what, got, beside, expected)),
        _ => Ok(()),
    }
}

fn check_probabilities(values: &[f64]) -> Result<(), Error> {
    match values.iter().find(|p| !(0.0..=1.0 + 1e-9).contains(*p)) {
        Some(&value) => Err(crate::error::out_of_range("probability", value, "it must lie in [0, 1]")),
        None => Ok(()),
    }
}

/// Expected calibration error (Naeini et al. 2015): the mean over rows of the gap between confidence and accuracy in the
/// row's bin, of `bins` equally wide ones.
///
/// ```
/// // Said 0.9 four times and was right three times.
/// let error = nuq_eval::metrics::calibration_error(&[0.9; 4], &[true, true, true, false], 15)?;
/// assert!((error - 0.15).abs() < 1e-12);
/// # Ok::<(), nuq_eval::Error>(())
/// ```
pub fn calibration_error(confidence: &[f64], is_right: &[bool], bins: usize) -> Result<f64, Error> {
    paired("right or wrong answers", is_right.len(), "confidences", confidence.len())?;
    check_probabilities(confidence)?;
    if bins == 0 {
        return Err(crate::error::out_of_range("bins", 0.0, "at least one is needed"));
    }
    // Each bin holds what lies above its lower end, up to and including its upper end: 1 is in the last one.
    let bin = |p: f64| ((p * bins as f64).ceil() as usize).clamp(1, bins) - 1;
    let mut gap = vec![0.0; bins];
    for (&p, &right) in confidence.iter().zip(is_right) {
        gap[bin(p)] += p - f64::from(u8::from(right));
    }
    Ok(gap.iter().map(|gap| gap.abs()).sum::<f64>() / confidence.len() as f64)
}

/// Mean negative log of the probability that each row's true class was given: `inf` where one was called impossible.
/// `probabilities` holds `classes` per row, row after row.
pub fn negative_log_likelihood(probabilities: &[f64], classes: usize, truth: &[u32]) -> Result<f64, Error> {
    let rows = rows_of(probabilities, classes, truth)?;
    Ok(rows.map(|(row, truth)| -row[truth].ln()).sum::<f64>() / truth.len() as f64)
}

/// Mean squared distance of the probabilities from the truth, summed over classes: between 0 and 2.
pub fn brier_score(probabilities: &[f64], classes: usize, truth: &[u32]) -> Result<f64, Error> {
    let rows = rows_of(probabilities, classes, truth)?;
    let of_row = |(row, truth): (&[f64], usize)| -> f64 {
        row.iter().enumerate().map(|(class, p)| (p - f64::from(u8::from(class == truth))).powi(2)).sum()
    };
    Ok(rows.map(of_row).sum::<f64>() / truth.len() as f64)
}

/// Rows of probabilities, each with its true class.
fn rows_of<'p>(
    probabilities: &'p [f64],
    classes: usize,
    truth: &'p [u32],
) -> Result<impl Iterator<Item = (&'p [f64], usize)>, Error> {
    let rows = probabilities.len().checked_div(classes).unwrap_or(0);
    paired("true classes", truth.len(), "rows of probabilities", rows)?;
    check_probabilities(probabilities)?;
    if let Some(&class) = truth.iter().find(|class| **class as usize >= classes) {
        let range = "it must be below the number of classes";
        return Err(crate::error::out_of_range("true class", f64::from(class), range));
    }
    Ok(probabilities.chunks_exact(classes).zip(truth.iter().map(|class| *class as usize)))
}

/// How often two models agree, and where they do not.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Agreement {
    /// The share of rows with the same prediction.
    pub share: f64,
    /// The mean percentile, in [0, 1], of the disagreements by uncertainty among all rows; `None` without any.
    pub percentile_of_disagreements: Option<f64>,
}

/// Compares predicted classes with those of a base model: disagreements should be among the uncertain rows.
///
/// ```
/// let found = nuq_eval::metrics::agreement(&[0, 1, 1, 0], &[0, 1, 1, 1], &[0.1, 0.2, 0.3, 0.4])?;
/// assert_eq!((found.share, found.percentile_of_disagreements), (0.75, Some(0.875)));
/// # Ok::<(), nuq_eval::Error>(())
/// ```
pub fn agreement(ours: &[u32], base: &[u32], uncertainty: &[f64]) -> Result<Agreement, Error> {
    paired("predictions of the base model", base.len(), "predictions", ours.len())?;
    paired("uncertainties", uncertainty.len(), "predictions", ours.len())?;
    let ranked = super::ranked::Ranked::new(uncertainty, "uncertainties")?;
    let rows = ours.len() as f64;
    let (mut before, mut differ, mut sum) = (0.0, 0.0, 0.0);
    for group in ranked.groups() {
        let size = group.len() as f64;
        let here = group.iter().filter(|&&row| ours[row as usize] != base[row as usize]).count() as f64;
        differ += here;
        sum += here * (before + 0.5 * size) / rows;
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
    fn likelihood_and_brier_by_hand() {
        let p = [0.5, 0.5, 0.25, 0.75];
        let nll = negative_log_likelihood(&p, 2, &[0, 1]).unwrap();
        assert!((nll - (2f64.ln() - 0.75f64.ln()) / 2.0).abs() < 1e-15);
        assert!((brier_score(&p, 2, &[0, 1]).unwrap() - (0.5 + 0.125) / 2.0).abs() < 1e-15);
        assert_eq!(negative_log_likelihood(&[0.0, 1.0], 2, &[0]).unwrap(), f64::INFINITY);
    }

    #[test]
    fn what_is_no_probability_is_refused() {
        assert!(calibration_error(&[f64::NAN], &[true], 15).is_err());
        assert!(brier_score(&[0.5, 1.5], 2, &[0]).is_err());
        assert!(brier_score(&[0.5, 0.5], 2, &[2]).is_err());
        assert_eq!(
            negative_log_likelihood(&[], 2, &[]).unwrap_err().to_string(),
            "no rows of probabilities: at least one is needed"
        );
    }
}
