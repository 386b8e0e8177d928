//! Statements of rules that were chosen on training rows, for which no guarantee holds for new rows.

use std::fmt;

/// Returns `training_rows`, the number of training rows among the `rows` rows that a rule is chosen on, if they are a tenth or
/// more; otherwise 0. A smaller share can be due to equal rows in both sets.
#[must_use]
pub fn relevant_training_rows(training_rows: usize, rows: usize) -> usize {
    if 10 * training_rows >= rows.max(1) { training_rows } else { 0 }
}

/// Writes the first sentence of the statement of such a rule; nothing for held-out rows.
pub(super) fn write_sentence(f: &mut fmt::Formatter<'_>, training_rows: usize, rows: usize) -> fmt::Result {
    match training_rows {
        0 => Ok(()),
        _ => write!(
            f,
            "Chosen on training rows ({training_rows} of {rows}), so that the following is not guaranteed for new rows. "
        ),
    }
}

/// "held-out rows", "training rows", or "rows" if there are rows of both kinds, after a number.
pub(super) fn kind_of_rows(training_rows: usize, rows: usize) -> &'static str {
    match (training_rows, rows) {
        (0, 1) => "held-out row",
        (0, _) => "held-out rows",
        (1, 1) => "training row",
        _ if training_rows < rows => "rows",
        _ => "training rows",
    }
}
