//! Optimizers whose state can be stored in a checkpoint.
//!
//! The optimizers of burn store their state by random parameter ids. Here the state is stored by weight path, so that a training that is
//! resumed in another process gives exactly the same result.

use std::collections::BTreeMap;

use burn::optim::GradientsParams;
use burn::tensor::Tensor;

use super::recipe::{Optimizer, Recipe};
use crate::nets::{Model, Weight, change_weights};

/// Decay rates β₁ and β₂ of Adam (Kingma and Ba 2015).
const BETAS: [f64; 2] = [0.9, 0.999];
/// Constant ε of Adam.
const EPSILON: f64 = 1e-8;

/// Moments of the gradients by weight path, and number of completed steps.
#[derive(Debug, Default)]
pub(crate) struct Moments {
    /// First moments of Adam, or the direction of the last step of SGD.
    pub(crate) first: BTreeMap<String, Tensor<1>>,
    /// Second moments, used by Adam only.
    pub(crate) second: BTreeMap<String, Tensor<1>>,
    pub(crate) steps: usize,
}

impl Moments {
    /// Performs one optimizer step. Weight decay applies to the weights of layers, not to biases and batch normalization.
    pub(crate) fn step(
        &mut self,
        recipe: &Recipe,
        rate: f64,
        model: Model,
        gradients: GradientsParams,
    ) -> Model {
        self.steps += 1;
        change_weights(model, gradients, |mut weight| {
            let gradient = weight.gradient.take()?;
            let decay = if weight.dims.len() > 1 { recipe.weight_decay } else { 0.0 };
            Some(match recipe.optimizer {
                Optimizer::Adam => self.adam(weight, gradient, rate, decay),
                Optimizer::Sgd { momentum } => self.sgd(weight, gradient, rate, decay, momentum),
            })
        })
    }

    /// AdamW (Loshchilov and Hutter 2019): Adam with decoupled weight decay.
    fn adam(&mut self, weight: Weight, gradient: Tensor<1>, rate: f64, decay: f64) -> Tensor<1> {
        let [beta_1, beta_2] = BETAS;
        let square = gradient.clone().square();
        let first = average(self.first.remove(&weight.path), gradient, beta_1);
        let second = average(self.second.remove(&weight.path), square, beta_2);
        let bias_correction = |beta: f64| 1.0 / (1.0 - beta.powi(self.steps as i32));
        let root = second.clone().mul_scalar(bias_correction(beta_2)).sqrt().add_scalar(EPSILON);
        let step = first.clone().mul_scalar(rate * bias_correction(beta_1)) / root;
        self.first.insert(weight.path.clone(), first);
        self.second.insert(weight.path, second);
        weight.values.mul_scalar(1.0 - rate * decay) - step
    }

    /// SGD as in PyTorch: weight decay is part of the gradient, and the first step has no momentum.
    fn sgd(
        &mut self,
        weight: Weight,
        gradient: Tensor<1>,
        rate: f64,
        decay: f64,
        momentum: f64,
    ) -> Tensor<1> {
        let gradient = gradient + weight.values.clone().mul_scalar(decay);
        let direction = match self.first.remove(&weight.path) {
            Some(previous) => previous.mul_scalar(momentum) + gradient,
            None => gradient,
        };
        self.first.insert(weight.path, direction.clone());
        weight.values - direction.mul_scalar(rate)
    }
}

/// Exponential moving average that starts at zero.
fn average(old: Option<Tensor<1>>, new: Tensor<1>, beta: f64) -> Tensor<1> {
    let new = new.mul_scalar(1.0 - beta);
    match old {
        Some(old) => old.mul_scalar(beta) + new,
        None => new,
    }
}

#[cfg(test)]
mod tests {
    use burn::tensor::Device;

    use super::*;

    fn weight(values: Tensor<1>) -> Weight {
        Weight { path: "w".to_owned(), dims: vec![1, 1], values, gradient: None }
    }

    fn number(value: f32) -> Tensor<1> {
        Tensor::from_data([value], &Device::flex())
    }

    #[test]
    fn adam_steps_with_constant_gradient_equal_the_rate() {
        // With equal gradients m̂ = g and v̂ = g², so each step is the learning rate times the sign of g.
        let mut moments = Moments { steps: 1, ..Moments::default() };
        let one = moments.adam(weight(number(1.0)), number(-4.0), 0.1, 0.0);
        moments.steps = 2;
        let two: f32 = moments.adam(weight(one), number(-4.0), 0.1, 0.0).into_scalar();
        assert!((two - 1.2).abs() < 1e-6, "{two}");
    }

    #[test]
    fn adam_weight_decay_is_decoupled() {
        let mut moments = Moments { steps: 1, ..Moments::default() };
        let decayed: f32 = moments.adam(weight(number(2.0)), number(3.0), 0.1, 0.5).into_scalar();
        assert!((decayed - (2.0 * 0.95 - 0.1)).abs() < 1e-6, "{decayed}");
    }

    #[test]
    fn sgd_momentum_accumulates() {
        let mut moments = Moments::default();
        let one = moments.sgd(weight(number(1.0)), number(1.0), 0.1, 0.0, 0.9);
        let two: f32 = moments.sgd(weight(one), number(1.0), 0.1, 0.0, 0.9).into_scalar();
        // 1 − 0.1 − 0.1 · (0.9 + 1)
        assert!((two - 0.71).abs() < 1e-6, "{two}");
    }
}
