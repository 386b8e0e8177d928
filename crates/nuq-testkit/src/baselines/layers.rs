//! Layers that are trained on frozen embeddings: their equations for given weights.

use super::logits::{energy, max_prob, softmax};
use super::matrices::{dot, solve};

/// The last layer of SNGP (Liu et al. 2020) with its weights.
pub struct Sngp {
    /// Frequencies divided by the length scale, one row per random feature.
    pub frequencies: Vec<Vec<f64>>,
    /// One phase per random feature.
    pub phases: Vec<f64>,
    /// The center of the training rows.
    pub center: Vec<f64>,
    /// One row per class, one weight per feature.
    pub weights: Vec<Vec<f64>>,
    /// The precision of the Gaussian prior of the weights.
    pub ridge: f64,
}

impl Sngp {
    /// `√(2/D) cos(w_jᵀ (x − μ) + b_j)` of each of the `D` features, with its frequencies `w_j`, its phase `b_j` and the center `μ`.
    pub fn features(&self, x: &[f64]) -> Vec<f64> {
        let amplitude = (2.0 / self.phases.len() as f64).sqrt();
        let mut features = vec![];
        for (w, b) in self.frequencies.iter().zip(&self.phases) {
            let mut angle = *b;
            for j in 0..x.len() {
                angle += w[j] * (x[j] - self.center[j]);
            }
            features.push(amplitude * angle.cos());
        }
        features
    }

    fn plain_logits(&self, phi: &[f64]) -> Vec<f64> {
        self.weights.iter().map(|row| dot(row, phi)).collect()
    }

    /// `r I + Σ_i p̂_i (1 − p̂_i) φ_i φ_iᵀ` over training rows. Row `i` has the features `φ_i` and the largest class probability
    /// `p̂_i`; `r` is `ridge`.
    pub fn precision(&self, x: &[Vec<f64>]) -> Vec<Vec<f64>> {
        let count = self.phases.len();
        let mut precision = vec![vec![0.0; count]; count];
        (0..count).for_each(|j| precision[j][j] = self.ridge);
        for row in x {
            let phi = self.features(row);
            let complement = max_prob(&self.plain_logits(&phi));
            for (i, line) in precision.iter_mut().enumerate() {
                line.iter_mut()
                    .zip(&phi)
                    .for_each(|(p, v)| *p += complement * (1.0 - complement) * phi[i] * v);
            }
        }
        precision
    }

    /// `z / √(1 + (π/8) φᵀ Σ φ)` for a given precision `Σ⁻¹`. `φ` are the features of the query, and `z` are its plain
    /// logits: `weights` times `φ`.
    pub fn logits(&self, precision: &[Vec<f64>], q: &[f64]) -> Vec<f64> {
        let phi = self.features(q);
        let right = phi.iter().map(|v| vec![*v]).collect();
        let solved: Vec<f64> = solve(precision.to_vec(), right).concat();
        let divisor = (1.0 + std::f64::consts::PI / 8.0 * dot(&phi, &solved)).sqrt();
        self.plain_logits(&phi).iter().map(|z| z / divisor).collect()
    }
}

/// `K / (K + Σ_c exp(z_c))` for `K` classes.
pub fn dempster_shafer(z: &[f64]) -> f64 {
    let classes = z.len() as f64;
    classes / (classes + z.iter().map(|v| v.exp()).sum::<f64>())
}

/// `Σ_i −ln softmax(βᵀ φ_i)_{y_i} + (r/2) ‖β‖²` and its gradient with respect to `β`. Column `c` of `β` is row `c` of `weights`, and `r` is
/// `ridge`. The gradient has one row per class.
pub fn softmax_loss(phi: &[Vec<f64>], y: &[usize], weights: &[Vec<f64>], ridge: f64) -> (f64, Vec<Vec<f64>>) {
    let mut loss = 0.0;
    let mut gradient: Vec<Vec<f64>> = vec![];
    for row in weights {
        loss += 0.5 * ridge * dot(row, row);
        gradient.push(row.iter().map(|w| ridge * w).collect());
    }
    for (phi, &y) in phi.iter().zip(y) {
        let z: Vec<f64> = weights.iter().map(|row| dot(row, phi)).collect();
        loss -= z[y] + energy(&z, 1.0);
        for (c, p) in softmax(&z).into_iter().enumerate() {
            let residual = if c == y { p - 1.0 } else { p };
            gradient[c].iter_mut().zip(phi).for_each(|(g, v)| *g += residual * v);
        }
    }
    (loss, gradient)
}

/// `−ln K_c = ‖W_c x − e_c‖² / (2 n σ²)` of the kernel `K_c` of DUQ (van Amersfoort et al. 2020) for class `c`. `W_c` is `weights`, and
/// `e_c` is `centroid`, with `n` coordinates.
pub fn duq_exponent(weights: &[Vec<f64>], centroid: &[f64], sigma: f64, x: &[f64]) -> f64 {
    let mut sum = 0.0;
    for (row, e) in weights.iter().zip(centroid) {
        sum += (dot(row, x) - e).powi(2);
    }
    sum / (2.0 * centroid.len() as f64 * sigma * sigma)
}

/// The mean binary cross-entropy of the kernel of one class, whose target is one for members of the class and zero for other rows.
pub fn duq_loss(
    weights: &[Vec<f64>],
    centroid: &[f64],
    sigma: f64,
    x: &[Vec<f64>],
    is_member: &[bool],
) -> f64 {
    let mut sum = 0.0;
    for (x, &is_member) in x.iter().zip(is_member) {
        let kernel = (-duq_exponent(weights, centroid, sigma, x)).exp();
        sum -= if is_member { kernel.ln() } else { (1.0 - kernel).ln() };
    }
    sum / x.len() as f64
}
