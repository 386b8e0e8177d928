//! The test of drift: a conformal test martingale.

use numpy::PyReadonlyArray1;
use nuq::DriftMonitor;
use pyo3::prelude::*;

use crate::arrays::column;
use crate::errors::Failure;

/// The logarithm of the wealth (the value of the martingale) after each score, and the position (from 0) of the row with the first alarm;
/// `None` without an alarm.
#[pyfunction]
pub(crate) fn martingale<'py>(
    py: Python<'py>,
    held_out: PyReadonlyArray1<'_, f64>,
    scores: PyReadonlyArray1<'_, f64>,
    alpha: f64,
    seed: u64,
) -> PyResult<(Bound<'py, PyAny>, Option<u64>)> {
    let (held_out, scores) = (held_out.as_slice()?, scores.as_slice()?);
    let (log_wealth, alarm) =
        py.detach(|| wealth_by_row(held_out, scores, alpha, seed)).map_err(Failure::from)?;
    Ok((column(py, &log_wealth).into_any(), alarm))
}

fn wealth_by_row(
    held_out: &[f64],
    scores: &[f64],
    alpha: f64,
    seed: u64,
) -> Result<(Vec<f64>, Option<u64>), nuq::Error> {
    let mut monitor = DriftMonitor::new(held_out, alpha, seed)?;
    let log_wealth: Result<Vec<f64>, nuq::Error> =
        scores.iter().map(|score| monitor.update(*score).map(|_| monitor.log_wealth())).collect();
    Ok((log_wealth?, monitor.alarm()))
}
