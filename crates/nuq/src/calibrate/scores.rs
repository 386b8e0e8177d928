//! Validation of scores and shares.

use crate::Error;
use crate::error::out_of_range;

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

/// Rejects a share that does not lie strictly between 0 and 1; `name` names it in the error.
pub(crate) fn check_share(name: &'static str, share: f64) -> Result<(), Error> {
    match share > 0.0 && share < 1.0 {
        true => Ok(()),
        false => Err(out_of_range(name, share, "it must lie strictly between 0 and 1")),
    }
}
