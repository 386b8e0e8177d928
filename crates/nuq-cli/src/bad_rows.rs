//! Rows that hold a NaN or an infinity: found, named, or left aside.

use nuq_io::ArraySpec;

use crate::error::Error;

/// Rows that an error names.
const NAMED: usize = 10;

/// The rows of a block that no model can use.
pub(crate) fn find(values: &[f32], dim: usize) -> Vec<usize> {
    let is_bad = |row: &[f32]| row.iter().any(|v| !v.is_finite());
    values.chunks_exact(dim).enumerate().filter(|(_, row)| is_bad(row)).map(|(i, _)| i).collect()
}

/// The rows that are left, and their values.
pub(crate) fn leave_out(bad: &[usize], values: Vec<f32>, dim: usize) -> (Vec<usize>, Vec<f32>) {
    let good: Vec<usize> = (0..values.len() / dim).filter(|i| bad.binary_search(i).is_err()).collect();
    let kept = match bad.is_empty() {
        true => values,
        false => good.iter().flat_map(|&i| values[i * dim..][..dim].to_vec()).collect(),
    };
    (good, kept)
}

/// Names bad rows of a block that begins at row `first`, and says what to do.
pub(crate) fn refusal(spec: &ArraySpec, first: usize, bad: &[usize], remedy: &str) -> Error {
    let named: Vec<String> = bad.iter().take(NAMED).map(|i| (first + i).to_string()).collect();
    let more = if bad.len() > NAMED { " and more" } else { "" };
    let named = named.join(", ");
    Error::Data(format!("{spec}: rows that hold a NaN or an infinity: {named}{more}; {remedy}"))
}
