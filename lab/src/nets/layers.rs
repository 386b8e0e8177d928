//! Layers whose first weights follow from a seed alone.
//!
//! burn draws first weights from a generator that all threads share; here each model draws its own.

use burn::module::{Module, Param};
use burn::nn::conv::{Conv2d, Conv2dConfig};
use burn::nn::{BatchNorm, BatchNormConfig, Initializer, Linear, LinearConfig, PaddingConfig2d};
use burn::tensor::{Device, Tensor, TensorData};
use nuq_neighbors::SeededRng;

/// Normal numbers around zero.
pub(crate) fn normal<const D: usize>(
    rng: &mut SeededRng,
    shape: [usize; D],
    deviation: f64,
    device: &Device,
) -> Tensor<D> {
    let values: Vec<f32> = (0..shape.iter().product()).map(|_| (deviation * rng.normal()) as f32).collect();
    Tensor::from_data(TensorData::new(values, shape), device)
}

/// A tensor that belongs to the model and its checkpoint and that no gradient changes.
pub(crate) fn constant<const D: usize>(value: Tensor<D>) -> Param<Tensor<D>> {
    Param::from_tensor(value).set_require_grad(false)
}

/// A linear layer, its weights by He et al. for rectified units, its bias zero.
pub(crate) fn linear(rng: &mut SeededRng, inputs: usize, outputs: usize, device: &Device) -> Linear {
    let mut layer = LinearConfig::new(inputs, outputs).with_initializer(Initializer::Zeros).init(device);
    layer.weight = Param::from_tensor(normal(rng, [inputs, outputs], (2.0 / inputs as f64).sqrt(), device));
    layer
}

/// A convolution that keeps the size of a picture (divided by its stride), and batch normalization, which has the bias.
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
        let edge = size / 2;
        let mut conv = Conv2dConfig::new([inputs, outputs], [size, size])
            .with_stride([stride, stride])
            .with_padding(PaddingConfig2d::Explicit(edge, edge, edge, edge))
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

/// The average of each channel over all positions.
pub(crate) fn average_positions(input: Tensor<4>) -> Tensor<2> {
    let [pictures, channels, height, width] = input.dims();
    input.reshape([pictures, channels, height * width]).mean_dim(2).reshape([pictures, channels])
}
