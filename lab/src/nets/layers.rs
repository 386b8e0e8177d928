//! Layers with seeded initial weights.
//!
//! burn draws initial weights from a generator that all threads share. Here each model has its own generator, so that initial weights
//! depend only on the seed.

use burn::module::{Module, Param};
use burn::nn::conv::{Conv2d, Conv2dConfig};
use burn::nn::{BatchNorm, BatchNormConfig, Initializer, Linear, LinearConfig, PaddingConfig2d};
use burn::tensor::{Device, Tensor, TensorData};
use nuq_neighbors::SeededRng;

/// A tensor of normal random numbers with mean zero.
pub(crate) fn normal<const D: usize>(
    rng: &mut SeededRng,
    shape: [usize; D],
    deviation: f64,
    device: &Device,
) -> Tensor<D> {
    let values: Vec<f32> = (0..shape.iter().product()).map(|_| (deviation * rng.normal()) as f32).collect();
    Tensor::from_data(TensorData::new(values, shape), device)
}

/// A tensor that is part of the model and its checkpoint but is not trained by gradients.
pub(crate) fn constant<const D: usize>(value: Tensor<D>) -> Param<Tensor<D>> {
    Param::from_tensor(value).set_require_grad(false)
}

/// A linear layer with He initialization for ReLU and zero bias.
pub(crate) fn linear(rng: &mut SeededRng, inputs: usize, outputs: usize, device: &Device) -> Linear {
    let mut layer = LinearConfig::new(inputs, outputs).with_initializer(Initializer::Zeros).init(device);
    layer.weight = Param::from_tensor(normal(rng, [inputs, outputs], (2.0 / inputs as f64).sqrt(), device));
    layer
}

/// A convolution with same padding and without bias, followed by batch normalization.
#[derive(Module, Debug)]
pub(crate) struct ConvNorm {
    conv: Conv2d,
    norm: BatchNorm,
}

impl ConvNorm {
    pub(crate) fn new(
        rng: &mut SeededRng,
        [inputs, outputs]: [usize; 2],
        size: usize,
        stride: usize,
        device: &Device,
    ) -> Self {
        let padding = size / 2;
        let mut conv = Conv2dConfig::new([inputs, outputs], [size, size])
            .with_stride([stride, stride])
            .with_padding(PaddingConfig2d::Explicit(padding, padding, padding, padding))
            .with_bias(false)
            .with_initializer(Initializer::Zeros)
            .init(device);
        let deviation = (2.0 / (inputs * size * size) as f64).sqrt();
        conv.weight = Param::from_tensor(normal(rng, [outputs, inputs, size, size], deviation, device));
        Self { conv, norm: BatchNormConfig::new(outputs).init(device) }
    }

    pub(crate) fn forward(&self, input: Tensor<4>) -> Tensor<4> {
        self.norm.forward(self.conv.forward(input))
    }
}

/// Global average pooling: the mean of each channel over all positions.
pub(crate) fn global_average_pool(input: Tensor<4>) -> Tensor<2> {
    let [batch_size, channels, height, width] = input.dims();
    input.reshape([batch_size, channels, height * width]).mean_dim(2).reshape([batch_size, channels])
}
