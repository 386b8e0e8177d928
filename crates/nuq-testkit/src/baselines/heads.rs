//! Scores that use the embedding and the last layer, `z = W x + b` with one row of `W` per class.

use super::logits::energy;
use super::matrices::{dot, norm, orthogonal_rows, solve};

/// `W x + b`.
pub fn linear(w: &[Vec<f64>], b: &[f64], x: &[f64]) -> Vec<f64> {
    w.iter().zip(b).map(|(row, b)| dot(row, x) + b).collect()
}

/// `W` and `b` that minimize `Σ_i ‖W x_i + b − z_i‖²`, by the normal equations.
pub fn least_squares_head(x: &[Vec<f64>], z: &[Vec<f64>]) -> (Vec<Vec<f64>>, Vec<f64>) {
    let (d, classes) = (x[0].len(), z[0].len());
    let mut a = vec![vec![0.0; d + 1]; d + 1];
    let mut right = vec![vec![0.0; classes]; d + 1];
    for (x, z) in x.iter().zip(z) {
        let with_one: Vec<f64> = x.iter().copied().chain([1.0]).collect();
        for i in 0..=d {
            (0..=d).for_each(|j| a[i][j] += with_one[i] * with_one[j]);
            (0..classes).for_each(|c| right[i][c] += with_one[i] * z[c]);
        }
    }
    let solution = solve(a, right);
    let weights = (0..classes).map(|c| (0..d).map(|j| solution[j][c]).collect()).collect();
    (weights, solution[d].clone())
}

/// Virtual-logit matching (Wang et al. 2022).
pub struct Vim {
    /// `o = −W⁺ b`.
    origin: Vec<f64>,
    /// The principal directions of the training rows minus `o`, of length one.
    principal: Vec<Vec<f64>>,
    /// `α`, the sum of the largest logits of the training rows, divided by the sum of their residuals.
    alpha: f64,
}

impl Vim {
    /// Fits with `principal` directions. The rows must have at least as many nonzero singular values.
    pub fn fit(x: &[Vec<f64>], w: &[Vec<f64>], b: &[f64], principal: usize) -> Self {
        let origin = origin(w, b);
        let centered: Vec<Vec<f64>> = x.iter().map(|row| minus(row, &origin)).collect();
        let mut directions = orthogonal_rows(centered, 0);
        directions.sort_by(|u, v| norm(v).total_cmp(&norm(u)));
        directions.truncate(principal);
        for direction in &mut directions {
            let length = norm(direction);
            direction.iter_mut().for_each(|v| *v /= length);
        }
        let mut vim = Self { origin, principal: directions, alpha: 1.0 };
        let largest = |row: &Vec<f64>| linear(w, b, row).into_iter().fold(f64::NEG_INFINITY, f64::max);
        let logits: f64 = x.iter().map(largest).sum();
        vim.alpha = logits / x.iter().map(|row| vim.residual(row)).sum::<f64>();
        vim
    }

    /// The length of `q − o` without its components along the principal directions.
    fn residual(&self, q: &[f64]) -> f64 {
        let mut rest = minus(q, &self.origin);
        for direction in &self.principal {
            let along = dot(direction, &rest);
            rest.iter_mut().zip(direction).for_each(|(l, v)| *l -= along * v);
        }
        norm(&rest)
    }

    /// `α ‖Rᵀ (q − o)‖ − ln Σ_c exp(z_c)`. The columns of `R` are orthonormal and span all directions orthogonal to the principal ones.
    pub fn score(&self, q: &[f64], z: &[f64]) -> f64 {
        self.alpha * self.residual(q) + energy(z, 1.0)
    }
}

/// `o = −W⁺ b`. The rows of `(b, W)` are rotated until the rows of `W` are orthogonal. Then `W⁺ b` is a sum over these
/// rows. Rows of the size of `f32` rounding errors count as zero.
fn origin(w: &[Vec<f64>], b: &[f64]) -> Vec<f64> {
    let rows = w.iter().zip(b).map(|(row, b)| [&[*b], &row[..]].concat()).collect();
    let rotated = orthogonal_rows(rows, 1);
    let largest = rotated.iter().map(|row| norm(&row[1..])).fold(0.0, f64::max);
    let rounding = w.len().max(w[0].len()) as f64 * f64::from(f32::EPSILON) * largest;
    let mut origin = vec![0.0; w[0].len()];
    for row in rotated.iter().filter(|row| norm(&row[1..]) > rounding) {
        let factor = row[0] / norm(&row[1..]).powi(2);
        origin.iter_mut().zip(&row[1..]).for_each(|(o, v)| *o -= factor * v);
    }
    origin
}

fn minus(a: &[f64], b: &[f64]) -> Vec<f64> {
    a.iter().zip(b).map(|(a, b)| a - b).collect()
}

/// The negative mean distance to the boundaries with the other classes, divided by the distance to the training mean
/// (Liu and Qin 2024). If several classes have the largest logit, the first one is the predicted class. A class with
/// the same weights as the predicted class has no boundary and contributes zero.
pub fn fdbd(x: &[Vec<f64>], w: &[Vec<f64>], q: &[f64], z: &[f64]) -> f64 {
    let mean: Vec<f64> =
        (0..q.len()).map(|j| x.iter().map(|row| row[j]).sum::<f64>() / x.len() as f64).collect();
    let mut predicted = 0;
    for c in 1..z.len() {
        if z[c] > z[predicted] {
            predicted = c;
        }
    }
    let mut sum = 0.0;
    for c in (0..z.len()).filter(|&c| c != predicted) {
        let weight_gap = norm(&minus(&w[predicted], &w[c]));
        sum += if weight_gap > 0.0 { (z[predicted] - z[c]) / weight_gap } else { 0.0 };
    }
    -sum / (z.len() - 1) as f64 / norm(&minus(q, &mean))
}

/// `−E(q)` times the mean of the `k` largest `E_i cos(x_i, q)` (Park, Jung and Teoh 2023). `E(q)` is `ln Σ_c exp(z_c)` of the logits of the
/// query, and `E_i` of the logits of training row `i`.
pub fn nnguide(x: &[Vec<f64>], train_z: &[Vec<f64>], k: usize, q: &[f64], z: &[f64]) -> f64 {
    let mut products: Vec<f64> = x
        .iter()
        .zip(train_z)
        .map(|(row, z)| -energy(z, 1.0) * dot(row, q) / (norm(row) * norm(q)).max(f64::MIN_POSITIVE))
        .collect();
    products.sort_by(|a, b| b.total_cmp(a));
    let k = k.min(products.len());
    energy(z, 1.0) * products[..k].iter().sum::<f64>() / k as f64
}

/// The energy of `W min(q, t) + b`, where `t` is an interpolated quantile of all activations (Sun, Guo and Li 2021).
pub fn react(x: &[Vec<f64>], quantile: f64, w: &[Vec<f64>], b: &[f64], q: &[f64]) -> f64 {
    let mut all: Vec<f64> = x.iter().flatten().copied().collect();
    all.sort_by(f64::total_cmp);
    let at = quantile * (all.len() - 1) as f64;
    let (below, above) = (all[at.floor() as usize], all[at.ceil() as usize]);
    let limit = below + (at - at.floor()) * (above - below);
    let clipped: Vec<f64> = q.iter().map(|v| v.min(limit)).collect();
    energy(&linear(w, b, &clipped), 1.0)
}
