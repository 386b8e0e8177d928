//! Softmax regression with a ridge penalty: the weights `β` that minimize `−w Σ_i ln softmax(βᵀ φ_i)_{y_i} + (r/2) ‖β‖²`.
//! `φ_i` and `y_i` are the features and the class of training row `i`, `w` is the weight of each row, and `r` is the ridge factor.
//!
//! The function is strongly convex. A point with gradient `g` has a distance of at most `‖g‖ / r` from the minimum. The
//! Hessian block of each class is bounded by `½ w Σ_i φ_i φ_iᵀ + r I` (Böhning 1992). This bound is the preconditioner
//! of a first, approximate minimization by L-BFGS. The preconditioner of the second minimization is an approximation of the Hessian
//! at the result of the first.

use faer::linalg::matmul::matmul;
use faer::linalg::solvers::{Llt, Solve};
use faer::{Accum, ColMut, ColRef, Mat, MatRef, Par, Side};
use nuq_neighbors::cancel::{Checkpoint, ParallelCheckpoints, checkpoint};
use rayon::prelude::*;

use super::lbfgs::{Objective, minimize};
use super::softmax::{argmax, complement, log_sum_exp, softmax};

/// Objective of the regression.
pub(super) struct SoftmaxRegression<'f> {
    /// One column per training row.
    features: MatRef<'f, f64>,
    /// The class of each training row.
    class_of_row: &'f [u32],
    classes: usize,
    /// `w`, the weight of each row; more than 1 if the rows are a sample.
    row_weight: f64,
    /// `r`, the factor of the ridge penalty.
    ridge: f64,
    /// Cholesky factor of an approximation of the Hessian block of each class.
    curvature: Llt<f64>,
}

/// Number of row ranges whose sums are computed in parallel and added in order. It is a constant, so that the result does not
/// depend on the number of threads.
const TASKS: usize = 16;
/// Number of rows per matrix product.
const CHUNK: usize = 256;
/// Number of features per task of the Gram matrix.
const PANEL: usize = 128;
/// Norm of the gradient at which the second minimization stops, divided by the ridge factor. It is an upper bound of the
/// distance between the weights and the minimum.
const TOLERANCE: f64 = 1e-3;
/// Norm of the gradient at which the first minimization stops, divided by the ridge factor and by the square root of
/// the total weight of the rows. After this minimization the curvature is updated.
const ROUGH_TOLERANCE: f64 = 0.15;

impl<'f> SoftmaxRegression<'f> {
    /// The weights, one column per class; `None` if a curvature matrix is not positive definite.
    pub(super) fn fit(
        features: MatRef<'f, f64>,
        class_of_row: &'f [u32],
        classes: usize,
        row_weight: f64,
        ridge: f64,
    ) -> Option<Mat<f64>> {
        let factor = |weights: &[f64]| weighted_gram(features, weights, ridge).llt(Side::Lower).ok();
        let curvature = factor(&vec![0.5 * row_weight; class_of_row.len()])?;
        let mut regression = Self { features, class_of_row, classes, row_weight, ridge, curvature };
        let start = Mat::zeros(features.nrows(), classes);
        let rough = minimize(
            &regression,
            start,
            ROUGH_TOLERANCE * ridge * (row_weight * class_of_row.len() as f64).sqrt(),
        );
        // The bound is much too large for rows with a probability near one: replace it by the curvature at the
        // approximate weights.
        let variances: Vec<f64> =
            max_prob_variances(features, &rough).iter().map(|variance| row_weight * variance).collect();
        regression.curvature = factor(&variances)?;
        Some(minimize(&regression, rough, TOLERANCE * ridge))
    }

    /// The loss of rows `first..last`, and its gradient.
    fn partial_loss(&self, weights: &Mat<f64>, first: usize, last: usize) -> (f64, Mat<f64>) {
        let (mut loss, mut gradient) = (0.0, Mat::zeros(weights.nrows(), self.classes));
        for from in (first..last).step_by(CHUNK) {
            checkpoint();
            let phi = self.features.subcols(from, CHUNK.min(last - from));
            let mut z: Mat<f64> = Mat::zeros(self.classes, phi.ncols());
            matmul(&mut z, Accum::Replace, weights.transpose(), phi, 1.0, Par::Seq);
            for (column, &class) in z.col_iter_mut().zip(&self.class_of_row[from..]) {
                loss += self.row_weight * replace_by_residual(column, class as usize);
            }
            matmul(&mut gradient, Accum::Add, phi, z.transpose(), self.row_weight, Par::Seq);
        }
        (loss, gradient)
    }
}

/// Replaces the logits of a row by the gradient of its loss, `p_c − [c = y]`, and returns the loss.
fn replace_by_residual(logits: ColMut<'_, f64>, class: usize) -> f64 {
    let mut row: Vec<f64> = logits.as_ref().iter().copied().collect();
    let true_logit = row[class];
    let loss = log_sum_exp(&row) - true_logit;
    row = softmax(&row);
    row[class] -= 1.0;
    logits.iter_mut().zip(row).for_each(|(z, r)| *z = r);
    loss
}

impl Objective for SoftmaxRegression<'_> {
    fn at(&self, weights: &Mat<f64>) -> (f64, Mat<f64>) {
        let rows = self.class_of_row.len();
        let length = rows.div_ceil(TASKS).max(1);
        let here = Checkpoint::current();
        let part = |i: usize| self.partial_loss(weights, i * length, rows.min((i + 1) * length));
        let parts: Vec<(f64, Mat<f64>)> =
            (0..rows.div_ceil(length)).into_par_iter().map(|i| here.enter(|| part(i))).collect();
        let mut loss = 0.5 * self.ridge * weights.squared_norm_l2();
        let mut gradient = faer::Scale(self.ridge) * weights;
        for (part_loss, part_gradient) in parts {
            loss += part_loss;
            gradient += part_gradient;
        }
        (loss, gradient)
    }

    fn precondition(&self, gradient: &Mat<f64>) -> Mat<f64> {
        self.curvature.solve(gradient)
    }
}

/// `p̂_i (1 − p̂_i)` of each training row, with its largest probability `p̂_i`.
pub(super) fn max_prob_variances(phi: MatRef<'_, f64>, weights: &Mat<f64>) -> Vec<f64> {
    let variances = |first: usize| {
        let phi = phi.subcols(first, CHUNK.min(phi.ncols() - first));
        let mut z: Mat<f64> = Mat::zeros(weights.ncols(), phi.ncols());
        matmul(&mut z, Accum::Replace, weights.transpose(), phi, 1.0, Par::Seq);
        let variance = |z: ColRef<'_, f64>| {
            let p = softmax(&z.iter().copied().collect::<Vec<f64>>());
            let best = argmax(&p);
            p[best] * complement(&p, best)
        };
        z.col_iter().map(variance).collect::<Vec<f64>>()
    };
    let firsts: Vec<usize> = (0..phi.ncols()).step_by(CHUNK).collect();
    firsts.into_par_iter().with_checkpoints().flat_map_iter(variances).collect()
}

/// The lower triangle of `Σ_i w_i φ_i φ_iᵀ + r I`. Panels of features are computed in parallel and chunks of rows are added in
/// order, so that the sums do not depend on the number of threads.
pub(super) fn weighted_gram(features: MatRef<'_, f64>, weights: &[f64], ridge: f64) -> Mat<f64> {
    let (count, here) = (features.nrows(), Checkpoint::current());
    let panel = |first: usize| {
        let width = PANEL.min(count - first);
        let mut sum: Mat<f64> = Mat::zeros(count - first, width);
        for from in (0..weights.len()).step_by(CHUNK) {
            here.check();
            let phi = features.subcols(from, CHUNK.min(weights.len() - from)).subrows(first, count - first);
            let mut weighted = phi.subrows(0, width).to_owned();
            for (column, weight) in weighted.col_iter_mut().zip(&weights[from..]) {
                column.iter_mut().for_each(|v| *v *= weight);
            }
            matmul(&mut sum, Accum::Add, phi, weighted.transpose(), 1.0, Par::Seq);
        }
        (first, sum)
    };
    let panels: Vec<(usize, Mat<f64>)> =
        (0..count.div_ceil(PANEL)).into_par_iter().map(|i| panel(i * PANEL)).collect();
    let mut gram = Mat::zeros(count, count);
    for (first, sum) in panels {
        gram.submatrix_mut(first, first, count - first, sum.ncols()).copy_from(&sum);
    }
    (0..count).for_each(|j| gram[(j, j)] += ridge);
    gram
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `nuq-testkit/scripts/compare_with_peers.py` stored the solution of scikit-learn for the same features, classes and ridge.
    #[test]
    fn the_minimum_equals_that_of_scikit_learn() {
        let text = include_str!("../../tests/data/peers/peers.json");
        let stored = &serde_json::from_str::<serde_json::Value>(text).unwrap()["softmax_regression"];
        let numbers = |name: &str| -> Vec<f64> {
            stored[name].as_array().unwrap().iter().map(|v| v.as_f64().unwrap()).collect()
        };
        let (phi, expected_weights) = (numbers("phi"), numbers("weights"));
        let class_of_row: Vec<u32> = numbers("y").iter().map(|class| *class as u32).collect();
        let (ridge, classes) = (stored["ridge"].as_f64().unwrap(), 3);
        let phi = MatRef::from_column_major_slice(&phi, phi.len() / class_of_row.len(), class_of_row.len());
        let weights = SoftmaxRegression::fit(phi, &class_of_row, classes, 1.0, ridge).unwrap();
        let curvature = weighted_gram(phi, &vec![0.5; class_of_row.len()], ridge).llt(Side::Lower).unwrap();
        let regression = SoftmaxRegression {
            features: phi,
            class_of_row: &class_of_row,
            classes,
            row_weight: 1.0,
            ridge,
            curvature,
        };
        let (loss, expected_loss) = (regression.at(&weights).0, stored["loss"].as_f64().unwrap());
        assert!((loss - expected_loss).abs() < 1e-6, "{loss}, expected {expected_loss}");
        let expected_weights = MatRef::from_column_major_slice(&expected_weights, phi.nrows(), classes);
        assert!((weights - expected_weights).norm_l2() < 2.0 * TOLERANCE);
    }
}
