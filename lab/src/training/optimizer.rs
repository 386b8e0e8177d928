//! From gradients to steps, with a state that a checkpoint can hold.
//!
//! burn's own optimizers keep their state by the random ids of parameters; here it is kept by path, so that a training that is
//! taken up in another process goes on exactly as it would have.

use std::collections::BTreeMap;

use burn::optim::GradientsParams;
use burn::tensor::Tensor;

use super::recipe::{Optimizer, Recipe};
use crate::nets::{Model, Weight, change_weights};

/// How much of the moments Adam keeps (Kingma and Ba 2015).
const KEPT: [f64; 2] = [0.9, 0.999];
/// What Adam adds to a root.
const FLOOR: f64 = 1e-8;

/// Moments of gradients by path, and the steps done.
#[derive(Debug, Default)]
pub(crate) struct Moments {
    pub(crate) first: BTreeMap<String, Tensor<1>>,
    /// Adam's only.
    pub(crate) second: BTreeMap<String, Tensor<1>>,
    pub(crate) steps: usize,
}

impl Moments {
    /// Takes a step along the gradients. Weights of layers decay; biases and batch normalization do not.
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

    /// Loshchilov and Hutter's AdamW: the decay does not pass through the moments.
    fn adam(&mut self, weight: Weight, gradient: Tensor<1>, rate: f64, decay: f64) -> Tensor<1> {
        let [kept_first, kept_second] = KEPT;
        let square = gradient.clone().square();
        let first = average(self.first.remove(&weight.path), gradient, kept_first);
        let second = average(self.second.remove(&weight.path), square, kept_second);
        let unbiased = |kept: f64| 1.0 / (1.0 - kept.powi(self.steps as i32));
        let root = second.clone().mul_scalar(unbiased(kept_second)).sqrt().add_scalar(FLOOR);
        let step = first.clone().mul_scalar(rate * unbiased(kept_first)) / root;
        self.first.insert(weight.path.clone(), first);
        self.second.insert(weight.path, second);
        weight.values.mul_scalar(1.0 - rate * decay) - step
    }

    /// As PyTorch has it: the decay is part of the gradient, the first step has no momentum.
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
            Some(before) => before.mul_scalar(momentum) + gradient,
            None => gradient,
        };
        self.first.insert(weight.path, direction.clone());
        weight.values - direction.mul_scalar(rate)
    }
}

/// The moving average, from zero where there is none yet.
fn average(old: Option<Tensor<1>>, new: Tensor<1>, kept: f64) -> Tensor<1> {
    let new = new.mul_scalar(1.0 - kept);
    match old {
        Some(old) => old.mul_scalar(kept) + new,
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
    fn adams_first_steps_are_as_long_as_the_rate() {
        // With equal gradients both moments are unbiased: m̂ = g, v̂ = g², and a step is the rate times the sign.
        let mut moments = Moments { steps: 1, ..Moments::default() };
        let one = moments.adam(weight(number(1.0)), number(-4.0), 0.1, 0.0);
        moments.steps = 2;
        let two: f32 = moments.adam(weight(one), number(-4.0), 0.1, 0.0).into_scalar();
        assert!((two - 1.2).abs() < 1e-6, "{two}");
    }

    #[test]
    fn adams_decay_is_decoupled() {
        let mut moments = Moments { steps: 1, ..Moments::default() };
        let decayed: f32 = moments.adam(weight(number(2.0)), number(3.0), 0.1, 0.5).into_scalar();
        assert!((decayed - (2.0 * 0.95 - 0.1)).abs() < 1e-6, "{decayed}");
    }

    #[test]
    fn momentum_adds_up() {
        let mut moments = Moments::default();
        let one = moments.sgd(weight(number(1.0)), number(1.0), 0.1, 0.0, 0.9);
        let two: f32 = moments.sgd(weight(one), number(1.0), 0.1, 0.0, 0.9).into_scalar();
        // 1 − 0.1 − 0.1 · (0.9 + 1)
        assert!((two - 0.71).abs() < 1e-6, "{two}");
    }
}
