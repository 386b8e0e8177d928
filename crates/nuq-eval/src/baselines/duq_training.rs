//! How DUQ's layer learns: each class's kernel is to be one for rows of the class and zero for all others.
//!
//! With $u = \lVert W_c x - e_c \rVert^2 / 2 n \sigma^2$, the binary cross-entropy of $K_c = e^{-u}$ is $u$ for a row of class $c$ and
//! $-\ln(1 - e^{-u})$ for any other, of slope $1$ and $-1 / (e^u - 1)$ in $u$. Steps in $W_c$ are Adam's (Kingma and Ba 2015); the centroid
//! is no parameter but a running mean of the class's projected rows. No class's loss knows of another class.

use faer::linalg::matmul::matmul;
use faer::{Accum, Mat, Par};
use nuq_neighbors::{Embeddings, SeededRng};
use rayon::prelude::*;

use super::duq::{DuqParams, RowFrame};

/// What one class learns.
pub(super) struct ClassKernel {
    /// $W_c$.
    pub(super) weights: Mat<f64>,
    /// $e_c$.
    pub(super) centroid: Vec<f64>,
}

/// Adam's running moments of the gradient.
struct Moments {
    first: Mat<f64>,
    second: Mat<f64>,
}

/// Adam's decays, as published.
const FIRST: f64 = 0.9;
const SECOND: f64 = 0.999;
/// Keeps a step finite where the gradient never was anything.
const LEAST_DEVIATION: f64 = 1e-8;
/// Exponents below count as this: a stranger at the very centroid would have an infinite slope.
const LEAST_EXPONENT: f64 = 1e-6;

/// Trains the kernels of all classes on the same rows in the same order.
pub(super) fn train(
    rows: &Embeddings<'_>,
    of_row: &[u32],
    classes: usize,
    frame: &RowFrame,
    params: &DuqParams,
) -> Vec<ClassKernel> {
    let mut rng = SeededRng::new(params.seed);
    let means = class_means(rows, of_row, classes, frame);
    let deviation = 1.0 / (frame.dim() as f64).sqrt();
    let mut learners: Vec<(ClassKernel, Moments)> = (0..classes)
        .map(|c| {
            let weights = Mat::from_fn(params.projection, frame.dim(), |_, _| deviation * rng.normal());
            let centroid = (&weights * means.col(c)).iter().copied().collect();
            let none = || Mat::zeros(params.projection, frame.dim());
            (ClassKernel { weights, centroid }, Moments { first: none(), second: none() })
        })
        .collect();
    let mut order = Order::new(rows.len(), rng);
    for step in 1..=params.steps {
        let ids = order.next(params.batch.min(rows.len()));
        let x = frame.place(ids.iter().map(|&id| rows.row(id as usize)), ids.len());
        learners.par_iter_mut().enumerate().for_each(|(c, (kernel, moments))| {
            let is_member: Vec<bool> = ids.iter().map(|&id| of_row[id as usize] == c as u32).collect();
            learn(kernel, moments, &x, &is_member, step, params);
        });
    }
    learners.into_iter().map(|(kernel, _)| kernel).collect()
}

/// One step of one class.
fn learn(
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
            let own = projected.row(j).iter().zip(is_member).filter(|(_, is)| **is).map(|(p, _)| p);
            let mean = own.sum::<f64>() / members as f64;
            *centroid = params.momentum * *centroid + (1.0 - params.momentum) * mean;
        }
    }
}

/// The mean loss of a class's kernel on rows `x` that were projected, and its gradient in $W_c$.
fn gradient(
    projected: &Mat<f64>,
    centroid: &[f64],
    x: &Mat<f64>,
    is_member: &[bool],
    width: f64,
) -> (f64, Mat<f64>) {
    let mut apart = projected.clone();
    let (mut loss, rows) = (0.0, x.ncols() as f64);
    for (column, &is_member) in apart.col_iter_mut().zip(is_member) {
        let column = column.try_as_col_major_mut().expect("columns are contiguous").as_slice_mut();
        column.iter_mut().zip(centroid).for_each(|(p, e)| *p -= e);
        let exponent = (column.iter().map(|v| v * v).sum::<f64>() / width).max(LEAST_EXPONENT);
        let slope = if is_member { 1.0 } else { -1.0 / exponent.exp_m1() };
        loss += if is_member { exponent } else { -(-(-exponent).exp_m1()).ln() };
        column.iter_mut().for_each(|v| *v *= 2.0 * slope / width);
    }
    let mut gradient: Mat<f64> = Mat::zeros(centroid.len(), x.nrows());
    matmul(&mut gradient, Accum::Replace, &apart, x.transpose(), 1.0 / rows, Par::Seq);
    (loss / rows, gradient)
}

impl Moments {
    /// Adam's step number `step`, which counts from one.
    fn step(&mut self, weights: &mut Mat<f64>, gradient: &Mat<f64>, step: usize, rate: f64) {
        let (first, second) = (1.0 - FIRST.powi(step as i32), 1.0 - SECOND.powi(step as i32));
        for j in 0..weights.ncols() {
            let moments = self.first.col_mut(j).iter_mut().zip(self.second.col_mut(j).iter_mut());
            let pairs = weights.col_mut(j).iter_mut().zip(gradient.col(j).iter());
            for ((m, v), (w, g)) in moments.zip(pairs) {
                *m = FIRST * *m + (1.0 - FIRST) * g;
                *v = SECOND * *v + (1.0 - SECOND) * g * g;
                *w -= rate * (*m / first) / ((*v / second).sqrt() + LEAST_DEVIATION);
            }
        }
    }
}

/// The mean of each class in the frame, a column each.
fn class_means(rows: &Embeddings<'_>, of_row: &[u32], classes: usize, frame: &RowFrame) -> Mat<f64> {
    let mut sums: Mat<f64> = Mat::zeros(frame.dim(), classes);
    let mut counts = vec![0.0; classes];
    for (row, &class) in rows.rows().zip(of_row) {
        counts[class as usize] += 1.0;
        let placed = frame.place(std::iter::once(row), 1);
        sums.col_mut(class as usize).iter_mut().zip(placed.col(0).iter()).for_each(|(s, v)| *s += v);
    }
    for (column, count) in sums.col_iter_mut().zip(counts) {
        column.iter_mut().for_each(|s| *s /= count);
    }
    sums
}

/// Rows in a random order, each once before any comes again.
struct Order {
    ids: Vec<u32>,
    at: usize,
    rng: SeededRng,
}

impl Order {
    fn new(rows: usize, rng: SeededRng) -> Self {
        Self { ids: (0..rows as u32).collect(), at: rows, rng }
    }

    /// The next `count` rows; a rest of fewer is passed over.
    fn next(&mut self, count: usize) -> Vec<u32> {
        if self.at + count > self.ids.len() {
            // Fisher and Yates.
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
    use nuq_testkit::data::{normal, to_rows};
    use nuq_testkit::rivals::duq_loss;

    use super::*;

    #[test]
    fn the_gradient_is_the_slope_of_the_loss() {
        let (x, sigma) = (to_rows(&normal(20, 4, 1)), 0.7);
        let weights = to_rows(&normal(3, 4, 2));
        let (centroid, is_member) = (vec![0.2, -0.4, 0.1], (0..20).map(|i| i % 3 == 0).collect::<Vec<_>>());
        let (columns, matrix) =
            (Mat::from_fn(4, 20, |j, i| x[i][j]), Mat::from_fn(3, 4, |i, j| weights[i][j]));
        let (loss, slopes) =
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
                let slope = (moved(1e-5) - moved(-1e-5)) / 2e-5;
                assert!((slope - slopes[(i, j)]).abs() < 1e-6, "{i}, {j}: {slope} and {}", slopes[(i, j)]);
            }
        }
    }

    #[test]
    fn every_row_comes_once_before_any_comes_again() {
        let mut order = Order::new(12, SeededRng::new(1));
        let mut first = [order.next(4), order.next(4), order.next(4)].concat();
        first.sort_unstable();
        assert_eq!(first, (0..12).collect::<Vec<u32>>());
        assert_eq!(order.next(12).len(), 12);
    }
}
