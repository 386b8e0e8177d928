//! The method by its definition, with loops over classes, neighbors and coordinates.
//!
//! Logarithms are used because, far from the training rows and at small bandwidths, all kernel values underflow.

use std::f64::consts::PI;

/// Kernel of the model.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Kernel {
    /// `(2π)^(−1/2) exp(−z²/2)` per coordinate.
    Gaussian,
    /// `(2/π) / (exp(z) + exp(−z))` per coordinate.
    Sigmoid,
    /// `1 / (exp(z) + 2 + exp(−z))` per coordinate.
    Logistic,
    /// `1 / (1 + ‖z‖²/2)`.
    Student,
}

/// Bandwidth of the kernel.
#[derive(Debug, Clone)]
pub enum Bandwidth {
    /// One bandwidth.
    Scalar(f64),
    /// One bandwidth per column.
    PerDimension(Vec<f64>),
    /// One bandwidth per training row.
    PerPoint(Vec<f64>),
}

impl Bandwidth {
    /// The bandwidth of column `j` for training row `i`.
    fn at(&self, i: usize, j: usize) -> f64 {
        match self {
            Bandwidth::Scalar(h) => *h,
            Bandwidth::PerDimension(h) => h[j],
            Bandwidth::PerPoint(h) => h[i],
        }
    }
}

/// Density of the training rows.
#[derive(Debug, Clone)]
pub enum Density {
    /// Kernel density with the bandwidth of the posterior.
    Same,
    /// Kernel density with this bandwidth. If the posterior has one bandwidth per column, each of them is multiplied by
    /// this value.
    Own(f64),
    /// A given log density.
    Given(f64),
}

/// A fitted model by its definition.
pub struct Model<'m> {
    /// The training rows.
    pub x: &'m [Vec<f64>],
    /// The kernel.
    pub kernel: Kernel,
    /// The bandwidth of the posterior.
    pub bandwidth: Bandwidth,
    /// The density.
    pub density: Density,
    /// The dimension `m` in the constants: the intrinsic dimension or the number of columns.
    pub dimension: f64,
    /// `n̄` and `ln p̄` of the effective scale: the effective number of neighbors and the log density of a typical training row.
    /// `None` for the asymptotic formula.
    pub effective: Option<(f64, f64)>,
    /// The weight of the prior.
    pub prior_weight: f64,
}

/// The expected prediction of a classifier for one query, computed from the definitions.
#[derive(Debug, Clone)]
pub struct ExpectedPrediction {
    /// `ln η_c` of every class.
    pub log_eta: Vec<f64>,
    /// The class with the largest `η_c`.
    pub class: usize,
    /// `ln U_a`.
    pub log_aleatoric: f64,
    /// `ln U_e` with the sum of the variances of all classes.
    pub log_epistemic_sum: f64,
    /// `ln U_e` with the largest variance of a class.
    pub log_epistemic_max: f64,
    /// `ln U_t` with the sum of the variances of all classes.
    pub log_total_sum: f64,
    /// `ln p̂`.
    pub log_density: f64,
    /// The magnitude of the subtracted exponents, which determines the rounding error.
    pub exponent: f64,
}

/// The expected estimate of a regressor for one query, computed from the definitions.
#[derive(Debug, Clone)]
pub struct ExpectedEstimate {
    /// The predicted mean.
    pub mean: f64,
    /// `ln σ²`.
    pub log_aleatoric: f64,
    /// `ln τ²`.
    pub log_epistemic: f64,
    /// The magnitude of the subtracted exponents, which determines the rounding error.
    pub exponent: f64,
}

/// `ln Σ exp(v)`.
pub fn log_sum_exp(values: &[f64]) -> f64 {
    let top = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    if top == f64::NEG_INFINITY {
        return top;
    }
    let mut sum = 0.0;
    for v in values {
        sum += (v - top).exp();
    }
    top + sum.ln()
}

impl Model<'_> {
    /// `ln K(z)` with all its constants, for query `q` and training row `i`.
    ///
    /// `own` is the bandwidth of the density; `None` selects the bandwidth of the posterior. Radial kernels use the
    /// given squared distance, so that library and oracle start from the same number.
    fn log_kernel(&self, q: &[f64], i: usize, sq_distance: f64, own: Option<f64>) -> f64 {
        let (x, m) = (&self.x[i], self.dimension);
        let h = |j: usize| match (&self.bandwidth, own) {
            (Bandwidth::PerDimension(h), Some(own)) => own * h[j],
            (_, Some(own)) => own,
            (bandwidth, None) => bandwidth.at(i, j),
        };
        let sq_norm = match (&self.bandwidth, own) {
            // The given distances are distances in the scaled space.
            (Bandwidth::PerDimension(_), own) => sq_distance / own.unwrap_or(1.0).powi(2),
            _ => sq_distance / h(0).powi(2),
        };
        // Product kernels: the sum of ln k(z_j)/k(0), which is exactly zero on a training row.
        let mut product = 0.0;
        for j in 0..q.len() {
            let z = ((q[j] - x[j]) / h(j)).abs();
            product += match self.kernel {
                Kernel::Sigmoid => (2.0 / (1.0 + (-2.0 * z).exp())).ln() - z,
                Kernel::Logistic => (4.0 / (1.0 + (-z).exp()).powi(2)).ln() - z,
                _ => 0.0,
            };
        }
        match self.kernel {
            Kernel::Gaussian => -0.5 * m * (2.0 * PI).ln() - 0.5 * sq_norm,
            Kernel::Student => -(0.5 * sq_norm).ln_1p(),
            Kernel::Sigmoid | Kernel::Logistic => product + self.log_kernel_at_zero(),
        }
    }

    fn log_kernel_at_zero(&self) -> f64 {
        match self.kernel {
            Kernel::Gaussian => -0.5 * self.dimension * (2.0 * PI).ln(),
            Kernel::Student => 0.0,
            Kernel::Sigmoid => self.dimension * (1.0 / PI).ln(),
            Kernel::Logistic => self.dimension * 0.25f64.ln(),
        }
    }

    /// `ln ‖K‖₂²`. The Student kernel is not a density, and its norm is taken as 1.
    fn log_roughness(&self) -> f64 {
        match self.kernel {
            Kernel::Gaussian => self.dimension * (1.0 / (2.0 * PI.sqrt())).ln(),
            Kernel::Student => 0.0,
            Kernel::Sigmoid => self.dimension * (2.0 / PI.powi(2)).ln(),
            Kernel::Logistic => self.dimension * (1.0f64 / 6.0).ln(),
        }
    }

    /// `ln K(z_i)` minus the value of the first neighbor, and the magnitude of the subtracted exponents. The magnitude
    /// is zero for a Gaussian kernel if all rows have the same bandwidth, because the difference of the squared
    /// distances is then sufficient.
    fn log_kernel_to_first(&self, q: &[f64], neighbors: &[usize], sq: &[f64], at: usize) -> (f64, f64) {
        match (self.kernel, &self.bandwidth) {
            (Kernel::Gaussian, Bandwidth::Scalar(h)) => (-0.5 * (sq[at] - sq[0]) / (h * h), 0.0),
            (Kernel::Gaussian, Bandwidth::PerDimension(_)) => (-0.5 * (sq[at] - sq[0]), 0.0),
            _ => {
                let first = self.log_kernel(q, neighbors[0], sq[0], None);
                (self.log_kernel(q, neighbors[at], sq[at], None) - first, first.abs())
            }
        }
    }

    /// Logarithms of all weights `K(z_k)/K(0)` and of the weight of the prior, and the magnitude of the subtracted
    /// exponents. All weights are divided by the weight of the first neighbor or of the prior, whichever is larger.
    fn relative_weights(&self, q: &[f64], neighbors: &[usize], sq: &[f64]) -> (Vec<f64>, f64, f64) {
        let first = self.log_kernel(q, neighbors[0], sq[0], None) - self.log_kernel_at_zero();
        let log_w = self.prior_weight.ln();
        let top = first.max(log_w);
        let mut exponent = 0f64;
        let mut weights = Vec::new();
        for at in 0..neighbors.len() {
            let (weight, magnitude) = self.log_kernel_to_first(q, neighbors, sq, at);
            exponent = exponent.max(magnitude);
            weights.push(weight + (first - top));
        }
        (weights, log_w - top, exponent)
    }

    /// `ln h^m` for training row `i`. Bandwidths per column enter by their geometric mean.
    fn log_volume(&self, i: usize) -> f64 {
        match &self.bandwidth {
            Bandwidth::PerDimension(h) => {
                self.dimension * h.iter().map(|h| h.ln()).sum::<f64>() / h.len() as f64
            }
            bandwidth => self.dimension * bandwidth.at(i, 0).ln(),
        }
    }

    fn log_density(&self, q: &[f64], neighbors: &[usize], sq: &[f64]) -> f64 {
        let mut terms = Vec::new();
        for (&i, &sq) in neighbors.iter().zip(sq) {
            terms.push(match &self.density {
                Density::Given(_) => 0.0,
                Density::Same => self.log_kernel(q, i, sq, None) - self.log_volume(i),
                Density::Own(h) => {
                    let scale = match self.bandwidth {
                        Bandwidth::PerDimension(_) => self.log_volume(i),
                        _ => 0.0,
                    };
                    self.log_kernel(q, i, sq, Some(*h)) - self.dimension * h.ln() - scale
                }
            });
        }
        match self.density {
            Density::Given(log_density) => log_density,
            _ => log_sum_exp(&terms) - (self.x.len() as f64).ln(),
        }
    }

    /// `−ln n(x)`, which is `ln(‖K‖₂² / (N h^m p̂))` for the asymptotic formula. With a bandwidth per row, `h^(−m)`
    /// is the kernel-weighted mean of the neighbors' `h_i^(−m)`. If the density has the same bandwidths, `N h^m p̂` is
    /// then the plain kernel sum.
    fn log_variance_scale(&self, q: &[f64], neighbors: &[usize], sq: &[f64], log_density: f64) -> f64 {
        if let Some((sample_size, typical)) = self.effective {
            return typical - sample_size.ln() - log_density;
        }
        let log_volume = match &self.bandwidth {
            Bandwidth::PerPoint(_) => {
                let (weights, _, _) = self.relative_weights(q, neighbors, sq);
                let divided: Vec<f64> =
                    weights.iter().zip(neighbors).map(|(weight, &i)| weight - self.log_volume(i)).collect();
                log_sum_exp(&weights) - log_sum_exp(&divided)
            }
            _ => self.log_volume(0),
        };
        self.log_roughness() - (self.x.len() as f64).ln() - log_volume - log_density
    }

    /// Kish's effective sample size `(Σ w)² / Σ w²` of the kernel weights, and `ln p̂`.
    pub fn effective_sample(&self, q: &[f64], neighbors: &[usize], sq: &[f64]) -> (f64, f64) {
        let (weights, _, _) = self.relative_weights(q, neighbors, sq);
        let sum: f64 = weights.iter().map(|log| log.exp()).sum();
        let squares: f64 = weights.iter().map(|log| (2.0 * log).exp()).sum();
        (sum * sum / squares, self.log_density(q, neighbors, sq))
    }

    /// Classifies a query, with labels `y` in `0..classes`.
    pub fn classify(
        &self,
        y: &[usize],
        classes: usize,
        q: &[f64],
        neighbors: &[usize],
        sq: &[f64],
    ) -> ExpectedPrediction {
        // If all rows have one class, the prior counts one row of a class that is not in `y`.
        let unseen = if y.iter().all(|&label| label == y[0]) { 1.0 } else { 0.0 };
        let n = self.x.len() as f64 + unseen;
        let (weights, log_w, exponent) = self.relative_weights(q, neighbors, sq);
        let mut numerators = Vec::new();
        for class in 0..classes {
            let frequency = y.iter().filter(|&&label| label == class).count() as f64 / n;
            let mut terms = vec![log_w + frequency.ln()];
            for (&i, &weight) in neighbors.iter().zip(&weights) {
                if y[i] == class {
                    terms.push(weight);
                }
            }
            numerators.push(log_sum_exp(&terms));
        }
        numerators.push(log_w + (unseen / n).ln());
        let total = log_sum_exp(&numerators);
        let mut log_eta: Vec<f64> = numerators.iter().map(|v| v - total).collect();
        let log_unseen = log_eta.pop().expect("the unseen class is the last");
        let mut class = 0;
        for c in 0..classes {
            if log_eta[c] > log_eta[class] {
                class = c;
            }
        }
        // 1 − η_c is computed as the sum of the other probabilities, without cancellation.
        let log_others = |c: usize| {
            let known = (0..classes).filter(|&o| o != c).map(|o| log_eta[o]);
            log_sum_exp(&known.chain([log_unseen]).collect::<Vec<f64>>())
        };
        let mut variances: Vec<f64> = (0..classes).map(|c| log_eta[c] + log_others(c)).collect();
        variances.push(log_unseen + log_sum_exp(&log_eta));
        let largest = variances.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let log_density = self.log_density(q, neighbors, sq);
        let scale = self.log_variance_scale(q, neighbors, sq, log_density);
        let epistemic = |log_v: f64| (2.0 * (2.0 / PI).sqrt()).ln() + 0.5 * (scale + log_v);
        let log_aleatoric = log_others(class);
        let log_epistemic_sum = epistemic(log_sum_exp(&variances));
        ExpectedPrediction {
            class,
            log_aleatoric,
            log_epistemic_sum,
            log_epistemic_max: epistemic(largest),
            log_total_sum: log_sum_exp(&[log_aleatoric, log_epistemic_sum]),
            log_density,
            exponent,
            log_eta,
        }
    }

    /// Predicts a query of a regression with targets `y`. Moments are double sums over pairs, without cancellation.
    pub fn regress(&self, y: &[f64], q: &[f64], neighbors: &[usize], sq: &[f64]) -> ExpectedEstimate {
        let n = y.len() as f64;
        // Log weight, target and own variance of each term. The prior is the last term.
        let (weights, log_w, exponent) = self.relative_weights(q, neighbors, sq);
        let mut terms: Vec<(f64, f64, f64)> =
            weights.iter().zip(neighbors).map(|(&weight, &i)| (weight, y[i], 0.0)).collect();
        let mean_y = y.iter().sum::<f64>() / n;
        let variance_y = y.iter().map(|v| (v - mean_y).powi(2)).sum::<f64>() / n;
        terms.push((log_w, mean_y, variance_y));
        let logs: Vec<f64> = terms.iter().map(|t| t.0).collect();
        let total = log_sum_exp(&logs);
        let mean = terms.iter().map(|t| (t.0 - total).exp() * t.1).sum::<f64>();
        let mut parts = Vec::new();
        for a in 0..terms.len() {
            parts.push(terms[a].0 - total + terms[a].2.ln());
            for b in 0..a {
                let gap = (terms[a].1 - terms[b].1).abs();
                parts.push(terms[a].0 + terms[b].0 - 2.0 * total + 2.0 * gap.ln());
            }
        }
        let log_aleatoric = log_sum_exp(&parts);
        let log_density = self.log_density(q, neighbors, sq);
        let scale = self.log_variance_scale(q, neighbors, sq, log_density);
        ExpectedEstimate { mean, log_aleatoric, log_epistemic: scale + log_aleatoric, exponent }
    }
}

/// All training rows in ascending order of squared distance to `q`. Coordinates are divided by `scale`. Rows at the
/// same distance are ordered by id.
pub fn by_distance(x: &[Vec<f64>], q: &[f64], scale: &[f64]) -> Vec<(f64, usize)> {
    let mut all: Vec<(f64, usize)> = x
        .iter()
        .enumerate()
        .map(|(i, row)| ((0..q.len()).map(|j| ((q[j] - row[j]) / scale[j]).powi(2)).sum(), i))
        .collect();
    all.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
    all
}
