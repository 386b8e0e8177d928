//! Leave-one-out selection of a regressor's bandwidth.

use super::targets::Targets;
use crate::bandwidth::{CurvePoint, Selector};
use crate::leave_one_out::LeaveOneOut;

/// The leave-one-out score of a bandwidth of a regressor.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RegressionScore {
    /// The mean squared error of the left-out targets.
    pub squared_error: f64,
}

/// Selects the bandwidth with the smallest error, and the largest of several such bandwidths. Errors are in units of the largest
/// deviation of a target from the mean, so that squares do not underflow.
pub(super) struct RegressionSelector<'s> {
    pub(super) targets: &'s Targets,
}

impl Selector for RegressionSelector<'_> {
    type Score = f64;

    fn scores(&self, left_out: &LeaveOneOut<'_>, grid: &[f64]) -> Vec<f64> {
        let Self { targets } = *self;
        let total = left_out.total_weight();
        let sums = left_out.sums(grid, |_: &mut (), i, weights| {
            let (mean, _) = targets.moments(left_out.neighbors.ids(i), weights);
            [((targets.value(left_out.rows[i]) - mean) / targets.unit()).powi(2)]
        });
        sums.into_iter().map(|[sum]| sum / total).collect()
    }

    fn choose(&self, points: &[CurvePoint<f64>], _rows: usize) -> usize {
        let best =
            (0..points.len()).reduce(|best, i| if points[i].score <= points[best].score { i } else { best });
        best.expect("the grid is not empty")
    }
}
