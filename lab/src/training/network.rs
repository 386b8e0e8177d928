//! A trained network, and what can be asked of it.

use nuq_neighbors::Embeddings;

use super::augment::Augment;
use super::checkpoint::Cache;
use super::progress::Progress;
use super::recipe::Recipe;
use crate::{Images, LabError, Labeled};

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
        let first_largest =
            |row: &[f64]| (1..row.len()).fold(0, |best, c| if row[c] > row[best] { c } else { best });
        self.logits.chunks_exact(self.n_classes).map(first_largest).collect()
    }

    /// The share of pictures whose likeliest class is their label.
    pub fn accuracy(&self, labels: &[usize]) -> f64 {
        let right = self.predictions().iter().zip(labels).filter(|(a, b)| a == b).count();
        right as f64 / labels.len() as f64
    }

    /// Logits as rows in `f32`, as `nuq::evaluate` and its ensembles take them.
    pub fn logit_rows(&self) -> Result<Embeddings<'static>, LabError> {
        Ok(Embeddings::from_f64(&self.logits, self.n_classes)?)
    }
}

/// A network that is trained.
#[derive(Debug)]
pub struct Network {
    recipe: Recipe,
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
        recipe.check()?;
        let _ = (data, cache, progress);
        Err(LabError::Recipe { option: "architecture", problem: "is not written yet".to_owned() })
    }

    /// Features and logits, dropout off.
    pub fn outputs(&self, images: &Images) -> Result<Outputs, LabError> {
        let _ = images;
        Err(LabError::Recipe { option: "architecture", problem: "is not written yet".to_owned() })
    }

    /// Logits of `members` passes with dropout on (MC dropout): for each a row of `n_classes` for each picture.
    pub fn dropout_logits(
        &self,
        images: &Images,
        members: usize,
        seed: u64,
    ) -> Result<Vec<Vec<f64>>, LabError> {
        let _ = (images, members, seed);
        Err(LabError::Recipe { option: "architecture", problem: "is not written yet".to_owned() })
    }

    /// Logits of `members` random changes of the pictures (test-time augmentation), dropout off.
    pub fn augmented_logits(
        &self,
        images: &Images,
        members: usize,
        augment: Augment,
        seed: u64,
    ) -> Result<Vec<Vec<f64>>, LabError> {
        let _ = (images, members, augment, seed);
        Err(LabError::Recipe { option: "architecture", problem: "is not written yet".to_owned() })
    }

    /// The uncertainty that belongs to the head, from its outputs, higher meaning less certain: of a softmax head one minus the largest
    /// probability, of DUQ $-\ln \max_c K_c$, of SNGP Dempster and Shafer's $C / (C + \sum_c e^{z_c})$.
    pub fn head_uncertainty(&self, outputs: &Outputs) -> Vec<f64> {
        let _ = outputs;
        Vec::new()
    }

    /// Weights (a row of features for each class) and bias of a softmax head; `None` of other heads.
    pub fn head(&self) -> Option<(Embeddings<'static>, Vec<f64>)> {
        None
    }

    /// What it was trained by.
    pub fn recipe(&self) -> &Recipe {
        &self.recipe
    }

    /// How long it was trained, in whichever run that was.
    pub fn training_seconds(&self) -> f64 {
        0.0
    }
}
