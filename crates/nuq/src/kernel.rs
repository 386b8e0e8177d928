//! The kernels $K$ that turn distances into weights.
//!
//! $$K(z) = \prod_{j=1}^{d} k(z_j), \qquad z = (x - x_i)/h$$
//!
//! | kernel | $k(z)$ | $\int k^2$ | needs |
//! | --- | --- | --- | --- |
//! | gaussian | $(2\pi)^{-1/2} e^{-z^2/2}$ | $1/(2\sqrt\pi)$ | squared distance |
//! | sigmoid | $\frac{2}{\pi} / (e^z + e^{-z})$ | $2/\pi^2$ | coordinate differences |
//! | logistic | $1/(e^z + 2 + e^{-z})$ | $1/6$ | coordinate differences |
//! | student | $1/(1 + \lVert z\rVert^2/2)$, radial, not a density | taken as 1 | squared distance |

use std::f64::consts::{LN_2, PI};

use nuq_neighbors::choices;

/// Which kernel weighs the neighbors.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Kernel {
    /// The default: smooth, radial, cheapest.
    #[default]
    Gaussian,
    /// Product of hyperbolic secants; tails like $e^{-|z|}$.
    Sigmoid,
    /// Product of logistic densities; tails like $e^{-|z|}$, close to the Gaussian in the middle.
    Logistic,
    /// Heavy-tailed, of the authors' code. Not a density: $\|K\|_2^2$ is taken as 1, and uncertainties are
    /// right up to a constant only.
    Student,
}

choices!(Kernel, "kernel", {
    Gaussian => "gaussian" | "rbf",
    Sigmoid => "sigmoid",
    Logistic => "logistic",
    Student => "student",
});

impl Kernel {
    /// Whether the kernel depends on $z$ through $\|z\|$ alone, so that neighbor distances are all it needs.
    pub fn is_radial(self) -> bool {
        matches!(self, Kernel::Gaussian | Kernel::Student)
    }

    /// $\ln K(0)$ in `dimension` dimensions.
    ///
    /// ```
    /// # use nuq::Kernel;
    /// assert_eq!(Kernel::Logistic.log_peak(2.0), (1.0f64 / 16.0).ln());
    /// ```
    pub fn log_peak(self, dimension: f64) -> f64 {
        match self {
            Kernel::Gaussian => -0.5 * dimension * (2.0 * PI).ln(),
            Kernel::Sigmoid => -dimension * PI.ln(),
            Kernel::Logistic => -dimension * 2.0 * LN_2,
            Kernel::Student => 0.0,
        }
    }

    /// $\ln \|K\|_2^2 = d \ln \int k^2$ in `dimension` dimensions.
    ///
    /// ```
    /// # use nuq::Kernel;
    /// assert_eq!(Kernel::Logistic.log_sq_norm(1.0), -(6.0f64.ln()));
    /// ```
    pub fn log_sq_norm(self, dimension: f64) -> f64 {
        match self {
            Kernel::Gaussian => -dimension * (2.0 * PI.sqrt()).ln(),
            Kernel::Sigmoid => dimension * (2.0 / (PI * PI)).ln(),
            Kernel::Logistic => -dimension * 6f64.ln(),
            Kernel::Student => 0.0,
        }
    }

    /// $\ln K(z)/K(0)$ of a radial kernel from $\|z\|^2$.
    pub(crate) fn log_ratio_at(self, sq_norm: f64) -> f64 {
        match self {
            Kernel::Gaussian => -0.5 * sq_norm,
            Kernel::Student => -(0.5 * sq_norm).ln_1p(),
            Kernel::Sigmoid | Kernel::Logistic => unreachable!("product kernels take coordinates"),
        }
    }

    /// $\ln K(z)/K(z')$ of a radial kernel from $\|z'\|^2$ and $\|z\|^2 - \|z'\|^2$.
    pub(crate) fn log_gap(self, sq_norm: f64, gap: f64) -> f64 {
        match self {
            Kernel::Gaussian => -0.5 * gap,
            Kernel::Student => -(0.5 * gap / (1.0 + 0.5 * sq_norm)).ln_1p(),
            Kernel::Sigmoid | Kernel::Logistic => unreachable!("product kernels take coordinates"),
        }
    }

    /// $\ln K(z)/K(0)$ from the coordinates of $z$.
    ///
    /// $\operatorname{sech}$ is the building block of both product kernels: the ratio is
    /// $\prod \operatorname{sech} z_j$ for the sigmoid and $\prod \operatorname{sech}^2 (z_j/2)$ for the logistic.
    pub(crate) fn log_ratio(self, z: impl Iterator<Item = f64>) -> f64 {
        match self {
            Kernel::Gaussian | Kernel::Student => self.log_ratio_at(z.map(|z| z * z).sum()),
            Kernel::Sigmoid => log_product_of_sech(z),
            Kernel::Logistic => 2.0 * log_product_of_sech(z.map(|z| 0.5 * z)),
        }
    }
}

/// $\sum_j \ln \operatorname{sech} t_j = -\sum_j |t_j| - \ln \prod_j \tfrac12 (1 + e^{-2|t_j|})$, exactly 0 at 0.
///
/// The product gathers up to 1000 factors, each between ½ and 1, before one logarithm is taken of it.
fn log_product_of_sech(t: impl Iterator<Item = f64>) -> f64 {
    let (mut sum, mut product, mut factors) = (0.0, 1.0f64, 0);
    for t in t {
        sum -= t.abs();
        product *= 0.5 + 0.5 * (-2.0 * t.abs()).exp();
        factors += 1;
        if factors == 1000 {
            sum -= product.ln();
            (product, factors) = (1.0, 0);
        }
    }
    sum - product.ln()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Simpson's rule over ±40, fine enough for 1e-10.
    fn integrate(f: impl Fn(f64) -> f64) -> f64 {
        let n = 80_000;
        let step = 80.0 / n as f64;
        let weight = |i: usize| if i == 0 || i == n { 1.0 } else { 2.0 + 2.0 * (i % 2) as f64 };
        (0..=n).map(|i| weight(i) * f(-40.0 + i as f64 * step)).sum::<f64>() * step / 3.0
    }

    #[test]
    fn kernels_are_densities_with_the_stated_roughness() {
        for kernel in [Kernel::Gaussian, Kernel::Sigmoid, Kernel::Logistic] {
            let k = |z: f64| (kernel.log_peak(1.0) + kernel.log_ratio([z].into_iter())).exp();
            assert!((integrate(k) - 1.0).abs() < 1e-10, "{kernel:?}");
            let roughness = integrate(|z| k(z).powi(2));
            assert!((roughness.ln() - kernel.log_sq_norm(1.0)).abs() < 1e-10, "{kernel:?}");
        }
    }

    #[test]
    fn product_kernels_stay_finite_a_million_bandwidths_away() {
        for kernel in [Kernel::Sigmoid, Kernel::Logistic] {
            let far = kernel.log_ratio(std::iter::repeat_n(1e6, 2048));
            assert!((far / -(2048.0 * 1e6) - 1.0).abs() < 1e-5, "{kernel:?} {far}");
            assert_eq!(kernel.log_ratio(std::iter::repeat_n(0.0, 2048)), 0.0);
        }
    }
}
