//! The training loop.

use std::ops::Range;
use std::time::Instant;

use burn::module::Module;
use burn::optim::GradientsParams;
use burn::tensor::{Device, Int, Tensor, TensorData};
use nuq_neighbors::SeededRng;

use super::checkpoint::{Cache, Checkpoint};
use super::progress::{Epoch, Progress};
use super::recipe::Recipe;
use super::state::{State, to_values};
use crate::nets::{Head, Model, device, dropout};
use crate::random::random_stream;
use crate::{Images, LabError, Labeled};

/// A trained model without autodiff graph, and its training time in seconds.
pub(crate) struct Trained {
    pub(crate) model: Model,
    pub(crate) seconds: f64,
}

/// Trains a model, starting from its checkpoint if the cache contains one. Without a cache, the training starts from the beginning and stores
/// nothing.
pub(crate) fn train(
    recipe: &Recipe,
    data: &Labeled,
    cache: Option<&Cache>,
    progress: &dyn Progress,
) -> Result<Trained, LabError> {
    recipe.check()?;
    check_data(recipe, data)?;
    let path = cache.map(|cache| cache.path(recipe, data));
    let device = device().autodiff();
    let shape = data.images.shape();
    let mut state = match &path {
        Some(path) => match Checkpoint::load(path)? {
            Some(checkpoint) => State::resume(checkpoint, recipe, shape, &device, path)?,
            None => State::new(recipe, shape, &device)?,
        },
        None => State::new(recipe, shape, &device)?,
    };
    if state.epochs < recipe.epochs {
        progress.start(state.epochs, recipe.epochs);
    }
    while state.epochs < recipe.epochs {
        let started = Instant::now();
        let mut runner = EpochRunner { recipe, data, device: &device, precision: None };
        let totals = runner.run(&mut state, progress)?;
        let seconds = started.elapsed().as_secs_f64();
        state.seconds += seconds;
        if let Some(path) = &path {
            state.checkpoint(recipe, shape).store(path)?;
        }
        progress.epoch(&totals.epoch(state.epochs, recipe.epochs, data.len() as f64 / seconds));
        if progress.stop() && state.epochs < recipe.epochs {
            return Err(LabError::Stopped { epoch: state.epochs });
        }
    }
    Ok(Trained { model: state.model.valid(), seconds: state.seconds })
}

fn check_data(recipe: &Recipe, data: &Labeled) -> Result<(), LabError> {
    let invalid = |option, problem| Err(LabError::Recipe { option, problem });
    if recipe.n_classes != data.n_classes {
        return invalid(
            "n_classes",
            format!("is {}, but the data have {} classes", recipe.n_classes, data.n_classes),
        );
    }
    if data.len() < 2 {
        return Err(LabError::TooFewImages { images: data.len() });
    }
    Ok(())
}

/// Converts images to a tensor.
pub(crate) fn image_tensor(images: Images, device: &Device) -> Tensor<4> {
    let [channels, height, width] = images.shape();
    let shape = [images.len(), channels, height, width];
    Tensor::from_data(TensorData::new(images.pixels, shape), device)
}

/// Sums over the completed steps of an epoch.
#[derive(Default)]
struct EpochTotals {
    loss: f64,
    correct: usize,
    images: usize,
}

impl EpochTotals {
    fn epoch(&self, number: usize, total: usize, images_per_second: f64) -> Epoch {
        let images = self.images as f64;
        Epoch {
            number,
            total,
            loss: self.loss / images,
            accuracy: self.correct as f64 / images,
            images_per_second,
        }
    }
}

/// Runs one epoch.
struct EpochRunner<'a> {
    recipe: &'a Recipe,
    data: &'a Labeled,
    device: &'a Device,
    /// Sum of the precision matrices of all batches, computed only in the final epoch of the training and only for SNGP.
    precision: Option<Tensor<2>>,
}

impl EpochRunner<'_> {
    fn run(&mut self, state: &mut State, progress: &dyn Progress) -> Result<EpochTotals, LabError> {
        let started = Instant::now();
        let mut rng = random_stream("training", self.recipe.seed, state.epochs);
        let order = shuffled(self.data.len(), &mut rng);
        let ranges = batches(order.len(), self.recipe.batch_size);
        let mut totals = EpochTotals::default();
        for (step, range) in ranges.iter().enumerate() {
            let rate = self.recipe.rate(state.epochs, step, ranges.len());
            self.step(state, &order[range.clone()], rate, &mut rng, &mut totals)?;
            let speed = totals.images as f64 / started.elapsed().as_secs_f64();
            let so_far = totals.epoch(state.epochs + 1, self.recipe.epochs, speed);
            progress.step(&so_far, totals.images as f64 / order.len() as f64);
        }
        state.epochs += 1;
        if state.epochs == self.recipe.epochs {
            self.finish(state)?;
        }
        Ok(totals)
    }

    fn step(
        &mut self,
        state: &mut State,
        ids: &[usize],
        rate: f64,
        rng: &mut SeededRng,
        totals: &mut EpochTotals,
    ) -> Result<(), LabError> {
        let images = self.recipe.augment.apply(&self.data.images.select(ids), rng);
        let classes: Vec<i64> = ids.iter().map(|&id| self.data.labels[id] as i64).collect();
        let labels = Tensor::<1, Int>::from_data(TensorData::new(classes.clone(), [ids.len()]), self.device);
        let features = state.model.features(image_tensor(images, self.device));
        let dropped = dropout(features.clone(), self.recipe.dropout, rng);
        let (loss, logits) = state.model.head().loss(dropped, labels.clone());
        let gradients = GradientsParams::from_grads(loss.backward(), &state.model);
        totals.loss += f64::from(finite_loss(loss, state.epochs + 1)?) * ids.len() as f64;
        totals.correct += count_correct(logits, &classes);
        totals.images += ids.len();
        // Modules of burn are updated by value, so the model is cloned; clones share their weights.
        let model = state.model.clone();
        let mut model = state.moments.step(self.recipe, rate, model, gradients);
        if let Some(spectral) = &mut state.spectral {
            model = spectral.project_after_step(model);
        }
        model.head_mut().after_step(features.clone().detach(), labels, self.recipe.n_classes);
        self.add_precision(&model, features.detach(), state.epochs);
        state.model = model;
        Ok(())
    }

    /// Adds the precision matrix of a batch to the sum, if the head is SNGP and this is the final epoch of the training.
    fn add_precision(&mut self, model: &Model, features: Tensor<2>, epochs_done: usize) {
        let (Head::Sngp(head), true) = (model.head(), epochs_done + 1 == self.recipe.epochs) else { return };
        let added = head.precision_of(features);
        self.precision = Some(match self.precision.take() {
            Some(sum) => sum + added,
            None => added,
        });
    }

    /// Applies the final projection of spectral normalization and computes the covariance of SNGP, after the last step of training.
    fn finish(&mut self, state: &mut State) -> Result<(), LabError> {
        if let Some(spectral) = &mut state.spectral {
            state.model = spectral.project_fully(state.model.clone());
        }
        if let (Head::Sngp(head), Some(precision)) = (state.model.head_mut(), self.precision.take()) {
            head.finish(precision)?;
        }
        Ok(())
    }
}

fn shuffled(n: usize, rng: &mut SeededRng) -> Vec<usize> {
    let mut order: Vec<usize> = (0..n).collect();
    for i in (1..n).rev() {
        order.swap(i, rng.below(i + 1));
    }
    order
}

/// Splits `0..n` into ranges of nearly equal length, at most `size`. With `n` of at least 2 and `size` of at least 3 (see [`Recipe::check`]), no
/// batch consists of one image. Batch normalization needs at least two.
fn batches(n: usize, size: usize) -> Vec<Range<usize>> {
    let count = n.div_ceil(size);
    (0..count).map(|i| n * i / count..n * (i + 1) / count).collect()
}

fn finite_loss(loss: Tensor<1>, epoch: usize) -> Result<f32, LabError> {
    let loss: f32 = loss.into_scalar();
    if loss.is_finite() { Ok(loss) } else { Err(LabError::Diverged { epoch, loss: f64::from(loss) }) }
}

/// Number of rows for which the logit of the row's class is the largest.
fn count_correct(logits: Tensor<2>, classes: &[i64]) -> usize {
    let [_, n_classes] = logits.dims();
    let values = to_values(logits);
    let is_correct = |(row, &class): (&[f32], &i64)| row.iter().all(|&logit| logit <= row[class as usize]);
    values.chunks_exact(n_classes).zip(classes).filter(|&pair| is_correct(pair)).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_have_nearly_equal_length() {
        assert_eq!(batches(10, 4), [0..3, 3..6, 6..10]);
        assert_eq!(batches(129, 128), [0..64, 64..129]);
        assert_eq!(batches(3, 128).len(), 1);
    }

    #[test]
    fn no_batch_has_only_one_image() {
        for n in 2..60 {
            for size in 3..20 {
                assert!(batches(n, size).iter().all(|batch| (2..=size).contains(&batch.len())), "{n} {size}");
            }
        }
    }

    #[test]
    fn data_order_differs_between_epochs() {
        let order = |epoch| shuffled(50, &mut random_stream("training", 3, epoch));
        assert_eq!(order(0), order(0));
        assert_ne!(order(0), order(1));
        let mut sorted = order(1);
        sorted.sort_unstable();
        assert!(sorted.into_iter().eq(0..50));
    }
}
