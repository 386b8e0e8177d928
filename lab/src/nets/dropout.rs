//! Dropout (Srivastava et al. 2014) with seeded masks, for training and MC dropout.

use burn::tensor::{Tensor, TensorData};
use nuq_neighbors::SeededRng;

/// Sets each feature to zero with the given probability and scales the others, so that the expectation is unchanged.
pub(crate) fn dropout(features: Tensor<2>, probability: f64, rng: &mut SeededRng) -> Tensor<2> {
    if probability == 0.0 {
        return features;
    }
    let shape = features.dims();
    let scale = (1.0 / (1.0 - probability)) as f32;
    let mask: Vec<f32> =
        (0..shape[0] * shape[1]).map(|_| if rng.uniform() < probability { 0.0 } else { scale }).collect();
    let mask = Tensor::from_data(TensorData::new(mask, shape), &features.device());
    features * mask
}

#[cfg(test)]
mod tests {
    use burn::tensor::Device;

    use super::*;

    #[test]
    fn dropout_zeroes_and_rescales() {
        let ones = Tensor::ones([100, 100], &Device::flex());
        let dropped: Vec<f32> =
            dropout(ones, 0.25, &mut SeededRng::new(2)).into_data().try_into_vec().unwrap();
        let zeros = dropped.iter().filter(|&&value| value == 0.0).count();
        // Within five standard deviations of the binomial distribution.
        assert!((zeros as f64 - 2500.0).abs() < 5.0 * (1e4f64 * 0.25 * 0.75).sqrt(), "{zeros}");
        assert!(dropped.iter().all(|&value| value == 0.0 || (value - 4.0 / 3.0).abs() < 1e-6));
    }
}
