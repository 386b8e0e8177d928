//! Spectral normalization (Miyato et al. 2018): bounds the largest singular value of each layer.
//!
//! After each training step, every weight matrix `W` of a convolution or linear layer is divided by `max(1, σ̂ / c)`, where `c` is the bound.
//! The estimate σ̂ of the largest singular value comes from power iteration:
//!
//! ```text
//! v ← Wᵀ u / ‖Wᵀ u‖,   u ← W v / ‖W v‖,   σ̂ = uᵀ W v
//! ```
//!
//! The vectors `u` are stored between steps, so three iterations suffice for slowly changing weights. Before and after training,
//! 200 iterations make the bound accurate up to rounding.
//!
//! As in PyTorch, which the paper uses, the matrix of a convolution is its kernel reshaped to `[out, in · height · width]`. Its norm bounds
//! the norm of the convolution up to a factor, the square root of the number of kernel positions. As in SNGP, weights below the bound are
//! unchanged; PyTorch always divides by σ̂. Batch normalization is not bounded. The heads of DUQ and SNGP are not normalized.

use std::collections::BTreeMap;

use burn::optim::GradientsParams;
use burn::tensor::{Tensor, TensorData};
use nuq_neighbors::SeededRng;

use super::{Model, Weight, change_weights};
use crate::random::random_stream;
use crate::training::{HeadKind, Recipe, Spectral};

/// Number of iterations before and after training.
const FULL_STEPS: usize = 200;

/// Spectral bound of all layers of a model, with the state of the power iteration.
#[derive(Debug)]
pub(crate) struct SpectralBound {
    settings: Spectral,
    includes_head: bool,
    rng: SeededRng,
    /// The vector `u` of each weight, by path.
    pub(crate) directions: BTreeMap<String, Tensor<1>>,
}

impl SpectralBound {
    /// The bound of a recipe, or `None` without spectral normalization.
    pub(crate) fn new(recipe: &Recipe) -> Option<Self> {
        recipe.spectral.map(|settings| Self {
            settings,
            includes_head: recipe.head == HeadKind::Softmax,
            rng: random_stream("power iteration", recipe.seed, 0),
            directions: BTreeMap::new(),
        })
    }

    /// Applies the bound to the weights after a training step.
    pub(crate) fn project_after_step(&mut self, model: Model) -> Model {
        self.project(model, self.settings.power_steps)
    }

    /// Applies the bound to the weights with enough iterations for accuracy up to rounding.
    pub(crate) fn project_fully(&mut self, model: Model) -> Model {
        self.project(model, FULL_STEPS)
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
            Some(stored) => stored.clone(),
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

    /// Path and largest singular value of all layers, by a full SVD.
    pub(crate) fn largest_singular_values(model: &Model) -> Vec<(String, f64)> {
        let mut singular_values = Vec::new();
        for_each_weight(model, |weight| {
            if matches!(weight.dims.len(), 2 | 4) && weight.path.ends_with("weight") {
                let values: Vec<f32> = weight.values.into_data().try_into_vec().unwrap();
                let [rows, columns] = [weight.dims[0], values.len() / weight.dims[0]];
                let matrix = Mat::from_fn(rows, columns, |i, j| f64::from(values[i * columns + j]));
                singular_values.push((weight.path, matrix.singular_values().unwrap()[0]));
            }
        });
        singular_values
    }

    fn recipe() -> Recipe {
        Recipe { spectral: Some(Spectral::default()), ..Recipe::mnist(3) }
    }

    #[test]
    fn full_projection_satisfies_the_bound() {
        let recipe = recipe();
        let model = Model::new(&recipe, [1, 28, 28], &Device::flex().autodiff()).unwrap();
        assert!(largest_singular_values(&model).iter().any(|(_, sigma)| *sigma > 1.1));
        let model = SpectralBound::new(&recipe).unwrap().project_fully(model);
        for (path, sigma) in largest_singular_values(&model) {
            assert!(sigma <= 1.0 + 1e-3, "{path}: {sigma}");
        }
    }

    #[test]
    fn weights_below_the_bound_are_unchanged() {
        let recipe = Recipe { spectral: Some(Spectral { bound: 100.0, power_steps: 3 }), ..recipe() };
        let model = Model::new(&recipe, [1, 28, 28], &Device::flex().autodiff()).unwrap();
        let before = largest_singular_values(&model);
        let model = SpectralBound::new(&recipe).unwrap().project_after_step(model);
        assert_eq!(largest_singular_values(&model.valid()), before);
    }

    #[test]
    fn projected_weights_still_have_gradients() {
        let recipe = recipe();
        let model = Model::new(&recipe, [1, 8, 8], &Device::flex().autodiff()).unwrap();
        let model = SpectralBound::new(&recipe).unwrap().project_fully(model);
        let device = Device::flex().autodiff();
        let loss = model.features(Tensor::ones([2, 1, 8, 8], &device)).sum();
        let gradients = GradientsParams::from_grads(loss.backward(), &model);
        assert!(gradients.len() >= 3, "{}", gradients.len());
    }
}
