//! Spectral normalization (Miyato et al. 2018): no layer stretches any direction by more than a bound.
//!
//! After each step of training every weight $W$ of a convolution or linear layer is divided by $\max(1, \hat\sigma / c)$, where
//! $\hat\sigma$ approaches its largest singular value by power iteration: $v \leftarrow W^\top u$, $u \leftarrow W v$, each scaled to length one,
//! $\hat\sigma = u^\top W v$. The vectors $u$ are kept from step to step, so three iterations follow the slowly moving weights; before
//! training and after it many more make the bound hold to rounding.
//!
//! As in PyTorch's implementation, which the paper uses, the matrix of a convolution is its kernel as
//! `[out, in · height · width]`, whose norm is not that of the convolution itself but bounds it up to the square root of the kernel's
//! positions. Weights are projected, as SNGP does, where PyTorch always divides by $\hat\sigma$: a layer may also stretch less. Batch normalization between the
//! layers is left alone and may stretch again. Heads of DUQ and SNGP are no layers of the network and stay as they are.

use std::collections::BTreeMap;

use burn::optim::GradientsParams;
use burn::tensor::{Tensor, TensorData};
use nuq_neighbors::SeededRng;

use super::{Model, Weight, change_weights};
use crate::stream::stream;
use crate::training::{HeadKind, Recipe, Spectral};

/// Iterations before training and after it.
const THOROUGH_STEPS: usize = 200;

/// The bound on all layers of a model, with what the power iteration remembers.
#[derive(Debug)]
pub(crate) struct SpectralBound {
    settings: Spectral,
    includes_head: bool,
    rng: SeededRng,
    /// $u$ of each weight, by its path.
    pub(crate) directions: BTreeMap<String, Tensor<1>>,
}

impl SpectralBound {
    /// The recipe's bound, if it has one.
    pub(crate) fn new(recipe: &Recipe) -> Option<Self> {
        recipe.spectral.map(|settings| Self {
            settings,
            includes_head: recipe.head == HeadKind::Softmax,
            rng: stream("power iteration", recipe.seed, 0),
            directions: BTreeMap::new(),
        })
    }

    /// Follows the weights after a step of training.
    pub(crate) fn follow(&mut self, model: Model) -> Model {
        self.project(model, self.settings.power_steps)
    }

    /// Makes the bound hold to rounding.
    pub(crate) fn settle(&mut self, model: Model) -> Model {
        self.project(model, THOROUGH_STEPS)
    }

    fn project(&mut self, model: Model, steps: usize) -> Model {
        change_weights(model, GradientsParams::new(), |weight| {
            let is_layer = matches!(weight.dims.len(), 2 | 4) && weight.path.ends_with("weight");
            let is_in_body = weight.path.starts_with("body");
            (is_layer && (is_in_body || self.includes_head)).then(|| self.bounded(weight, steps))
        })
    }

    fn bounded(&mut self, weight: Weight, steps: usize) -> Tensor<1> {
        let [rows, length] = [weight.dims[0], weight.values.dims()[0]];
        let matrix = weight.values.clone().reshape([rows, length / rows]);
        let mut u = match self.directions.get(&weight.path) {
            Some(known) => known.clone(),
            None => self.random_direction(&matrix),
        }
        .reshape([rows, 1]);
        let mut v = Tensor::zeros([length / rows, 1], &matrix.device());
        for _ in 0..steps {
            v = unit(matrix.clone().transpose().matmul(u));
            u = unit(matrix.clone().matmul(v.clone()));
        }
        let sigma = (u.clone() * matrix.matmul(v)).sum();
        self.directions.insert(weight.path, u.reshape([rows]));
        weight.values / sigma.div_scalar(self.settings.bound).clamp_min(1.0)
    }

    fn random_direction(&mut self, matrix: &Tensor<2>) -> Tensor<1> {
        let [rows, _] = matrix.dims();
        let values: Vec<f32> = (0..rows).map(|_| self.rng.normal() as f32).collect();
        Tensor::from_data(TensorData::new(values, [rows]), &matrix.device())
    }
}

fn unit(vector: Tensor<2>) -> Tensor<2> {
    let length = vector.clone().square().sum().sqrt().clamp_min(1e-12);
    vector / length.unsqueeze::<2>()
}

#[cfg(test)]
pub(crate) mod tests {
    use burn::module::Module;
    use burn::tensor::Device;
    use faer::Mat;

    use super::super::for_each_weight;
    use super::*;

    /// Largest singular values of all layers by a full decomposition, with their paths.
    pub(crate) fn largest_singular_values(model: &Model) -> Vec<(String, f64)> {
        let mut found = Vec::new();
        for_each_weight(model, |weight| {
            if matches!(weight.dims.len(), 2 | 4) && weight.path.ends_with("weight") {
                let values: Vec<f32> = weight.values.into_data().try_into_vec().unwrap();
                let [rows, columns] = [weight.dims[0], values.len() / weight.dims[0]];
                let matrix = Mat::from_fn(rows, columns, |i, j| f64::from(values[i * columns + j]));
                found.push((weight.path, matrix.singular_values().unwrap()[0]));
            }
        });
        found
    }

    fn recipe() -> Recipe {
        Recipe { spectral: Some(Spectral::default()), ..Recipe::mnist(3) }
    }

    #[test]
    fn a_settled_model_keeps_the_bound_of_the_full_decomposition() {
        let recipe = recipe();
        let model = Model::new(&recipe, [1, 28, 28], &Device::flex().autodiff()).unwrap();
        assert!(largest_singular_values(&model).iter().any(|(_, sigma)| *sigma > 1.1));
        let model = SpectralBound::new(&recipe).unwrap().settle(model);
        for (path, sigma) in largest_singular_values(&model) {
            assert!(sigma <= 1.0 + 1e-3, "{path}: {sigma}");
        }
    }

    #[test]
    fn short_layers_stay_as_they_are() {
        let recipe = Recipe { spectral: Some(Spectral { bound: 100.0, power_steps: 3 }), ..recipe() };
        let model = Model::new(&recipe, [1, 28, 28], &Device::flex().autodiff()).unwrap();
        let before = largest_singular_values(&model);
        let model = SpectralBound::new(&recipe).unwrap().follow(model);
        assert_eq!(largest_singular_values(&model.valid()), before);
    }

    #[test]
    fn weights_are_trained_on_after_a_projection() {
        let recipe = recipe();
        let model = Model::new(&recipe, [1, 8, 8], &Device::flex().autodiff()).unwrap();
        let model = SpectralBound::new(&recipe).unwrap().settle(model);
        let device = Device::flex().autodiff();
        let loss = model.features(Tensor::ones([2, 1, 8, 8], &device)).sum();
        let gradients = GradientsParams::from_grads(loss.backward(), &model);
        assert!(gradients.len() >= 3, "{}", gradients.len());
    }
}
