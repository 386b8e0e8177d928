//! A training between two steps: the model and all that its next step depends on.

use std::collections::BTreeMap;
use std::path::Path;

use burn::module::Module;
use burn::optim::GradientsParams;
use burn::tensor::{Device, Tensor, TensorData};

use super::checkpoint::{Checkpoint, Note};
use super::optimizer::Moments;
use super::recipe::Recipe;
use crate::LabError;
use crate::nets::{Model, SpectralBound, change_weights, for_each_weight};

/// Values by name, as a checkpoint holds them.
type Stored = BTreeMap<String, (Vec<usize>, Vec<f32>)>;

/// A model in training.
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) model: Model,
    pub(crate) moments: Moments,
    pub(crate) spectral: Option<SpectralBound>,
    /// Epochs done.
    pub(crate) epochs: usize,
    /// How long they took.
    pub(crate) seconds: f64,
}

impl State {
    /// Before the first step.
    pub(crate) fn new(recipe: &Recipe, shape: [usize; 3], device: &Device) -> Result<Self, LabError> {
        let mut model = Model::new(recipe, shape, device)?;
        let mut spectral = SpectralBound::new(recipe);
        if let Some(spectral) = &mut spectral {
            model = spectral.settle(model);
        }
        Ok(Self { model, moments: Moments::default(), spectral, epochs: 0, seconds: 0.0 })
    }

    /// As plain numbers. What only further training needs is left out when training is over.
    pub(crate) fn checkpoint(&self, recipe: &Recipe, shape: [usize; 3]) -> Checkpoint {
        let mut tensors = BTreeMap::new();
        // A model in training lags one step behind in the averages of its batch normalization; `valid` brings them up to date.
        for_each_weight(&self.model.valid(), |weight| {
            tensors.insert(format!("model.{}", weight.path), (weight.dims, numbers(weight.values)));
        });
        if self.epochs < recipe.epochs {
            let directions = self.spectral.iter().map(|spectral| ("spectral.", &spectral.directions));
            let moments = [("first.", &self.moments.first), ("second.", &self.moments.second)];
            for (prefix, named) in moments.into_iter().chain(directions) {
                for (path, tensor) in named {
                    tensors
                        .insert(format!("{prefix}{path}"), (tensor.dims().to_vec(), numbers(tensor.clone())));
                }
            }
        }
        let note = Note {
            recipe: recipe.clone(),
            shape,
            epochs: self.epochs,
            steps: self.moments.steps,
            seconds: self.seconds,
        };
        Checkpoint { note, tensors }
    }

    /// From plain numbers, which must be those of the same recipe.
    pub(crate) fn resume(
        mut checkpoint: Checkpoint,
        recipe: &Recipe,
        shape: [usize; 3],
        device: &Device,
        path: &Path,
    ) -> Result<Self, LabError> {
        let refuse =
            |problem: &str| LabError::Checkpoint { path: path.to_owned(), problem: problem.to_owned() };
        if checkpoint.note.recipe != *recipe || checkpoint.note.shape != shape {
            return Err(refuse("it belongs to another recipe"));
        }
        let mut state = Self::new(recipe, shape, device)?;
        let inner = device.clone().inner();
        state.model = restore(state.model, checkpoint.take("model."), &inner)
            .map_err(|name| refuse(&format!("it does not hold {name} as the network needs it")))?;
        state.moments.first = restored(checkpoint.take("first."), &inner);
        state.moments.second = restored(checkpoint.take("second."), &inner);
        state.moments.steps = checkpoint.note.steps;
        if let Some(spectral) = &mut state.spectral {
            spectral.directions = restored(checkpoint.take("spectral."), &inner);
        }
        state.epochs = checkpoint.note.epochs;
        state.seconds = checkpoint.note.seconds;
        Ok(state)
    }
}

/// The model with all of its weights replaced; the name of one that is missing or of another shape.
fn restore(model: Model, mut stored: Stored, device: &Device) -> Result<Model, String> {
    let mut missing = None;
    let model = change_weights(model, GradientsParams::new(), |weight| match stored.remove(&weight.path) {
        Some((shape, values)) if shape == weight.dims => Some(tensor(values, device)),
        _ => {
            missing = Some(weight.path);
            None
        }
    });
    missing.map_or(Ok(model), Err)
}

fn restored(stored: Stored, device: &Device) -> BTreeMap<String, Tensor<1>> {
    stored.into_iter().map(|(path, (_, values))| (path, tensor(values, device))).collect()
}

fn tensor(values: Vec<f32>, device: &Device) -> Tensor<1> {
    let length = values.len();
    Tensor::from_data(TensorData::new(values, [length]), device)
}

/// The values of a tensor, which are `f32` everywhere in the laboratory.
pub(crate) fn numbers<const D: usize>(tensor: Tensor<D>) -> Vec<f32> {
    tensor.into_data().try_into_vec().expect("all tensors here are f32")
}
