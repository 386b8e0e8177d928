//! The paper's MNIST network: three 3 × 3 convolutions, each with batch normalization and ReLU, with max pooling after the first two, then average pooling over [`CNN_REGIONS`] ×
//! [`CNN_REGIONS`] regions and an optional linear layer.

use burn::module::Module;
use burn::nn::Linear;
use burn::tensor::activation::relu;
use burn::tensor::module::{adaptive_avg_pool2d, max_pool2d};
use burn::tensor::ops::MaxPoolOptions;
use burn::tensor::{Device, Tensor};
use nuq_neighbors::SeededRng;

use super::layers::{ConvNorm, linear};
use crate::training::CNN_REGIONS;

/// Smallest image side that can be halved by each of the two max-pooling layers.
pub(crate) const SMALLEST_SIDE: usize = 4;

#[derive(Module, Debug)]
pub(crate) struct Cnn {
    convolutions: Vec<ConvNorm>,
    embedding: Option<Linear>,
}

impl Cnn {
    pub(crate) fn new(
        rng: &mut SeededRng,
        channels: usize,
        widths: [usize; 3],
        embedding: Option<usize>,
        device: &Device,
    ) -> Self {
        let pairs = [[channels, widths[0]], [widths[0], widths[1]], [widths[1], widths[2]]];
        Self {
            convolutions: pairs.into_iter().map(|pair| ConvNorm::new(rng, pair, 3, 1, device)).collect(),
            embedding: embedding
                .map(|width| linear(rng, widths[2] * CNN_REGIONS * CNN_REGIONS, width, device)),
        }
    }

    pub(crate) fn features(&self, images: Tensor<4>) -> Tensor<2> {
        let mut maps = images;
        for (i, convolution) in self.convolutions.iter().enumerate() {
            maps = relu(convolution.forward(maps));
            if i + 1 < self.convolutions.len() {
                maps = max_pool2d(maps, MaxPoolOptions::new([2, 2]));
            }
        }
        let [batch_size, channels, _, _] = maps.dims();
        let averages = adaptive_avg_pool2d(maps, [CNN_REGIONS, CNN_REGIONS]);
        let averages = averages.reshape([batch_size, channels * CNN_REGIONS * CNN_REGIONS]);
        match &self.embedding {
            Some(layer) => relu(layer.forward(averages)),
            None => averages,
        }
    }
}
