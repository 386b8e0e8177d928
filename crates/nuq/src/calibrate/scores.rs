//! Validation of scores.

use crate::Error;

/// Rejects an empty list and NaN; `what` names the scores in the error.
///
/// # Errors
/// [`Error::NoRows`] for an empty list, [`Error::NanScore`] for the first NaN.
pub fn check_scores(scores: &[f64], what: &'static str) -> Result<(), Error> {
    match scores.iter().position(|score| score.is_nan()) {
        _ if scores.is_empty() => Err(Error::NoRows { what }),
        Some(row) => Err(Error::NanScore { what, row }),
        None => Ok(()),
    }
}
