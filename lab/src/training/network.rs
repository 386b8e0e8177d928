//! A trained network and its outputs.

use burn::tensor::{Tensor, TensorData};
use nuq_neighbors::Embeddings;
use rayon::prelude::*;

use super::augment::Augment;
use super::checkpoint::Cache;
use super::progress::Progress;
use super::recipe::{Architecture, HeadKind, Recipe};
use super::state::to_values;
use super::train::{Trained, image_tensor, train};
use crate::nets::{Head, Model, device, dropout};
use crate::random::random_stream;
use crate::{Images, LabError, Labeled};

/// Batch size of inference per thread.
const BATCH: usize = 256;
/// Batch size of inference for a ResNet, whose feature maps are large.
const RESNET_BATCH: usize = 32;

/// Outputs of a network for a set of images.
#[derive(Debug, Clone)]
pub struct Outputs {
    /// Features of the penultimate layer.
    pub embeddings: Embeddings<'static>,
    /// One row of `n_classes` values per image: logits (softmax head), mean-field logits (SNGP) or log kernels (DUQ).
    pub logits: Vec<f64>,
    /// The number of classes.
    pub n_classes: usize,
}

impl Outputs {
    /// Predicted class of each image. In case of ties the first class is returned.
    #[must_use]
    pub fn predictions(&self) -> Vec<usize> {
        self.logits.chunks_exact(self.n_classes).map(argmax).collect()
    }

    /// Share of correctly classified images.
    #[must_use]
    pub fn accuracy(&self, labels: &[usize]) -> f64 {
        let correct = self.predictions().iter().zip(labels).filter(|(a, b)| a == b).count();
        correct as f64 / labels.len() as f64
    }

    /// Logits as rows in `f32`, the input of the baselines.
    ///
    /// # Errors
    /// If a logit is not finite.
    pub fn logit_rows(&self) -> Result<Embeddings<'static>, LabError> {
        Ok(Embeddings::from_f64(&self.logits, self.n_classes)?)
    }
}

/// Index of the largest value. In case of ties the first index is returned.
pub(crate) fn argmax<V: PartialOrd>(row: &[V]) -> usize {
    (1..row.len()).fold(0, |best, c| if row[c] > row[best] { c } else { best })
}

/// A trained network.
#[derive(Debug)]
pub struct Network {
    recipe: Recipe,
    shape: [usize; 3],
    model: Model,
    seconds: f64,
}

impl Network {
    /// Loads a network from the cache, or trains it. A stopped training resumes after its last complete epoch and gives the same network.
    ///
    /// # Errors
    /// If recipe or data are invalid, the loss diverges, training is stopped, or a file cannot be read or written.
    pub fn train(
        recipe: &Recipe,
        data: &Labeled,
        cache: &Cache,
        progress: &dyn Progress,
    ) -> Result<Self, LabError> {
        Ok(Self::new(recipe, data, train(recipe, data, Some(cache), progress)?))
    }

    /// Trains a network from the beginning, whether or not a cache contains it, and stores nothing. [`Self::training_seconds`] is then a
    /// time of this run on this machine.
    ///
    /// # Errors
    /// If recipe or data are invalid, the loss diverges, or training is stopped.
    pub(crate) fn train_without_cache(
        recipe: &Recipe,
        data: &Labeled,
        progress: &dyn Progress,
    ) -> Result<Self, LabError> {
        Ok(Self::new(recipe, data, train(recipe, data, None, progress)?))
    }

    fn new(recipe: &Recipe, data: &Labeled, trained: Trained) -> Self {
        let Trained { model, seconds } = trained;
        Self { recipe: recipe.clone(), shape: data.images.shape(), model, seconds }
    }

    /// Computes features and logits without dropout.
    ///
    /// # Errors
    /// If the images do not have the shape of the training images, or a feature is not finite.
    pub fn outputs(&self, images: &Images) -> Result<Outputs, LabError> {
        let embeddings = self.embeddings(images)?;
        let logits = self.logits_of(&embeddings, |features| features);
        Ok(Outputs { embeddings, logits, n_classes: self.recipe.n_classes })
    }

    /// MC dropout: logits of `members` passes with dropout, each with one row of `n_classes` values per image. Dropout is applied only
    /// before the head, so the features need not be computed again.
    ///
    /// # Errors
    /// If the network was trained without dropout.
    pub fn dropout_logits(
        &self,
        outputs: &Outputs,
        members: usize,
        seed: u64,
    ) -> Result<Vec<Vec<f64>>, LabError> {
        let probability = self.recipe.dropout;
        if probability == 0.0 {
            let problem = "must be above 0 for MC dropout".to_owned();
            return Err(LabError::Recipe { option: "dropout", problem });
        }
        let member = |member| {
            let mut rng = random_stream("MC dropout", seed, member);
            self.logits_of(&outputs.embeddings, |features| dropout(features, probability, &mut rng))
        };
        Ok((0..members).map(member).collect())
    }

    /// Test-time augmentation: logits of `members` random augmentations of the images, without dropout.
    ///
    /// # Errors
    /// If the images do not have the shape of the training images, or a feature is not finite.
    pub fn augmented_logits(
        &self,
        images: &Images,
        members: usize,
        augment: Augment,
        seed: u64,
    ) -> Result<Vec<Vec<f64>>, LabError> {
        let member = |member| {
            let augmented = augment.apply(images, &mut random_stream("test-time augmentation", seed, member));
            Ok(self.outputs(&augmented)?.logits)
        };
        (0..members).map(member).collect()
    }

    /// Uncertainty score of the head; higher means less certain. Softmax: one minus the largest probability. DUQ: `−ln max_c K_c`
    /// with the kernels `K_c`. SNGP: the Dempster–Shafer score `C / (C + Σ_c exp z_c)` with the logits `z_c` of `C` classes.
    #[must_use]
    pub fn head_uncertainty(&self, outputs: &Outputs) -> Vec<f64> {
        let score = |row: &[f64]| {
            let largest = row.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let others = row.iter().map(|logit| (logit - largest).exp()).sum::<f64>() - 1.0;
            match self.recipe.head {
                HeadKind::Softmax => others / (1.0 + others),
                HeadKind::Duq { .. } => -largest,
                HeadKind::Sngp { .. } => {
                    let n_classes = row.len() as f64;
                    n_classes / (n_classes + largest.exp() * (1.0 + others))
                }
            }
        };
        outputs.logits.chunks_exact(outputs.n_classes).map(score).collect()
    }

    /// Weights (one row per class) and bias of a softmax head. `None` for other heads.
    #[must_use]
    pub fn head(&self) -> Option<(Embeddings<'static>, Vec<f64>)> {
        let Head::Softmax(layer) = self.model.head() else { return None };
        let [features, _] = layer.weight.dims();
        let weights = Embeddings::new(to_values(layer.weight.val().transpose()), features).ok()?;
        let bias = to_values(layer.bias.as_ref()?.val()).into_iter().map(f64::from).collect();
        Some((weights, bias))
    }

    /// Total training time in seconds, including earlier runs of a resumed training. For a network from the cache it is the time of the runs
    /// that trained it, possibly on another machine.
    #[must_use]
    pub fn training_seconds(&self) -> f64 {
        self.seconds
    }

    fn embeddings(&self, images: &Images) -> Result<Embeddings<'static>, LabError> {
        if images.shape() != self.shape {
            return Err(LabError::Shape { expected: self.shape, got: images.shape() });
        }
        let size = match self.recipe.architecture {
            Architecture::ResNet18 { .. } | Architecture::ResNet50 { .. } => RESNET_BATCH,
            Architecture::Mlp { .. } | Architecture::Cnn { .. } => BATCH,
        };
        // A GPU processes one batch at a time.
        let min_len = if cfg!(feature = "cuda") { images.len() } else { 1 };
        let starts: Vec<usize> = (0..images.len()).step_by(size).collect();
        let features_of_batch = |model: &mut Model, &start: &usize| {
            let batch = images.rows(start..images.len().min(start + size));
            to_values(model.features(image_tensor(batch, &device())))
        };
        // Modules of burn are `Send` but not `Sync`, so each thread has a clone. Clones share their weights.
        let values: Vec<Vec<f32>> =
            starts.par_iter().with_min_len(min_len).map_with(self.model.clone(), features_of_batch).collect();
        Ok(Embeddings::new(values.concat(), self.recipe.architecture.features())?)
    }

    fn logits_of(
        &self,
        embeddings: &Embeddings<'_>,
        mut change: impl FnMut(Tensor<2>) -> Tensor<2>,
    ) -> Vec<f64> {
        let dim = embeddings.dim();
        let mut logits = Vec::with_capacity(embeddings.len() * self.recipe.n_classes);
        for rows in embeddings.as_slice().chunks(BATCH * dim) {
            let data = TensorData::new(rows.to_vec(), [rows.len() / dim, dim]);
            let output = self.model.head().logits(change(Tensor::from_data(data, &device())));
            logits.extend(to_values(output).into_iter().map(f64::from));
        }
        logits
    }
}
