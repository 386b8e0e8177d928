//! Training of the last layer of DUQ: the kernel of each class should be one for rows of the class and zero for all others.
//!
//! With `u = ‖W_c x − e_c‖² / (2 n σ²)`, where `W_c` has `n` rows and `σ` is the length scale, the binary cross-entropy of
//! `K_c = exp(−u)` is `u` for a row of class `c`, with derivative 1 in `u`. For any other row it is `−ln(1 − exp(−u))`, with
//! derivative `−1 / (exp(u) − 1)`. `W_c` is trained by Adam (Kingma and Ba 2015). The centroid is not a parameter: it is a running
//! mean of the projected rows of the class. Classes are trained independently.

use faer::linalg::matmul::matmul;
use faer::{Accum, Mat, Par};
use nuq_neighbors::cancel::{ParallelCheckpoints, checkpoint};
use nuq_neighbors::{Embeddings, SeededRng};
use rayon::prelude::*;

use super::duq::{DuqParams, Standardization};

/// Kernel of one class.
pub(super) struct ClassKernel {
    /// `W_c`.
    pub(super) weights: Mat<f64>,
    /// `e_c`.
    pub(super) centroid: Vec<f64>,
}

/// Running moments of the gradient in Adam.
struct Moments {
    first: Mat<f64>,
    second: Mat<f64>,
}

/// Decay rates of the moments, the published defaults.
const FIRST_DECAY: f64 = 0.9;
const SECOND_DECAY: f64 = 0.999;
/// Keeps a step finite if all gradients were zero; the published default.
const EPSILON: f64 = 1e-8;
/// Lower clamp of the exponent `u`: a row of another class at the centroid would have an infinite derivative.
const MIN_EXPONENT: f64 = 1e-6;

/// Trains the kernels of all classes on the same rows in the same order.
pub(super) fn train(
    rows: &Embeddings<'_>,
    class_of_row: &[u32],
    classes: usize,
    standardization: &Standardization,
    params: &DuqParams,
) -> Vec<ClassKernel> {
    let mut rng = SeededRng::new(params.seed);
    let means = class_means(rows, class_of_row, classes, standardization);
    let deviation = 1.0 / (standardization.dim() as f64).sqrt();
    let mut learners: Vec<(ClassKernel, Moments)> = (0..classes)
        .map(|c| {
            let weights =
                Mat::from_fn(params.projection, standardization.dim(), |_, _| deviation * rng.normal());
            let centroid = (&weights * means.col(c)).iter().copied().collect();
            let zeros = || Mat::zeros(params.projection, standardization.dim());
            (ClassKernel { weights, centroid }, Moments { first: zeros(), second: zeros() })
        })
        .collect();
    let mut shuffle = Shuffle::new(rows.len(), rng);
    for step in 1..=params.steps {
        let ids = shuffle.next(params.batch.min(rows.len()));
        let x = standardization.apply(ids.iter().map(|&id| rows.row(id as usize)), ids.len());
        learners.par_iter_mut().with_checkpoints().enumerate().for_each(|(c, (kernel, moments))| {
            let is_member: Vec<bool> = ids.iter().map(|&id| class_of_row[id as usize] == c as u32).collect();
            train_step(kernel, moments, &x, &is_member, step, params);
        });
    }
    learners.into_iter().map(|(kernel, _)| kernel).collect()
}

/// One training step of one class.
fn train_step(
    kernel: &mut ClassKernel,
    moments: &mut Moments,
    x: &Mat<f64>,
    is_member: &[bool],
    step: usize,
    params: &DuqParams,
) {
    let mut projected: Mat<f64> = Mat::zeros(kernel.centroid.len(), x.ncols());
    matmul(&mut projected, Accum::Replace, &kernel.weights, x, 1.0, Par::Seq);
    let gradient = gradient(&projected, &kernel.centroid, x, is_member, params.width()).1;
    moments.step(&mut kernel.weights, &gradient, step, params.learning_rate);
    let members = is_member.iter().filter(|is| **is).count();
    if members > 0 {
        for (j, centroid) in kernel.centroid.iter_mut().enumerate() {
            let of_members = projected.row(j).iter().zip(is_member).filter(|(_, is)| **is).map(|(p, _)| p);
            let mean = of_members.sum::<f64>() / members as f64;
            *centroid = params.momentum * *centroid + (1.0 - params.momentum) * mean;
        }
    }
}

/// The mean loss of the kernel of one class on rows (the columns of `x`), given their projections, and the gradient of this loss with
/// respect to `W_c`. `is_member` tells which rows belong to the class. `width` is `2 n σ²`.
fn gradient(
    projected: &Mat<f64>,
    centroid: &[f64],
    x: &Mat<f64>,
    is_member: &[bool],
    width: f64,
) -> (f64, Mat<f64>) {
    let mut differences = projected.clone();
    let (mut loss, rows) = (0.0, x.ncols() as f64);
    for (column, &is_member) in differences.col_iter_mut().zip(is_member) {
        let column = column.try_as_col_major_mut().expect("columns are contiguous").as_slice_mut();
        column.iter_mut().zip(centroid).for_each(|(p, e)| *p -= e);
        let exponent = (column.iter().map(|v| v * v).sum::<f64>() / width).max(MIN_EXPONENT);
        let derivative = if is_member { 1.0 } else { -1.0 / exponent.exp_m1() };
        loss += if is_member { exponent } else { -(-(-exponent).exp_m1()).ln() };
        column.iter_mut().for_each(|v| *v *= 2.0 * derivative / width);
    }
    let mut gradient: Mat<f64> = Mat::zeros(centroid.len(), x.nrows());
    matmul(&mut gradient, Accum::Replace, &differences, x.transpose(), 1.0 / rows, Par::Seq);
    (loss / rows, gradient)
}

impl Moments {
    /// Applies step number `step`, counted from one.
    fn step(&mut self, weights: &mut Mat<f64>, gradient: &Mat<f64>, step: usize, rate: f64) {
        let first_bias = 1.0 - FIRST_DECAY.powi(step as i32);
        let second_bias = 1.0 - SECOND_DECAY.powi(step as i32);
        for j in 0..weights.ncols() {
            // Slices, because loops over columns of matrices are not vectorized.
            let moments = self.first.col_as_slice_mut(j).iter_mut().zip(self.second.col_as_slice_mut(j));
            let pairs = weights.col_as_slice_mut(j).iter_mut().zip(gradient.col_as_slice(j));
            for ((m, v), (w, g)) in moments.zip(pairs) {
                *m = FIRST_DECAY * *m + (1.0 - FIRST_DECAY) * g;
                *v = SECOND_DECAY * *v + (1.0 - SECOND_DECAY) * g * g;
                *w -= rate * (*m / first_bias) / ((*v / second_bias).sqrt() + EPSILON);
            }
        }
    }
}

/// The mean of the standardized rows of each class, one column each.
fn class_means(
    rows: &Embeddings<'_>,
    class_of_row: &[u32],
    classes: usize,
    standardization: &Standardization,
) -> Mat<f64> {
    let mut sums: Mat<f64> = Mat::zeros(standardization.dim(), classes);
    let mut counts = vec![0.0; classes];
    for (row, &class) in rows.rows().zip(class_of_row) {
        checkpoint();
        counts[class as usize] += 1.0;
        let standardized = standardization.apply(std::iter::once(row), 1);
        sums.col_mut(class as usize).iter_mut().zip(standardized.col(0).iter()).for_each(|(s, v)| *s += v);
    }
    for (column, count) in sums.col_iter_mut().zip(counts) {
        column.iter_mut().for_each(|s| *s /= count);
    }
    sums
}

/// Batches of shuffled rows. Rows are shuffled again after each pass.
struct Shuffle {
    ids: Vec<u32>,
    at: usize,
    rng: SeededRng,
}

impl Shuffle {
    fn new(rows: usize, rng: SeededRng) -> Self {
        Self { ids: (0..rows as u32).collect(), at: rows, rng }
    }

    /// The next `count` rows. If fewer rows are left in a pass, they are skipped and a new pass starts.
    fn next(&mut self, count: usize) -> Vec<u32> {
        if self.at + count > self.ids.len() {
            // Fisher-Yates shuffle.
            for i in (1..self.ids.len()).rev() {
                self.ids.swap(i, self.rng.below(i + 1));
            }
            self.at = 0;
        }
        self.at += count;
        self.ids[self.at - count..self.at].to_vec()
    }
}

#[cfg(test)]
mod tests {
    use nuq_testkit::baselines::duq_loss;
    use nuq_testkit::data::{normal, to_rows};

    use super::*;

    #[test]
    fn the_gradient_equals_finite_differences() {
        let (x, sigma) = (to_rows(&normal(20, 4, 1)), 0.7);
        let weights = to_rows(&normal(3, 4, 2));
        let (centroid, is_member) = (vec![0.2, -0.4, 0.1], (0..20).map(|i| i % 3 == 0).collect::<Vec<_>>());
        let (columns, matrix) =
            (Mat::from_fn(4, 20, |j, i| x[i][j]), Mat::from_fn(3, 4, |i, j| weights[i][j]));
        let (loss, derivatives) =
            gradient(&(&matrix * &columns), &centroid, &columns, &is_member, 6.0 * sigma * sigma);
        let at = |weights: &[Vec<f64>]| duq_loss(weights, &centroid, sigma, &x, &is_member);
        assert!((loss - at(&weights)).abs() < 1e-12 * loss);
        for i in 0..3 {
            for j in 0..4 {
                let moved = |by: f64| {
                    let mut weights = weights.clone();
                    weights[i][j] += by;
                    at(&weights)
                };
                let expected = (moved(1e-5) - moved(-1e-5)) / 2e-5;
                let ours = derivatives[(i, j)];
                assert!((ours - expected).abs() < 1e-6, "{i}, {j}: {ours}, expected {expected}");
            }
        }
    }

    #[test]
    fn a_pass_contains_every_row_once_if_the_batches_fit() {
        let mut shuffle = Shuffle::new(12, SeededRng::new(1));
        let mut first = [shuffle.next(4), shuffle.next(4), shuffle.next(4)].concat();
        first.sort_unstable();
        assert_eq!(first, (0..12).collect::<Vec<u32>>());
        assert_eq!(shuffle.next(12).len(), 12);
    }
}
