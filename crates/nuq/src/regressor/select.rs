//! Leave-one-out selection of a regressor's bandwidth.

use super::targets::Targets;
use crate::bandwidth::leave_one_out::LeaveOneOut;
use crate::bandwidth::{CurvePoint, SelectionCurve};

/// How a bandwidth predicted the targets of left-out training points.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RegressionScore {
    /// The mean squared error.
    pub squared_error: f64,
}

/// Scores every h of the grid and takes the one of the smallest error; among equals the widest.
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
    // Compared in units of the targets' spread, where no square vanishes.
    let chosen = (0..sums.len()).reduce(|best, i| if sums[i] <= sums[best] { i } else { best });
    let point = |(&bandwidth, [sum]): (&f64, &[f64; 1])| CurvePoint {
        bandwidth,
        score: RegressionScore { squared_error: sum / rows as f64 * targets.unit().powi(2) },
    };
    let points: Vec<CurvePoint<RegressionScore>> = grid.iter().zip(&sums).map(point).collect();
    SelectionCurve { chosen: chosen.expect("a grid has points"), points, rows }
}
