//! The method, literally: every class, every neighbor, every coordinate, one after the other.
//!
//! Logarithms are used only because the numbers themselves do not fit: a kernel value in 2048 dimensions is
//! below the smallest `f64`.

use std::f64::consts::PI;

/// The kernels.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Kernel {
    /// $(2\pi)^{-1/2} e^{-z^2/2}$ per coordinate.
    Gaussian,
    /// $(2/\pi) / (e^z + e^{-z})$ per coordinate.
    Sigmoid,
    /// $1/(e^z + 2 + e^{-z})$ per coordinate.
    Logistic,
    /// $1/(1 + |z|^2/2)$.
    Student,
}

/// The bandwidths.
#[derive(Debug, Clone)]
pub enum Bandwidth {
    /// One for all.
    Scalar(f64),
    /// One per column.
    PerDimension(Vec<f64>),
    /// One per training point.
    PerPoint(Vec<f64>),
}

impl Bandwidth {
    /// The bandwidth of column `j` for training point `i`.
    fn at(&self, i: usize, j: usize) -> f64 {
        match self {
            Bandwidth::Scalar(h) => *h,
            Bandwidth::PerDimension(h) => h[j],
            Bandwidth::PerPoint(h) => h[i],
        }
    }
}

/// The density of the training points.
#[derive(Debug, Clone)]
pub enum Density {
    /// Kernel density with the posterior's bandwidth.
    Same,
    /// Kernel density whose bandwidth is this many times the posterior's where that is per dimension, and this
    /// where it is not.
    Own(f64),
    /// A log density found in some other way.
    Given(f64),
}

/// A fitted model as its definition sees it.
pub struct Model<'m> {
    /// Training rows.
    pub x: &'m [Vec<f64>],
    /// The kernel.
    pub kernel: Kernel,
    /// The posterior's bandwidth.
    pub bandwidth: Bandwidth,
    /// The density.
    pub density: Density,
    /// The dimension in the constants.
    pub dimension: f64,
    /// The prior weight.
    pub prior_weight: f64,
}

/// What the definitions give for one query.
#[derive(Debug, Clone)]
pub struct Answer {
    /// $\ln \eta_c$ of every class.
    pub log_eta: Vec<f64>,
    /// The class of the largest.
    pub class: usize,
    /// $\ln U_a$.
    pub log_aleatoric: f64,
    /// $\ln U_e$ with the summed variance.
    pub log_epistemic_sum: f64,
    /// $\ln U_e$ with the largest variance.
    pub log_epistemic_max: f64,
    /// $\ln U_t$ with the summed variance.
    pub log_total_sum: f64,
    /// $\ln \hat p$.
    pub log_density: f64,
    /// The size of the exponents that had to be subtracted: digits before the point are lost after it.
    pub exponent: f64,
}

/// What the definitions give for one query of a regression.
#[derive(Debug, Clone)]
pub struct RegressionAnswer {
    /// The mean.
    pub mean: f64,
    /// $\ln \sigma^2$.
    pub log_aleatoric: f64,
    /// $\ln \tau^2$.
    pub log_epistemic: f64,
    /// The size of the exponents that had to be subtracted.
    pub exponent: f64,
}

/// $\ln \sum e^v$.
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
    /// $\ln K(z)$ with all its constants, for query `q` and training point `i`.
    ///
    /// `own` is the density's bandwidth when it is meant. Radial kernels take the squared distance of the table
    /// where it is the plain one, so that both sides start from the same number.
    fn log_kernel(&self, q: &[f64], i: usize, sq_distance: f64, own: Option<f64>) -> f64 {
        let (x, m) = (&self.x[i], self.dimension);
        let h = |j: usize| match (&self.bandwidth, own) {
            (Bandwidth::PerDimension(h), Some(own)) => own * h[j],
            (_, Some(own)) => own,
            (bandwidth, None) => bandwidth.at(i, j),
        };
        let sq_norm = match (&self.bandwidth, own) {
            // The table's distances are those of the scaled space.
            (Bandwidth::PerDimension(_), own) => sq_distance / own.unwrap_or(1.0).powi(2),
            _ => sq_distance / h(0).powi(2),
        };
        // Product kernels: the sum of ln k(z_j)/k(0), which is nothing at all on a training point.
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

    fn log_roughness(&self) -> f64 {
        match self.kernel {
            Kernel::Gaussian => self.dimension * (1.0 / (2.0 * PI.sqrt())).ln(),
            Kernel::Student => 0.0,
            Kernel::Sigmoid => self.dimension * (2.0 / PI.powi(2)).ln(),
            Kernel::Logistic => self.dimension * (1.0f64 / 6.0).ln(),
        }
    }

    /// $\ln K(z_i)$ relative to that of the first neighbor, and the size of the exponents that were subtracted for it:
    /// none where one bandwidth serves all and the difference of the table's squared distances is all it takes.
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

    /// Logs of all weights $K(z_k)/K(0)$ and of the prior's weight, relative to the larger of the first neighbor's and
    /// the prior's.
    fn relative_weights(&self, q: &[f64], neighbors: &[usize], sq: &[f64]) -> (Vec<f64>, f64, f64) {
        let first = self.log_kernel(q, neighbors[0], sq[0], None) - self.log_kernel_at_zero();
        let log_w = self.prior_weight.ln();
        let top = first.max(log_w);
        let mut exponent = 0f64;
        let mut weights = Vec::new();
        for at in 0..neighbors.len() {
            let (weight, size) = self.log_kernel_to_first(q, neighbors, sq, at);
            exponent = exponent.max(size);
            weights.push(weight + (first - top));
        }
        (weights, log_w - top, exponent)
    }

    /// $\ln h^m$ for training point `i`; a bandwidth per dimension counts by its geometric mean.
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

    /// $\ln \|K\|_2^2 / (N h^m \hat p)$. With a bandwidth per point, $h^{-m}$ is the kernel-weighted mean of the
    /// neighbors' $h_i^{-m}$, which makes $N h^m \hat p$ the plain kernel sum when the density has the same.
    fn log_variance_scale(&self, q: &[f64], neighbors: &[usize], sq: &[f64], log_density: f64) -> f64 {
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

    /// A classification with labels `y` in `0..classes`.
    pub fn classify(
        &self,
        y: &[usize],
        classes: usize,
        q: &[f64],
        neighbors: &[usize],
        sq: &[f64],
    ) -> Answer {
        let n = self.x.len() as f64;
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
        let total = log_sum_exp(&numerators);
        let log_eta: Vec<f64> = numerators.iter().map(|v| v - total).collect();
        let mut class = 0;
        for c in 0..classes {
            if log_eta[c] > log_eta[class] {
                class = c;
            }
        }
        // 1 - η_c is the sum of the others: no subtraction.
        let log_others = |c: usize| {
            let others: Vec<f64> = (0..classes).filter(|&o| o != c).map(|o| log_eta[o]).collect();
            log_sum_exp(&others)
        };
        let variances: Vec<f64> = (0..classes).map(|c| log_eta[c] + log_others(c)).collect();
        let largest = variances.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let log_density = self.log_density(q, neighbors, sq);
        let scale = self.log_variance_scale(q, neighbors, sq, log_density);
        let epistemic = |log_v: f64| (2.0 * (2.0 / PI).sqrt()).ln() + 0.5 * (scale + log_v);
        let log_aleatoric = log_others(class);
        let log_epistemic_sum = epistemic(log_sum_exp(&variances));
        Answer {
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

    /// A regression with targets `y`: moments as double sums over pairs, which cannot cancel.
    pub fn regress(&self, y: &[f64], q: &[f64], neighbors: &[usize], sq: &[f64]) -> RegressionAnswer {
        let n = y.len() as f64;
        // Every term: log weight, target, variance of its own. The prior is the last.
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
        RegressionAnswer { mean, log_aleatoric, log_epistemic: scale + log_aleatoric, exponent }
    }
}

/// All training points by squared distance to `q` (coordinates divided by `scale`), nearest first, ties by id.
pub fn by_distance(x: &[Vec<f64>], q: &[f64], scale: &[f64]) -> Vec<(f64, usize)> {
    let mut all: Vec<(f64, usize)> = x
        .iter()
        .enumerate()
        .map(|(i, row)| ((0..q.len()).map(|j| ((q[j] - row[j]) / scale[j]).powi(2)).sum(), i))
        .collect();
    all.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
    all
}
