//! State of a training: the model, the optimizer and the power iteration.

use std::collections::BTreeMap;
use std::path::Path;

use burn::module::Module;
use burn::optim::GradientsParams;
use burn::tensor::{Device, Tensor, TensorData};

use super::checkpoint::{Checkpoint, Metadata};
use super::optimizer::Moments;
use super::recipe::Recipe;
use crate::LabError;
use crate::nets::{Model, SpectralBound, change_weights, for_each_weight};

/// Shape and values by name, as stored in a checkpoint.
type Stored = BTreeMap<String, (Vec<usize>, Vec<f32>)>;

/// State of a training.
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) model: Model,
    pub(crate) moments: Moments,
    pub(crate) spectral: Option<SpectralBound>,
    /// Number of completed epochs.
    pub(crate) epochs: usize,
    /// Training time in seconds.
    pub(crate) seconds: f64,
}

impl State {
    /// Initial state.
    pub(crate) fn new(recipe: &Recipe, shape: [usize; 3], device: &Device) -> Result<Self, LabError> {
        let mut model = Model::new(recipe, shape, device)?;
        let mut spectral = SpectralBound::new(recipe);
        if let Some(spectral) = &mut spectral {
            model = spectral.project_fully(model);
        }
        Ok(Self { model, moments: Moments::default(), spectral, epochs: 0, seconds: 0.0 })
    }

    /// Converts the state to a checkpoint. The states of the optimizer and of the power iteration are omitted when training is complete.
    pub(crate) fn checkpoint(&self, recipe: &Recipe, shape: [usize; 3]) -> Checkpoint {
        let mut tensors = BTreeMap::new();
        // In training mode the running averages of batch normalization lag one step behind; `valid` updates them.
        for_each_weight(&self.model.valid(), |weight| {
            tensors.insert(format!("model.{}", weight.path), (weight.dims, to_values(weight.values)));
        });
        if self.epochs < recipe.epochs {
            let directions = self.spectral.iter().map(|spectral| ("spectral.", &spectral.directions));
            let moments = [("first.", &self.moments.first), ("second.", &self.moments.second)];
            for (prefix, named) in moments.into_iter().chain(directions) {
                for (path, tensor) in named {
                    tensors.insert(
                        format!("{prefix}{path}"),
                        (tensor.dims().to_vec(), to_values(tensor.clone())),
                    );
                }
            }
        }
        let metadata = Metadata {
            recipe: recipe.clone(),
            shape,
            epochs: self.epochs,
            steps: self.moments.steps,
            seconds: self.seconds,
        };
        Checkpoint { metadata, tensors }
    }

    /// Restores the state from a checkpoint of the same recipe.
    pub(crate) fn resume(
        mut checkpoint: Checkpoint,
        recipe: &Recipe,
        shape: [usize; 3],
        device: &Device,
        path: &Path,
    ) -> Result<Self, LabError> {
        let invalid =
            |problem: &str| LabError::Checkpoint { path: path.to_owned(), problem: problem.to_owned() };
        if checkpoint.metadata.recipe != *recipe || checkpoint.metadata.shape != shape {
            return Err(invalid("it belongs to another recipe or image shape"));
        }
        let mut state = Self::new(recipe, shape, device)?;
        let inner = device.clone().inner();
        state.model = restore(state.model, checkpoint.take("model."), &inner)
            .map_err(|name| invalid(&format!("the tensor {name} is missing or has the wrong shape")))?;
        state.moments.first = restored(checkpoint.take("first."), &inner);
        state.moments.second = restored(checkpoint.take("second."), &inner);
        state.moments.steps = checkpoint.metadata.steps;
        if let Some(spectral) = &mut state.spectral {
            spectral.directions = restored(checkpoint.take("spectral."), &inner);
        }
        state.epochs = checkpoint.metadata.epochs;
        state.seconds = checkpoint.metadata.seconds;
        Ok(state)
    }
}

/// Replaces all weights of a model. The error is the name of a tensor that is missing or has the wrong shape.
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

/// The values of a tensor. All tensors of this crate are `f32`.
pub(crate) fn to_values<const D: usize>(tensor: Tensor<D>) -> Vec<f32> {
    tensor.into_data().try_into_vec().expect("all tensors are f32")
}
