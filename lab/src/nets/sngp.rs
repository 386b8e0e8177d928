//! SNGP head (Liu et al. 2020): a random-feature Gaussian process with a Laplace approximation of its posterior.
//!
//! ```text
//! φ(f) = √(2/D) cos(Ω f / (ℓ √d) + b)          z = βᵀ φ
//! Σ⁻¹  = r I + Σ_i p̂_i (1 − p̂_i) φ_i φ_iᵀ      p̂_i = largest probability of row i
//! ```
//!
//! `D` is the number of random features, `d` the dimension of the features `f`, ℓ the length scale and `r` the ridge. The sum runs over the
//! training rows `i`. Ω and b are random and fixed; β is trained with cross entropy. The precision Σ⁻¹ is accumulated in the last epoch. The
//! output is the mean-field approximation of the logits, `z / √(1 + (π/8) φᵀ Σ φ)`.

use burn::module::{Module, Param};
use burn::tensor::activation::softmax;
use burn::tensor::{Device, Tensor, TensorData};
use faer::linalg::solvers::DenseSolveCore;
use faer::{Mat, Side};
use nuq_neighbors::SeededRng;

use super::layers::{constant, normal};
use crate::LabError;

#[derive(Module, Debug)]
pub(crate) struct SngpHead {
    /// `Ωᵀ / (ℓ √d)`: one column per random feature.
    frequencies: Param<Tensor<2>>,
    /// `b`, as one row.
    phases: Param<Tensor<2>>,
    /// `β`: one column per class.
    weights: Param<Tensor<2>>,
    /// `Σ`; zero until the end of training.
    covariance: Param<Tensor<2>>,
    ridge: f64,
}

impl SngpHead {
    pub(crate) fn new(
        rng: &mut SeededRng,
        [inputs, features, n_classes]: [usize; 3],
        length_scale: f64,
        ridge: f64,
        device: &Device,
    ) -> Self {
        let frequency = 1.0 / (length_scale * (inputs as f64).sqrt());
        let phases: Vec<f32> =
            (0..features).map(|_| (std::f64::consts::TAU * rng.uniform()) as f32).collect();
        Self {
            frequencies: constant(normal(rng, [inputs, features], frequency, device)),
            phases: constant(Tensor::from_data(TensorData::new(phases, [1, features]), device)),
            weights: Param::from_tensor(normal(rng, [features, n_classes], 0.05, device)),
            covariance: constant(Tensor::zeros([features, features], device)),
            ridge,
        }
    }

    /// `φ`, one row per image.
    fn random_features(&self, features: Tensor<2>) -> Tensor<2> {
        let [_, count] = self.frequencies.dims();
        let angles = features.matmul(self.frequencies.val()) + self.phases.val();
        angles.cos().mul_scalar((2.0 / count as f64).sqrt())
    }

    /// `z`, the logits used in training.
    pub(crate) fn plain_logits(&self, features: Tensor<2>) -> Tensor<2> {
        self.random_features(features).matmul(self.weights.val())
    }

    /// Mean-field logits `z / √(1 + (π/8) φᵀ Σ φ)`.
    pub(crate) fn logits(&self, features: Tensor<2>) -> Tensor<2> {
        let phi = self.random_features(features);
        let variances = (phi.clone().matmul(self.covariance.val()) * phi.clone()).sum_dim(1).clamp_min(0.0);
        let divisor = variances.mul_scalar(std::f64::consts::PI / 8.0).add_scalar(1.0).sqrt();
        phi.matmul(self.weights.val()) / divisor
    }

    /// Contribution of a batch to the precision.
    pub(crate) fn precision_of(&self, features: Tensor<2>) -> Tensor<2> {
        let phi = self.random_features(features).inner();
        let largest = softmax(phi.clone().matmul(self.weights.val().inner()), 1).max_dim(1);
        let spread = largest.clone() * largest.neg().add_scalar(1.0);
        (phi.clone() * spread).transpose().matmul(phi)
    }

    /// Computes the covariance from the accumulated precision at the end of training.
    pub(crate) fn finish(&mut self, added: Tensor<2>) -> Result<(), LabError> {
        let [count, _] = added.dims();
        let values = added.into_data().try_into_vec::<f32>().map_err(|e| invalid(&e.to_string()))?;
        let precision = Mat::from_fn(count, count, |i, j| {
            f64::from(values[i * count + j]) + if i == j { self.ridge } else { 0.0 }
        });
        let cholesky = precision
            .llt(Side::Lower)
            .map_err(|_| invalid("has a precision matrix that is not positive definite"))?;
        let inverse = cholesky.inverse();
        let values: Vec<f32> =
            (0..count * count).map(|at| inverse[(at / count, at % count)] as f32).collect();
        let data = TensorData::new(values, [count, count]);
        self.covariance = self.covariance.clone().map(|old| Tensor::from_data(data, &old.device()));
        Ok(())
    }
}

fn invalid(problem: &str) -> LabError {
    LabError::Recipe { option: "head", problem: problem.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn random_features_approximate_the_kernel() {
        let device = Device::flex();
        let head = SngpHead::new(&mut SeededRng::new(1), [2, 20_000, 2], 0.5, 1.0, &device);
        let phi = head.random_features(Tensor::from_data([[0.0, 0.0], [0.6, -0.3]], &device));
        let products: Vec<f32> = phi.clone().matmul(phi.transpose()).into_data().try_into_vec().unwrap();
        // exp(−‖x − y‖² / (2 d ℓ²)), with a standard error of about 1/√20000.
        let kernel = (-(0.36f32 + 0.09) / (2.0 * 2.0 * 0.25)).exp();
        assert!((products[1] - kernel).abs() < 0.03, "{} {kernel}", products[1]);
        assert!((products[0] - 1.0).abs() < 0.03, "{}", products[0]);
    }

    #[test]
    fn logits_near_training_data_are_damped_less() {
        let device = Device::flex().autodiff();
        let mut head = SngpHead::new(&mut SeededRng::new(1), [1, 64, 2], 1.0, 1.0, &device);
        let training = Tensor::<2>::zeros([200, 1], &device);
        head.finish(head.precision_of(training)).unwrap();
        let damping = |at: f32| {
            let features = Tensor::from_data([[at]], &device);
            let plain: Vec<f32> = head.plain_logits(features.clone()).into_data().try_into_vec().unwrap();
            let damped: Vec<f32> = head.logits(features).into_data().try_into_vec().unwrap();
            plain[0] / damped[0]
        };
        assert!(damping(0.0) < 1.01, "{}", damping(0.0));
        // Far from the data, the variance equals the variance of the prior, 1.
        assert!((damping(30.0) - (1.0 + std::f32::consts::PI / 8.0).sqrt()).abs() < 0.1, "{}", damping(30.0));
    }
}
