//! Softmax regression with a ridge: the weights $\beta$ that minimize
//! $\sum_i -\ln \mathrm{softmax}(\beta^\top \phi_i)_{y_i} + \frac{r}{2} \lVert \beta \rVert^2$.
//!
//! The function is strongly convex: it has one minimum, and where the gradient is $g$, it lies no more than
//! $\lVert g \rVert^2 / 2r$ above it. The Hessian of each row is at most $\frac12 \phi_i \phi_i^\top$ for each class (Böhning 1992),
//! which gives L-BFGS a curvature to start from.

use faer::linalg::matmul::matmul;
use faer::linalg::solvers::{Llt, Solve};
use faer::{Accum, ColMut, ColRef, Mat, MatRef, Par, Side};
use rayon::prelude::*;

use super::lbfgs::{Objective, minimize};
use super::softmax::{first_largest, log_sum_exp, others, softmax};

/// Features of training rows (a column each) with their classes, how often each row counts, and the ridge $r$.
pub(super) struct SoftmaxRegression<'f> {
    features: MatRef<'f, f64>,
    of_row: &'f [u32],
    classes: usize,
    times: f64,
    ridge: f64,
    /// Of what the Hessian is like for each class.
    curvature: Llt<f64>,
}

/// Sums of so many stretches of rows are added in order, whatever the number of threads.
const TASKS: usize = 16;
/// Rows that are multiplied at a time.
const CHUNK: usize = 256;
/// Features that one task accumulates products of.
const PANEL: usize = 128;
/// The gradient at which the weights are found, relative to the ridge: the largest distance of the weights from the best.
const TOLERANCE: f64 = 1e-3;
/// The same where the curvature is measured, also relative to the root of the number of rows.
const ROUGH: f64 = 0.15;

impl<'f> SoftmaxRegression<'f> {
    /// `None` where the features are such that a bound has no factor.
    pub(super) fn fit(
        features: MatRef<'f, f64>,
        of_row: &'f [u32],
        classes: usize,
        times: f64,
        ridge: f64,
    ) -> Option<Mat<f64>> {
        let factor = |weights: &[f64]| weighted_gram(features, weights, ridge).llt(Side::Lower).ok();
        let curvature = factor(&vec![0.5 * times; of_row.len()])?;
        let mut regression = Self { features, of_row, classes, times, ridge, curvature };
        let start = Mat::zeros(features.nrows(), classes);
        let rough = minimize(&regression, start, ROUGH * ridge * (times * of_row.len() as f64).sqrt());
        // Of sure rows the bound is far from what it bounds.
        let weights: Vec<f64> = spreads(features, &rough).iter().map(|spread| times * spread).collect();
        regression.curvature = factor(&weights)?;
        Some(minimize(&regression, rough, TOLERANCE * ridge))
    }

    /// The loss of rows `first..last`, and its gradient.
    fn of_rows(&self, weights: &Mat<f64>, first: usize, last: usize) -> (f64, Mat<f64>) {
        let (mut loss, mut gradient) = (0.0, Mat::zeros(weights.nrows(), self.classes));
        for from in (first..last).step_by(CHUNK) {
            let phi = self.features.subcols(from, CHUNK.min(last - from));
            let mut z: Mat<f64> = Mat::zeros(self.classes, phi.ncols());
            matmul(&mut z, Accum::Replace, weights.transpose(), phi, 1.0, Par::Seq);
            for (column, &class) in z.col_iter_mut().zip(&self.of_row[from..]) {
                loss += self.times * leave_residual(column, class as usize);
            }
            matmul(&mut gradient, Accum::Add, phi, z.transpose(), self.times, Par::Seq);
        }
        (loss, gradient)
    }
}

/// Replaces the logits of a row by the gradient of its loss, $p_c - [c = y]$, and returns the loss.
fn leave_residual(logits: ColMut<'_, f64>, class: usize) -> f64 {
    let mut row: Vec<f64> = logits.as_ref().iter().copied().collect();
    let truth = row[class];
    let loss = log_sum_exp(&row) - truth;
    row = softmax(&row);
    row[class] -= 1.0;
    logits.iter_mut().zip(row).for_each(|(z, r)| *z = r);
    loss
}

impl Objective for SoftmaxRegression<'_> {
    fn at(&self, weights: &Mat<f64>) -> (f64, Mat<f64>) {
        let rows = self.of_row.len();
        let stretch = rows.div_ceil(TASKS).max(1);
        let parts: Vec<(f64, Mat<f64>)> = (0..rows.div_ceil(stretch))
            .into_par_iter()
            .map(|i| self.of_rows(weights, i * stretch, rows.min((i + 1) * stretch)))
            .collect();
        let mut loss = 0.5 * self.ridge * weights.squared_norm_l2();
        let mut gradient = faer::Scale(self.ridge) * weights;
        for (part, of_part) in parts {
            loss += part;
            gradient += of_part;
        }
        (loss, gradient)
    }

    fn precondition(&self, gradient: &Mat<f64>) -> Mat<f64> {
        self.curvature.solve(gradient)
    }
}

/// $\hat p_i (1 - \hat p_i)$ of each training row.
pub(super) fn spreads(phi: MatRef<'_, f64>, weights: &Mat<f64>) -> Vec<f64> {
    let spread = |first: usize| {
        let phi = phi.subcols(first, CHUNK.min(phi.ncols() - first));
        let mut z: Mat<f64> = Mat::zeros(weights.ncols(), phi.ncols());
        matmul(&mut z, Accum::Replace, weights.transpose(), phi, 1.0, Par::Seq);
        let of_row = |z: ColRef<'_, f64>| {
            let p = softmax(&z.iter().copied().collect::<Vec<f64>>());
            let best = first_largest(&p);
            p[best] * others(&p, best)
        };
        z.col_iter().map(of_row).collect::<Vec<f64>>()
    };
    let firsts: Vec<usize> = (0..phi.ncols()).step_by(CHUNK).collect();
    firsts.into_par_iter().flat_map_iter(spread).collect()
}

/// $\sum_i w_i \phi_i \phi_i^\top + r I$; the lower triangle. Panels of features in parallel, chunks of rows in order: the sums do
/// not depend on the number of threads.
pub(super) fn weighted_gram(features: MatRef<'_, f64>, weights: &[f64], ridge: f64) -> Mat<f64> {
    let count = features.nrows();
    let panel = |first: usize| {
        let width = PANEL.min(count - first);
        let mut sum: Mat<f64> = Mat::zeros(count - first, width);
        for from in (0..weights.len()).step_by(CHUNK) {
            let phi = features.subcols(from, CHUNK.min(weights.len() - from)).subrows(first, count - first);
            let mut own = phi.subrows(0, width).to_owned();
            for (column, weight) in own.col_iter_mut().zip(&weights[from..]) {
                column.iter_mut().for_each(|v| *v *= weight);
            }
            matmul(&mut sum, Accum::Add, phi, own.transpose(), 1.0, Par::Seq);
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

    /// The same features, classes and ridge in scikit-learn, stored by `nuq-testkit/scripts/compare_with_peers.py`.
    #[test]
    fn the_loss_is_that_of_scikit_learn() {
        let text = include_str!("../../tests/data/peers/peers.json");
        let stored = &serde_json::from_str::<serde_json::Value>(text).unwrap()["softmax_regression"];
        let numbers = |name: &str| -> Vec<f64> {
            stored[name].as_array().unwrap().iter().map(|v| v.as_f64().unwrap()).collect()
        };
        let (phi, theirs) = (numbers("phi"), numbers("weights"));
        let of_row: Vec<u32> = numbers("y").iter().map(|class| *class as u32).collect();
        let (ridge, classes) = (stored["ridge"].as_f64().unwrap(), 3);
        let phi = MatRef::from_column_major_slice(&phi, phi.len() / of_row.len(), of_row.len());
        let weights = SoftmaxRegression::fit(phi, &of_row, classes, 1.0, ridge).unwrap();
        let curvature = weighted_gram(phi, &vec![0.5; of_row.len()], ridge).llt(Side::Lower).unwrap();
        let regression =
            SoftmaxRegression { features: phi, of_row: &of_row, classes, times: 1.0, ridge, curvature };
        let (loss, their_loss) = (regression.at(&weights).0, stored["loss"].as_f64().unwrap());
        assert!((loss - their_loss).abs() < 1e-6, "{loss} and {their_loss}");
        let theirs = MatRef::from_column_major_slice(&theirs, phi.nrows(), classes);
        assert!((weights - theirs).norm_l2() < 2.0 * TOLERANCE);
    }
}
