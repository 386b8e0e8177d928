//! The dependence of the Gaussian score on the norm of a row.

use rayon::prelude::*;

use super::lanes::sq_norm_f32;
use crate::row_source::RowSource;

/// Rows per parallel task.
const ROWS_PER_TASK: usize = 1024;
/// Lower bound of row norms, relative to the median norm.
const MIN_RELATIVE_NORM: f64 = 1e-3;

/// The term `−d′ ln ‖x‖` of the Gaussian score.
///
/// `‖x‖` is the norm of the row itself; rows are not centered. In many dimensions a Gaussian is densest near its center, where
/// no row is. If the centers of the classes are near the origin, a row that is scaled towards the origin would have a higher
/// density than any training row. Relative to the scale-free measure `dx / ‖x‖^d′` the Gaussian is densest where rows are. The
/// coefficient of `ln ‖x‖` follows from Stein's identity: if the rows have the density `p` in `d` dimensions, the mean derivative of
/// `ln p` with respect to `ln ‖x‖` is `−d`. So `ln p + d ln ‖x‖` does not depend on the norm on average. Constant columns are not counted.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RadialCorrection {
    /// `d′`, the number of columns that are not constant.
    pub columns: usize,
    /// Lower bound of the norm of a row. Smaller norms are replaced by it.
    pub least_length: f64,
}

impl RadialCorrection {
    pub(crate) fn of(rows: &RowSource<'_>) -> Self {
        let (first, dim) = (rows.row(0), rows.dim());
        let differs = |mut varies: Vec<bool>, row: &[f32]| {
            varies.iter_mut().zip(row.iter().zip(first)).for_each(|(varies, (a, b))| *varies |= a != b);
            varies
        };
        let either = |mut a: Vec<bool>, b: Vec<bool>| {
            a.iter_mut().zip(b).for_each(|(a, b)| *a |= b);
            a
        };
        let values = || (0..rows.len()).into_par_iter().with_min_len(ROWS_PER_TASK).map(|i| rows.row(i));
        let varies = values().fold(|| vec![false; dim], differs).reduce(|| vec![false; dim], either);
        let mut norms: Vec<f64> = values().map(norm).collect();
        let middle = norms.len() / 2;
        let (_, median, _) = norms.select_nth_unstable_by(middle, f64::total_cmp);
        let least_length = (MIN_RELATIVE_NORM * *median).max(f64::MIN_POSITIVE);
        Self { columns: varies.iter().filter(|varies| **varies).count(), least_length }
    }

    /// `−ln p̂ − d′ ln ‖x‖` of a row from its log density or log mixture.
    pub(crate) fn score(&self, log_mixture: f64, row: &[f32]) -> f64 {
        -log_mixture - self.columns as f64 * norm(row).max(self.least_length).ln()
    }
}

fn norm(row: &[f32]) -> f64 {
    sq_norm_f32(row).sqrt()
}

#[cfg(test)]
mod tests {
    use nuq_neighbors::Embeddings;

    use super::*;

    #[test]
    fn constant_columns_are_not_counted_and_small_norms_are_clamped() {
        let rows = Embeddings::from_rows(&[[1.0, 7.0], [2.0, 7.0], [3.0, 7.0]]).unwrap();
        let correction = RadialCorrection::of(&(&rows).into());
        assert_eq!(correction.columns, 1);
        assert!((correction.least_length - 1e-3 * 53f64.sqrt()).abs() < 1e-12);
        assert_eq!(correction.score(0.0, &[0.0, 0.0]), correction.score(0.0, &[1e-9, 0.0]));
    }
}
