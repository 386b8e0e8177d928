//! Dropout (Srivastava et al. 2014) with masks that follow from a seed, in training and for MC dropout alike.

use burn::tensor::{Tensor, TensorData};
use nuq_neighbors::SeededRng;

/// Features of which a share is zero, the rest scaled up so that their mean stays.
pub(crate) fn dropout(features: Tensor<2>, share: f64, rng: &mut SeededRng) -> Tensor<2> {
    if share == 0.0 {
        return features;
    }
    let shape = features.dims();
    let scale = (1.0 / (1.0 - share)) as f32;
    let mask: Vec<f32> =
        (0..shape[0] * shape[1]).map(|_| if rng.uniform() < share { 0.0 } else { scale }).collect();
    let mask = Tensor::from_data(TensorData::new(mask, shape), &features.device());
    features * mask
}

#[cfg(test)]
mod tests {
    use burn::tensor::Device;

    use super::*;

    #[test]
    fn a_share_is_dropped_and_the_mean_stays() {
        let ones = Tensor::ones([100, 100], &Device::flex());
        let dropped: Vec<f32> =
            dropout(ones, 0.25, &mut SeededRng::new(2)).into_data().try_into_vec().unwrap();
        let zeros = dropped.iter().filter(|&&value| value == 0.0).count();
        // Five standard deviations of a binomial count.
        assert!((zeros as f64 - 2500.0).abs() < 5.0 * (1e4f64 * 0.25 * 0.75).sqrt(), "{zeros}");
        assert!(dropped.iter().all(|&value| value == 0.0 || (value - 4.0 / 3.0).abs() < 1e-6));
    }
}
