//! DUQ head (van Amersfoort et al. 2020): one RBF kernel around a centroid per class, in a class-specific projection.
//!
//! ```text
//! ln K_c(x) = −‖W_c f(x) − e_c‖² / (2 n σ²)
//! ```
//!
//! `W_c` projects the features `f(x)` to `n` dimensions, and `σ` is the length scale. The kernels are trained with binary cross entropy, one
//! class against the rest. In the centroids `e_c = m_c / N_c`, `m_c` and `N_c` are moving averages over batches: of the sum of the projected
//! features of class `c`, and of the number of its images.

use burn::module::{Module, Param};
use burn::tensor::{Device, Tensor};
use nuq_neighbors::SeededRng;

use super::layers::{constant, normal};

/// The loss clamps kernels to at most `1 − MIN_GAP`, so that `ln(1 − K)` is finite.
const MIN_GAP: f64 = 1e-6;

#[derive(Module, Debug)]
pub(crate) struct DuqHead {
    /// `W`: one row per feature, `n` columns per class.
    weights: Param<Tensor<2>>,
    /// `m`: one row per class.
    sums: Param<Tensor<2>>,
    /// `N`: one row per class.
    counts: Param<Tensor<2>>,
    length_scale: f64,
    momentum: f64,
}

impl DuqHead {
    pub(crate) fn new(
        rng: &mut SeededRng,
        [inputs, projection, n_classes]: [usize; 3],
        length_scale: f64,
        momentum: f64,
        device: &Device,
    ) -> Self {
        let deviation = (1.0 / inputs as f64).sqrt();
        Self {
            weights: Param::from_tensor(normal(rng, [inputs, n_classes * projection], deviation, device)),
            sums: constant(normal(rng, [n_classes, projection], 0.05, device)),
            counts: constant(Tensor::ones([n_classes, 1], device)),
            length_scale,
            momentum,
        }
    }

    /// `W_c f`, of shape images × classes × n.
    fn project(&self, features: Tensor<2>) -> Tensor<3> {
        let [batch_size, _] = features.dims();
        let [n_classes, projection] = self.sums.dims();
        features.matmul(self.weights.val()).reshape([batch_size, n_classes, projection])
    }

    /// `ln K_c`, of shape images × classes.
    pub(crate) fn log_kernels(&self, features: Tensor<2>) -> Tensor<2> {
        let [batch_size, _] = features.dims();
        let [n_classes, _] = self.sums.dims();
        let centroids = (self.sums.val() / self.counts.val()).unsqueeze::<3>();
        let sq_distances = (self.project(features) - centroids).square().mean_dim(2);
        sq_distances.reshape([batch_size, n_classes]).div_scalar(-2.0 * self.length_scale * self.length_scale)
    }

    /// Binary cross entropy of one-hot labels, summed over classes.
    pub(crate) fn loss(&self, log_kernels: Tensor<2>, one_hot: Tensor<2>) -> Tensor<1> {
        let others = one_hot.clone().neg().add_scalar(1.0);
        let log_complement = log_kernels.clone().exp().clamp_max(1.0 - MIN_GAP).neg().log1p();
        (one_hot * log_kernels + others * log_complement).sum_dim(1).mean().neg()
    }

    /// Updates the moving averages of the centroids with the features of the batch, projected by the updated head. (The authors of DUQ
    /// compute the features again with the updated network, at twice the cost. The features change little in one step.)
    pub(crate) fn update_centroids(&mut self, features: Tensor<2>, one_hot: Tensor<2>) {
        let [batch_size, n_classes] = one_hot.dims();
        let projected = self.project(features).inner();
        let of_class = one_hot.inner().reshape([batch_size, n_classes, 1]);
        let [_, projection] = self.sums.dims();
        let new_sums = (projected * of_class.clone()).sum_dim(0).reshape([n_classes, projection]);
        let new_counts = of_class.sum_dim(0).reshape([n_classes, 1]);
        let momentum = self.momentum;
        let average = |old: Tensor<2>, new: Tensor<2>| {
            Tensor::from_inner(old.inner().mul_scalar(momentum) + new.mul_scalar(1.0 - momentum))
        };
        self.sums = self.sums.clone().map(|old| average(old, new_sums));
        self.counts = self.counts.clone().map(|old| average(old, new_counts));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(device: &Device) -> DuqHead {
        let mut head = DuqHead::new(&mut SeededRng::new(0), [2, 2, 2], 0.5, 0.5, device);
        // W_0 = I, W_1 = 2 I.
        let weights = [[1.0, 0.0, 2.0, 0.0], [0.0, 1.0, 0.0, 2.0]];
        head.weights = Param::from_tensor(Tensor::from_data(weights, device));
        head.sums = constant(Tensor::from_data([[0.0, 0.0], [2.0, 2.0]], device));
        head
    }

    #[test]
    fn log_kernels_have_expected_values() {
        let device = Device::flex();
        let log_kernels = head(&device).log_kernels(Tensor::from_data([[1.0, 1.0], [3.0, 1.0]], &device));
        // At (3, 1): (9 + 1) / (2 · 2 · 0.25) and ((6 − 2)² + 0) / (2 · 2 · 0.25).
        let values: Vec<f32> = log_kernels.into_data().try_into_vec().unwrap();
        assert_eq!(values, [-2.0, 0.0, -10.0, -16.0]);
    }

    #[test]
    fn centroids_are_moving_averages() {
        let device = Device::flex().autodiff();
        let mut head = head(&device);
        let features = Tensor::from_data([[1.0, 3.0], [3.0, 5.0]], &device);
        head.update_centroids(features, Tensor::from_data([[1.0, 0.0], [1.0, 0.0]], &device));
        let sums: Vec<f32> = head.sums.val().into_data().try_into_vec().unwrap();
        let counts: Vec<f32> = head.counts.val().into_data().try_into_vec().unwrap();
        assert_eq!(sums, [2.0, 4.0, 1.0, 1.0]);
        assert_eq!(counts, [1.5, 0.5]);
    }

    #[test]
    fn loss_of_kernels_one_half_is_ln_2_per_class() {
        let device = Device::flex();
        let half = Tensor::from_data([[0.5f32.ln(), 0.5f32.ln()]], &device);
        let loss: f32 = head(&device).loss(half, Tensor::from_data([[1.0, 0.0]], &device)).into_scalar();
        assert!((loss - 2.0 * std::f32::consts::LN_2).abs() < 1e-6, "{loss}");
    }
}
