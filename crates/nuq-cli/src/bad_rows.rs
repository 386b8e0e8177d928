//! Rows that contain a NaN or an infinity.

use nuq_io::ArraySpec;

use crate::error::Error;

/// Largest number of rows that an error lists.
const LISTED: usize = 10;

/// The rows of a block that contain a NaN or an infinity.
pub(crate) fn find(values: &[f32], dim: usize) -> Vec<usize> {
    let is_bad = |row: &[f32]| row.iter().any(|v| !v.is_finite());
    values.chunks_exact(dim).enumerate().filter(|(_, row)| is_bad(row)).map(|(i, _)| i).collect()
}

/// The rows that are not in `bad`: their indices in the block, and their values. `bad` must be sorted.
pub(crate) fn remove(bad: &[usize], values: Vec<f32>, dim: usize) -> (Vec<usize>, Vec<f32>) {
    let good: Vec<usize> = (0..values.len() / dim).filter(|i| bad.binary_search(i).is_err()).collect();
    let values = match bad.is_empty() {
        true => values,
        false => good.iter().flat_map(|&i| values[i * dim..][..dim].to_vec()).collect(),
    };
    (good, values)
}

/// The error that lists the bad rows of a block and ends with `remedy`. The block begins at row `first` of the file.
pub(crate) fn error(spec: &ArraySpec, first: usize, bad: &[usize], remedy: &str) -> Error {
    let listed: Vec<String> = bad.iter().take(LISTED).map(|i| (first + i).to_string()).collect();
    let more = if bad.len() > LISTED { " and more" } else { "" };
    let listed = listed.join(", ");
    Error::Data(format!("{spec}: these rows contain a NaN or an infinity: {listed}{more}; {remedy}"))
}
