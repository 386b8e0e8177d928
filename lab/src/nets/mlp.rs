//! Linear layers with rectified units.

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
        let widths_before = std::iter::once(&inputs).chain(hidden);
        let layers = widths_before.zip(hidden).map(|(&from, &to)| linear(rng, from, to, device)).collect();
        Self { layers }
    }

    pub(crate) fn features(&self, images: Tensor<4>) -> Tensor<2> {
        let [pictures, channels, height, width] = images.dims();
        let flat = images.reshape([pictures, channels * height * width]);
        self.layers.iter().fold(flat, |input, layer| relu(layer.forward(input)))
    }
}
