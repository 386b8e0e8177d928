//! A trained network, and what can be asked of it.

use burn::tensor::{Tensor, TensorData};
use nuq_neighbors::Embeddings;
use rayon::prelude::*;

use super::augment::Augment;
use super::checkpoint::Cache;
use super::progress::Progress;
use super::recipe::{Architecture, HeadKind, Recipe};
use super::state::numbers;
use super::train::{image_tensor, train};
use crate::nets::{Head, Model, device, dropout};
use crate::stream::stream;
use crate::{Images, LabError, Labeled};

/// Pictures that are asked about at once, by each thread.
const BATCH: usize = 256;
/// The same of a ResNet, whose maps are large.
const RESNET_BATCH: usize = 32;

/// What a network says about pictures.
#[derive(Debug, Clone)]
pub struct Outputs {
    /// Its penultimate features.
    pub embeddings: Embeddings<'static>,
    /// A row of `n_classes` for each picture. Of a softmax head these are logits; of SNGP logits damped by the mean-field
    /// approximation; of DUQ the logarithms of its kernels.
    pub logits: Vec<f64>,
    /// The number of classes.
    pub n_classes: usize,
}

impl Outputs {
    /// The likeliest class of each picture; of equal ones the first.
    pub fn predictions(&self) -> Vec<usize> {
        self.logits.chunks_exact(self.n_classes).map(first_largest).collect()
    }

    /// The share of pictures whose likeliest class is their label.
    pub fn accuracy(&self, labels: &[usize]) -> f64 {
        let right = self.predictions().iter().zip(labels).filter(|(a, b)| a == b).count();
        right as f64 / labels.len() as f64
    }

    /// Logits as rows in `f32`, as the rivals in `nuq_eval::baselines` take them.
    pub fn logit_rows(&self) -> Result<Embeddings<'static>, LabError> {
        Ok(Embeddings::from_f64(&self.logits, self.n_classes)?)
    }
}

/// The place of the largest value, of equal ones the first: a network's answer.
pub(crate) fn first_largest<V: PartialOrd>(row: &[V]) -> usize {
    (1..row.len()).fold(0, |best, c| if row[c] > row[best] { c } else { best })
}

/// A network that is trained.
#[derive(Debug)]
pub struct Network {
    recipe: Recipe,
    shape: [usize; 3],
    model: Model,
    seconds: f64,
}

impl Network {
    /// Trains a network, or brings it from the cache if it was trained before. A training that was stopped goes on after its last
    /// whole epoch, to the same network.
    pub fn train(
        recipe: &Recipe,
        data: &Labeled,
        cache: &Cache,
        progress: &dyn Progress,
    ) -> Result<Self, LabError> {
        let trained = train(recipe, data, cache, progress)?;
        Ok(Self {
            recipe: recipe.clone(),
            shape: data.images.shape(),
            model: trained.model,
            seconds: trained.seconds,
        })
    }

    /// Features and logits, dropout off.
    pub fn outputs(&self, images: &Images) -> Result<Outputs, LabError> {
        let embeddings = self.embeddings(images)?;
        let logits = self.logits_of(&embeddings, |features| features);
        Ok(Outputs { embeddings, logits, n_classes: self.recipe.n_classes })
    }

    /// Logits of `members` passes with dropout on (MC dropout): for each a row of `n_classes` for each picture. Dropout stands before
    /// the head alone, so what the network said without it is enough.
    pub fn dropout_logits(
        &self,
        outputs: &Outputs,
        members: usize,
        seed: u64,
    ) -> Result<Vec<Vec<f64>>, LabError> {
        let share = self.recipe.dropout;
        if share == 0.0 {
            let problem = "must be above 0 for MC dropout".to_owned();
            return Err(LabError::Recipe { option: "dropout", problem });
        }
        let member = |member| {
            let mut rng = stream("MC dropout", seed, member);
            self.logits_of(&outputs.embeddings, |features| dropout(features, share, &mut rng))
        };
        Ok((0..members).map(member).collect())
    }

    /// Logits of `members` random changes of the pictures (test-time augmentation), dropout off.
    pub fn augmented_logits(
        &self,
        images: &Images,
        members: usize,
        augment: Augment,
        seed: u64,
    ) -> Result<Vec<Vec<f64>>, LabError> {
        let member = |member| {
            let changed = augment.apply(images, &mut stream("test-time augmentation", seed, member));
            Ok(self.outputs(&changed)?.logits)
        };
        (0..members).map(member).collect()
    }

    /// The uncertainty that belongs to the head, from its outputs, higher meaning less certain: of a softmax head one minus the largest
    /// probability, of DUQ $-\ln \max_c K_c$, of SNGP Dempster and Shafer's $C / (C + \sum_c e^{z_c})$.
    pub fn head_uncertainty(&self, outputs: &Outputs) -> Vec<f64> {
        let of_row = |row: &[f64]| {
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
        outputs.logits.chunks_exact(outputs.n_classes).map(of_row).collect()
    }

    /// Weights (a row of features for each class) and bias of a softmax head, as `nuq_eval::baselines::Head` takes them; `None` of other
    /// heads.
    pub fn head(&self) -> Option<(Embeddings<'static>, Vec<f64>)> {
        let Head::Softmax(layer) = self.model.head() else { return None };
        let [features, _] = layer.weight.dims();
        let weights = Embeddings::new(numbers(layer.weight.val().transpose()), features).ok()?;
        let bias = numbers(layer.bias.as_ref()?.val()).into_iter().map(f64::from).collect();
        Some((weights, bias))
    }

    /// How long it was trained, in whichever runs that was.
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
        // A GPU takes one batch after the other.
        let at_least = if cfg!(feature = "cuda") { images.len() } else { 1 };
        let starts: Vec<usize> = (0..images.len()).step_by(size).collect();
        let of_batch = |model: &mut Model, &start: &usize| {
            let batch = images.rows(start..images.len().min(start + size));
            numbers(model.features(image_tensor(batch, &device())))
        };
        // A copy shares its weights, and a thread needs one of its own: burn's modules are sent, not shared.
        let values: Vec<Vec<f32>> =
            starts.par_iter().with_min_len(at_least).map_with(self.model.clone(), of_batch).collect();
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
            let answer = self.model.head().logits(change(Tensor::from_data(data, &device())));
            logits.extend(numbers(answer).into_iter().map(f64::from));
        }
        logits
    }
}
