//! Tests of complete small trainings: accuracy, reproducibility, resuming, and uncertainty far from the data.

use std::cell::{Cell, RefCell};

use nuq_neighbors::SeededRng;

use super::train::train;
use super::*;
use crate::nets::largest_singular_values;
use crate::{Images, LabError, Labeled};

/// Noisy 8 × 8 images with a bright bar at a random position: vertical (0), horizontal (1) or diagonal (2).
fn bars(n: usize, seed: u64) -> Labeled {
    let mut rng = SeededRng::new(seed);
    let mut pixels = Vec::new();
    let mut labels = Vec::new();
    for i in 0..n {
        let (label, at) = (i % 3, 2 + rng.below(4));
        for position in 0..64 {
            let (row, column) = (position / 8, position % 8);
            let is_bright = match label {
                0 => column == at,
                1 => row == at,
                _ => (row + 4).abs_diff(column + at) == 0,
            };
            pixels.push((0.2 * rng.uniform() + if is_bright { 0.7 } else { 0.0 }) as f32);
        }
        labels.push(label);
    }
    Labeled::new(Images::new(1, 8, 8, pixels).unwrap(), labels, 3).unwrap()
}

/// Points of two Gaussian classes.
fn clouds(n: usize, seed: u64) -> Labeled {
    let mut rng = SeededRng::new(seed);
    let labels: Vec<usize> = (0..n).map(|i| i % 2).collect();
    let centers = [-1.0, 1.0];
    let pixels = labels.iter().flat_map(|&label| {
        [centers[label] + 0.3 * rng.normal(), 0.3 * rng.normal()].map(|value| value as f32)
    });
    Labeled::new(Images::new(1, 1, 2, pixels.collect()).unwrap(), labels, 2).unwrap()
}

fn small_cnn(seed: u64) -> Recipe {
    Recipe {
        architecture: Architecture::Cnn { widths: [4, 8, 12], embedding: None },
        n_classes: 3,
        epochs: 3,
        batch_size: 32,
        ..Recipe::mnist(seed)
    }
}

/// Records loss and accuracy of each epoch, and stops when it has recorded `stop_after` epochs; 0: never.
#[derive(Default)]
struct EpochRecorder {
    epochs: RefCell<Vec<(f64, f64)>>,
    stop_after: Cell<usize>,
}

impl Progress for EpochRecorder {
    fn epoch(&self, epoch: &Epoch) {
        self.epochs.borrow_mut().push((epoch.loss, epoch.accuracy));
    }

    fn stop(&self) -> bool {
        self.epochs.borrow().len() == self.stop_after.get()
    }
}

fn trained(recipe: &Recipe, data: &Labeled) -> Network {
    let folder = tempfile::tempdir().unwrap();
    Network::train(recipe, data, &Cache::new(folder.path()), &Silent).unwrap()
}

#[test]
fn networks_learn_points_and_images() {
    let moons = Recipe { epochs: 10, ..Recipe::moons(0) };
    let outputs = trained(&moons, &clouds(200, 1)).outputs(&clouds(200, 2).images).unwrap();
    assert!(outputs.accuracy(&clouds(200, 2).labels) > 0.98);
    assert_eq!((outputs.embeddings.len(), outputs.embeddings.dim()), (200, 64));

    let cnn = Recipe { epochs: 6, ..small_cnn(0) };
    let test = bars(150, 2);
    let outputs = trained(&cnn, &bars(600, 1)).outputs(&test.images).unwrap();
    assert!(outputs.accuracy(&test.labels) > 0.95, "{}", outputs.accuracy(&test.labels));
    assert_eq!(outputs.logits.len(), 150 * 3);
}

#[test]
fn training_is_reproducible() {
    let epochs = |seed| {
        let folder = tempfile::tempdir().unwrap();
        let recorder = EpochRecorder::default();
        let recipe = Recipe { augment: Augment::DIGITS_TTA, ..small_cnn(seed) };
        Network::train(&recipe, &bars(150, 1), &Cache::new(folder.path()), &recorder).unwrap();
        recorder.epochs.into_inner()
    };
    assert_eq!(epochs(5), epochs(5));
    assert_ne!(epochs(5), epochs(6));
}

#[test]
fn resumed_training_gives_the_same_network() {
    let sgd = Recipe { optimizer: Optimizer::Sgd { momentum: 0.9 }, learning_rate: 0.05, ..small_cnn(1) };
    let spectral = Recipe { spectral: Some(Spectral::default()), ..small_cnn(1) };
    let duq = Recipe { head: HeadKind::duq(), ..small_cnn(1) };
    let sngp =
        Recipe { head: HeadKind::Sngp { features: 32, length_scale: 1.0, ridge: 1.0 }, ..small_cnn(1) };
    for recipe in [sgd, spectral, duq, sngp] {
        let data = bars(90, 1);
        let whole = trained(&recipe, &data).outputs(&data.images).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::new(folder.path());
        let recorder = EpochRecorder::default();
        recorder.stop_after.set(1);
        let stopped = Network::train(&recipe, &data, &cache, &recorder).unwrap_err();
        assert!(matches!(stopped, LabError::Stopped { epoch: 1 }));
        let resumed = Network::train(&recipe, &data, &cache, &recorder).unwrap();
        assert_eq!(recorder.epochs.borrow().len(), 3, "epoch 1 must not be repeated");
        assert_eq!(resumed.outputs(&data.images).unwrap().logits, whole.logits, "{recipe:?}");
    }
}

#[test]
fn trained_network_is_loaded_from_the_cache() {
    let folder = tempfile::tempdir().unwrap();
    let cache = Cache::new(folder.path());
    let data = bars(60, 1);
    let first = Network::train(&small_cnn(0), &data, &cache, &Silent).unwrap();
    let recorder = EpochRecorder::default();
    let second = Network::train(&small_cnn(0), &data, &cache, &recorder).unwrap();
    assert!(recorder.epochs.borrow().is_empty());
    assert_eq!(second.training_seconds(), first.training_seconds());
    assert!(first.training_seconds() > 0.0);
    let logits = |network: &Network| network.outputs(&data.images).unwrap().logits;
    assert_eq!(logits(&first), logits(&second));
}

#[test]
fn trained_layers_satisfy_the_spectral_bound() {
    let folder = tempfile::tempdir().unwrap();
    let recipe = Recipe {
        architecture: Architecture::Cnn { widths: [4, 8, 12], embedding: Some(10) },
        spectral: Some(Spectral::default()),
        ..small_cnn(0)
    };
    let model = train(&recipe, &bars(300, 1), Some(&Cache::new(folder.path())), &Silent).unwrap().model;
    let values = largest_singular_values(&model);
    assert_eq!(values.len(), 5, "{values:?}");
    assert!(values.iter().all(|(_, sigma)| *sigma <= 1.0 + 1e-3), "{values:?}");
    let unbounded = Recipe { spectral: None, ..recipe };
    let model = train(&unbounded, &bars(300, 1), Some(&Cache::new(folder.path())), &Silent).unwrap().model;
    assert!(largest_singular_values(&model).iter().any(|(_, sigma)| *sigma > 1.1));
}

#[test]
fn duq_and_sngp_learn_and_are_uncertain_far_away() {
    let test = clouds(100, 2);
    let far = Images::new(1, 1, 2, vec![0.0, 9.0, 0.0, -9.0]).unwrap();
    for head in [HeadKind::duq(), HeadKind::Sngp { features: 256, length_scale: 0.5, ridge: 1.0 }] {
        let recipe = Recipe {
            head,
            spectral: Some(Spectral { bound: 3.0, power_steps: 3 }),
            epochs: 30,
            ..Recipe::moons(1)
        };
        let network = trained(&recipe, &clouds(200, 1));
        let near = network.outputs(&test.images).unwrap();
        assert!(near.accuracy(&test.labels) > 0.97, "{:?}: {}", recipe.head, near.accuracy(&test.labels));
        let mut near_scores = network.head_uncertainty(&near);
        near_scores.sort_by(f64::total_cmp);
        for far_score in network.head_uncertainty(&network.outputs(&far).unwrap()) {
            assert!(far_score > near_scores[90], "{:?}: {far_score} {near_scores:?}", recipe.head);
        }
        assert!(network.head().is_none());
    }
}

#[test]
fn residual_networks_are_trained() {
    let data = bars(24, 1);
    for architecture in [Architecture::ResNet18 { width: 2 }, Architecture::ResNet50 { width: 2 }] {
        let recipe = Recipe {
            architecture,
            epochs: 1,
            batch_size: 12,
            augment: Augment::CIFAR_TRAINING,
            ..Recipe::cifar(3, 0)
        };
        let outputs = trained(&recipe, &data).outputs(&data.images).unwrap();
        assert_eq!(outputs.embeddings.dim(), recipe.architecture.features());
        assert!(outputs.logits.iter().all(|logit| logit.is_finite()));
    }
}

#[test]
fn dropout_passes_and_augmentations_differ_and_are_reproducible() {
    let data = bars(60, 1);
    let network = trained(&small_cnn(0), &data);
    let outputs = network.outputs(&data.images).unwrap();
    let dropped = network.dropout_logits(&outputs, 3, 1).unwrap();
    assert_eq!((dropped.len(), dropped[0].len()), (3, 60 * 3));
    assert_ne!(dropped[0], dropped[1]);
    assert_eq!(dropped, network.dropout_logits(&outputs, 3, 1).unwrap());
    let augmented = network.augmented_logits(&data.images, 2, Augment::DIGITS_TTA, 1).unwrap();
    assert_ne!(augmented[0], augmented[1]);
    assert_eq!(augmented, network.augmented_logits(&data.images, 2, Augment::DIGITS_TTA, 1).unwrap());
    let plain = network.augmented_logits(&data.images, 1, Augment::NONE, 1).unwrap();
    assert_eq!(plain[0], network.outputs(&data.images).unwrap().logits);
}

#[test]
fn head_weights_reproduce_the_logits() {
    let data = bars(30, 1);
    let network = trained(&small_cnn(0), &data);
    let outputs = network.outputs(&data.images).unwrap();
    let (weights, bias) = network.head().unwrap();
    for (i, logits) in outputs.logits.chunks_exact(3).enumerate() {
        for (class, logit) in logits.iter().enumerate() {
            let products = outputs.embeddings.row(i).iter().zip(weights.row(class));
            let expected = products.map(|(a, b)| f64::from(a * b)).sum::<f64>() + bias[class];
            assert!((logit - expected).abs() < 1e-4, "{logit} {expected}");
        }
    }
}

#[test]
fn invalid_inputs_are_errors() {
    let data = bars(30, 1);
    let network = trained(&Recipe { dropout: 0.0, ..small_cnn(0) }, &data);
    let points = clouds(4, 1).images;
    assert!(matches!(network.outputs(&points).unwrap_err(), LabError::Shape { .. }));
    assert!(matches!(
        network.dropout_logits(&network.outputs(&data.images).unwrap(), 2, 0).unwrap_err(),
        LabError::Recipe { option: "dropout", .. }
    ));
    let folder = tempfile::tempdir().unwrap();
    let error = |recipe: &Recipe, data: &Labeled| {
        Network::train(recipe, data, &Cache::new(folder.path()), &Silent).unwrap_err().to_string()
    };
    assert!(error(&Recipe::mnist(0), &data).contains("n_classes is 10, but the data have 3 classes"));
    assert!(error(&Recipe { n_classes: 2, ..small_cnn(0) }, &clouds(4, 1)).contains("at least 4 × 4"));
}

#[test]
fn diverging_loss_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let recipe = Recipe {
        optimizer: Optimizer::Sgd { momentum: 0.9 },
        learning_rate: 1e30,
        schedule: Schedule::Constant,
        ..small_cnn(0)
    };
    let error = Network::train(&recipe, &bars(90, 1), &Cache::new(folder.path()), &Silent).unwrap_err();
    assert!(matches!(error, LabError::Diverged { .. }), "{error}");
    // The folder contains at most the checkpoint of a completed epoch, and no temporary file.
    assert!(std::fs::read_dir(folder.path()).unwrap().count() <= 1);
}

#[test]
fn network_does_not_depend_on_the_number_of_threads() {
    let data = bars(60, 1);
    let recipe = Recipe { spectral: Some(Spectral::default()), ..small_cnn(0) };
    let logits = |threads: usize| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| trained(&recipe, &data).outputs(&data.images).unwrap().logits)
    };
    assert_eq!(logits(1), logits(3));
}
