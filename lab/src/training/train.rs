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
use super::state::{State, numbers};
use crate::nets::{Head, Model, device, dropout};
use crate::stream::stream;
use crate::{Images, LabError, Labeled};

/// A model that is trained, off the graph, and how long that took.
pub(crate) struct Trained {
    pub(crate) model: Model,
    pub(crate) seconds: f64,
}

/// Trains, from where the cache's checkpoint ends.
pub(crate) fn train(
    recipe: &Recipe,
    data: &Labeled,
    cache: &Cache,
    progress: &dyn Progress,
) -> Result<Trained, LabError> {
    recipe.check()?;
    check_data(recipe, data)?;
    let path = cache.path(recipe, data);
    let device = device().autodiff();
    let shape = data.images.shape();
    let mut state = match Checkpoint::load(&path)? {
        Some(checkpoint) => State::resume(checkpoint, recipe, shape, &device, &path)?,
        None => State::new(recipe, shape, &device)?,
    };
    if state.epochs < recipe.epochs {
        progress.start(state.epochs, recipe.epochs);
    }
    while state.epochs < recipe.epochs {
        let started = Instant::now();
        let mut course = Course { recipe, data, device: &device, precision: None };
        let told = course.epoch(&mut state, progress)?;
        let seconds = started.elapsed().as_secs_f64();
        state.seconds += seconds;
        state.checkpoint(recipe, shape).store(&path)?;
        progress.epoch(&told.epoch(state.epochs, recipe.epochs, data.len() as f64 / seconds));
        if progress.stop() && state.epochs < recipe.epochs {
            return Err(LabError::Stopped { epoch: state.epochs });
        }
    }
    Ok(Trained { model: state.model.valid(), seconds: state.seconds })
}

fn check_data(recipe: &Recipe, data: &Labeled) -> Result<(), LabError> {
    let refuse = |option, problem| Err(LabError::Recipe { option, problem });
    if recipe.n_classes != data.n_classes {
        return refuse("n_classes", format!("is {}, the data have {}", recipe.n_classes, data.n_classes));
    }
    if data.len() < 2 {
        return refuse("batch_size", format!("needs at least 2 pictures, the data have {}", data.len()));
    }
    Ok(())
}

/// Pictures as a tensor.
pub(crate) fn image_tensor(images: Images, device: &Device) -> Tensor<4> {
    let [channels, height, width] = images.shape();
    let shape = [images.len(), channels, height, width];
    Tensor::from_data(TensorData::new(images.pixels, shape), device)
}

/// Sums over the steps of an epoch.
#[derive(Default)]
struct Told {
    loss: f64,
    right: usize,
    pictures: usize,
}

impl Told {
    fn epoch(&self, number: usize, of: usize, images_per_second: f64) -> Epoch {
        let pictures = self.pictures as f64;
        Epoch {
            number,
            of,
            loss: self.loss / pictures,
            accuracy: self.right as f64 / pictures,
            images_per_second,
        }
    }
}

/// One pass over the data.
struct Course<'a> {
    recipe: &'a Recipe,
    data: &'a Labeled,
    device: &'a Device,
    /// What the last epoch adds to SNGP's precision.
    precision: Option<Tensor<2>>,
}

impl Course<'_> {
    fn epoch(&mut self, state: &mut State, progress: &dyn Progress) -> Result<Told, LabError> {
        let started = Instant::now();
        let mut rng = stream("training", self.recipe.seed, state.epochs);
        let order = shuffled(self.data.len(), &mut rng);
        let ranges = batches(order.len(), self.recipe.batch_size);
        let mut told = Told::default();
        for (step, range) in ranges.iter().enumerate() {
            let rate = self.recipe.rate(state.epochs, step, ranges.len());
            self.step(state, &order[range.clone()], rate, &mut rng, &mut told)?;
            let speed = told.pictures as f64 / started.elapsed().as_secs_f64();
            let so_far = told.epoch(state.epochs + 1, self.recipe.epochs, speed);
            progress.step(&so_far, told.pictures as f64 / order.len() as f64);
        }
        state.epochs += 1;
        if state.epochs == self.recipe.epochs {
            self.finish(state)?;
        }
        Ok(told)
    }

    fn step(
        &mut self,
        state: &mut State,
        ids: &[usize],
        rate: f64,
        rng: &mut SeededRng,
        told: &mut Told,
    ) -> Result<(), LabError> {
        let images = self.recipe.augment.apply(&self.data.images.select(ids), rng);
        let classes: Vec<i64> = ids.iter().map(|&id| self.data.labels[id] as i64).collect();
        let labels = Tensor::<1, Int>::from_data(TensorData::new(classes.clone(), [ids.len()]), self.device);
        let features = state.model.features(image_tensor(images, self.device));
        let kept = dropout(features.clone(), self.recipe.dropout, rng);
        let (loss, logits) = state.model.head().loss(kept, labels.clone());
        let gradients = GradientsParams::from_grads(loss.backward(), &state.model);
        told.loss += f64::from(finite(loss, state.epochs + 1)?) * ids.len() as f64;
        told.right += right(logits, &classes);
        told.pictures += ids.len();
        // Taken out of the state while it changes: burn's modules change by value.
        let model = state.model.clone();
        let mut model = state.moments.step(self.recipe, rate, model, gradients);
        if let Some(spectral) = &mut state.spectral {
            model = spectral.follow(model);
        }
        model.head_mut().after_step(features.clone().detach(), labels, self.recipe.n_classes);
        self.gather(&model, features.detach(), state.epochs);
        state.model = model;
        Ok(())
    }

    /// In the last epoch SNGP's precision grows with each step.
    fn gather(&mut self, model: &Model, features: Tensor<2>, epochs_done: usize) {
        let (Head::Sngp(head), true) = (model.head(), epochs_done + 1 == self.recipe.epochs) else { return };
        let added = head.precision_of(features);
        self.precision = Some(match self.precision.take() {
            Some(before) => before + added,
            None => added,
        });
    }

    /// What remains to be done when all steps are.
    fn finish(&mut self, state: &mut State) -> Result<(), LabError> {
        if let Some(spectral) = &mut state.spectral {
            state.model = spectral.settle(state.model.clone());
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

/// Ranges of nearly equal length, none longer than `size`: a last batch of one picture would have no variance to be normalized by.
fn batches(n: usize, size: usize) -> Vec<Range<usize>> {
    let count = n.div_ceil(size);
    (0..count).map(|i| n * i / count..n * (i + 1) / count).collect()
}

fn finite(loss: Tensor<1>, epoch: usize) -> Result<f32, LabError> {
    let loss: f32 = loss.into_scalar();
    if loss.is_finite() { Ok(loss) } else { Err(LabError::Diverged { epoch, loss: f64::from(loss) }) }
}

/// How many rows have their largest logit at their class.
fn right(logits: Tensor<2>, classes: &[i64]) -> usize {
    let [_, n_classes] = logits.dims();
    let values = numbers(logits);
    let is_right = |(row, &class): (&[f32], &i64)| row.iter().all(|&logit| logit <= row[class as usize]);
    values.chunks_exact(n_classes).zip(classes).filter(|&pair| is_right(pair)).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_are_of_nearly_equal_length() {
        assert_eq!(batches(10, 4), [0..3, 3..6, 6..10]);
        assert_eq!(batches(129, 128), [0..64, 64..129]);
        assert_eq!(batches(3, 128).len(), 1);
    }

    #[test]
    fn each_epoch_has_an_order_of_its_own() {
        let order = |epoch| shuffled(50, &mut stream("training", 3, epoch));
        assert_eq!(order(0), order(0));
        assert_ne!(order(0), order(1));
        let mut sorted = order(1);
        sorted.sort_unstable();
        assert!(sorted.into_iter().eq(0..50));
    }
}
