//! Leave-one-out selection of a regressor's bandwidth.

use super::targets::Targets;
use crate::bandwidth::{CurvePoint, SelectionCurve};
use crate::leave_one_out::LeaveOneOut;

/// The leave-one-out score of a bandwidth of a regressor.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RegressionScore {
    /// The mean squared error of the left-out targets.
    pub squared_error: f64,
}

/// Scores every `h` of the grid and selects the one with the smallest error; among equal errors the largest `h`.
pub(super) fn select(
    table: &LeaveOneOut<'_>,
    grid: &[f64],
    targets: &Targets,
) -> SelectionCurve<RegressionScore> {
    let rows = table.rows.len();
    let sums = table.sums(grid, |_: &mut (), i, weights| {
        let (mean, _) = targets.moments(table.neighbors.ids(i), weights);
        [((targets.value(table.rows[i]) - mean) / targets.unit()).powi(2)]
    });
    // Errors are compared in units of the largest deviation of the targets, so that squares do not underflow.
    let chosen = (0..sums.len()).reduce(|best, i| if sums[i] <= sums[best] { i } else { best });
    let point = |(&bandwidth, [sum]): (&f64, &[f64; 1])| CurvePoint {
        bandwidth,
        score: RegressionScore { squared_error: sum / rows as f64 * targets.unit().powi(2) },
    };
    let points: Vec<CurvePoint<RegressionScore>> = grid.iter().zip(&sums).map(point).collect();
    SelectionCurve { chosen: chosen.expect("the grid is not empty"), points, rows }
}
