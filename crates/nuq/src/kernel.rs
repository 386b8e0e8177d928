//! The kernels `K(z) = Π_j k(z_j)` with `z = (x − x_i)/h`. They give each neighbor `x_i` of a query `x` a weight.
//!
//! | kernel | `k(z)` | `∫k²` | computed from |
//! | --- | --- | --- | --- |
//! | gaussian | `(2π)^(−1/2) e^(−z²/2)` | `1/(2√π)` | squared distance |
//! | sigmoid | `(2/π) / (e^z + e^−z)` | `2/π²` | coordinate differences |
//! | logistic | `1 / (e^z + 2 + e^−z)` | `1/6` | coordinate differences |
//! | student | `1 / (1 + ‖z‖²/2)`, radial, not a density | taken as 1 | squared distance |

use std::f64::consts::{LN_2, PI};

use nuq_neighbors::choices;

use crate::Error;

/// The kernel that weights the neighbors.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Kernel {
    /// The default. It is radial and the fastest to compute.
    #[default]
    Gaussian,
    /// Product of hyperbolic secants, with tails like `e^(−|z|)`.
    Sigmoid,
    /// Product of logistic densities, with tails like `e^(−|z|)` and close to the Gaussian near zero.
    Logistic,
    /// The heavy-tailed kernel in the code of the paper's authors. It is not a density: `‖K‖₂²` is taken as 1, and
    /// uncertainties are defined up to a constant only.
    Student,
}

choices!(Kernel, "kernel", {
    Gaussian => "gaussian" | "rbf",
    Sigmoid => "sigmoid",
    Logistic => "logistic",
    Student => "student",
});

impl Kernel {
    /// Whether the kernel is a function of `‖z‖`. It can then be computed from the distances to the neighbors.
    #[must_use]
    pub fn is_radial(self) -> bool {
        matches!(self, Kernel::Gaussian | Kernel::Student)
    }

    /// Rejects a kernel that is computed from the coordinates of the neighbors.
    pub(crate) fn check_without_rows(self) -> Result<(), Error> {
        if self.is_radial() { Ok(()) } else { Err(Error::KernelNeedsRows { kernel: self }) }
    }

    /// `ln K(0)` in `dimension` dimensions.
    ///
    /// ```
    /// # use nuq::Kernel;
    /// assert_eq!(Kernel::Logistic.log_peak(2.0), (1.0f64 / 16.0).ln());
    /// ```
    #[must_use]
    pub fn log_peak(self, dimension: f64) -> f64 {
        match self {
            Kernel::Gaussian => -0.5 * dimension * (2.0 * PI).ln(),
            Kernel::Sigmoid => -dimension * PI.ln(),
            Kernel::Logistic => -dimension * 2.0 * LN_2,
            Kernel::Student => 0.0,
        }
    }

    /// `ln ‖K‖₂² = d ln ∫k²` in `dimension` dimensions.
    ///
    /// ```
    /// # use nuq::Kernel;
    /// assert_eq!(Kernel::Logistic.log_sq_norm(1.0), -(6.0f64.ln()));
    /// ```
    #[must_use]
    pub fn log_sq_norm(self, dimension: f64) -> f64 {
        match self {
            Kernel::Gaussian => -dimension * (2.0 * PI.sqrt()).ln(),
            Kernel::Sigmoid => dimension * (2.0 / (PI * PI)).ln(),
            Kernel::Logistic => -dimension * 6f64.ln(),
            Kernel::Student => 0.0,
        }
    }

    /// `ln K(z)/K(0)` of a radial kernel from `‖z‖²`.
    pub(crate) fn log_ratio_at(self, sq_norm: f64) -> f64 {
        match self {
            Kernel::Gaussian => -0.5 * sq_norm,
            Kernel::Student => -(0.5 * sq_norm).ln_1p(),
            Kernel::Sigmoid | Kernel::Logistic => unreachable!("product kernels need coordinates"),
        }
    }

    /// `ln K(z)/K(z′)` of a radial kernel from `‖z′‖²` and `‖z‖² − ‖z′‖²`.
    pub(crate) fn log_gap(self, sq_norm: f64, gap: f64) -> f64 {
        match self {
            Kernel::Gaussian => -0.5 * gap,
            Kernel::Student => -(0.5 * gap / (1.0 + 0.5 * sq_norm)).ln_1p(),
            Kernel::Sigmoid | Kernel::Logistic => unreachable!("product kernels need coordinates"),
        }
    }

    /// `ln K(z)/K(0)` from the coordinates of `z`. The ratio is `Π sech z_j` for the sigmoid kernel and `Π sech² (z_j/2)` for
    /// the logistic kernel.
    pub(crate) fn log_ratio(self, z: impl Iterator<Item = f64>) -> f64 {
        match self {
            Kernel::Gaussian | Kernel::Student => self.log_ratio_at(z.map(|z| z * z).sum()),
            Kernel::Sigmoid => log_product_of_sech(z),
            Kernel::Logistic => 2.0 * log_product_of_sech(z.map(|z| 0.5 * z)),
        }
    }
}

/// `Σ_j ln sech t_j = −Σ_j |t_j| − ln Π_j ½(1 + e^(−2|t_j|))`, exactly 0 at 0.
///
/// For speed, one logarithm is computed for a product of up to 1000 factors. Each factor lies between ½ and 1, so the
/// product does not underflow.
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

    /// Simpson's rule from −40 to 40, with an error below 1e-10.
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
