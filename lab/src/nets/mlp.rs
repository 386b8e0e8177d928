//! Multilayer perceptron with ReLU.

use burn::module::Module;
use burn::nn::Linear;
use burn::tensor::activation::relu;
use burn::tensor::{Device, Tensor};
use nuq_neighbors::SeededRng;

use super::layers::linear;

#[derive(Module, Debug)]
pub(crate) struct Mlp {
    layers: Vec<Linear>,
}

impl Mlp {
    pub(crate) fn new(rng: &mut SeededRng, inputs: usize, hidden: &[usize], device: &Device) -> Self {
        let input_widths = std::iter::once(&inputs).chain(hidden);
        let layers = input_widths.zip(hidden).map(|(&from, &to)| linear(rng, from, to, device)).collect();
        Self { layers }
    }

    pub(crate) fn features(&self, images: Tensor<4>) -> Tensor<2> {
        let [batch_size, channels, height, width] = images.dims();
        let flat = images.reshape([batch_size, channels * height * width]);
        self.layers.iter().fold(flat, |input, layer| relu(layer.forward(input)))
    }
}
