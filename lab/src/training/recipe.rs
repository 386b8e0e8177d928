//! What to train and how: everything that decides about a network but its data.

use serde::{Deserialize, Serialize};

use super::augment::Augment;
use crate::LabError;

/// The last convolution's maps are averaged over this many by this many regions: one average over all positions forgets where
/// strokes are, and cost some four of a thousand test digits.
pub(crate) const CNN_REGIONS: usize = 2;

/// The layers from a picture to its features.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Architecture {
    /// Linear layers with rectified units; the features are the last of them.
    Mlp {
        /// Values of a picture, which is flattened.
        inputs: usize,
        /// The width of each layer.
        hidden: Vec<usize>,
    },
    /// The paper's network for MNIST: three times a 3 × 3 convolution, batch normalization, rectified units and (after the
    /// first two) pooling; the features are averages over the four quarters of the last maps.
    Cnn {
        /// The channels of each convolution.
        widths: [usize; 3],
        /// The width of a linear layer with rectified units between the averages and the head, or none of it: the paper
        /// has none.
        embedding: Option<usize>,
    },
    /// ResNet-18 as CIFAR wants it: a 3 × 3 stem of stride 1 without pooling.
    ResNet18 {
        /// The channels of the first stage; 64 in the paper that introduced it.
        width: usize,
    },
    /// ResNet-50 with the same stem.
    ResNet50 {
        /// The channels of the first stage; 64 in the paper that introduced it.
        width: usize,
    },
}

impl Architecture {
    /// The number of features that reach the head: the dimension of embeddings.
    pub fn features(&self) -> usize {
        match self {
            Self::Mlp { inputs, hidden } => hidden.last().copied().unwrap_or(*inputs),
            Self::Cnn { widths, embedding } => embedding.unwrap_or(widths[2] * CNN_REGIONS * CNN_REGIONS),
            Self::ResNet18 { width } => 8 * width,
            Self::ResNet50 { width } => 32 * width,
        }
    }
}

/// What turns features into logits, and how it is trained.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum HeadKind {
    /// A linear layer, trained by cross entropy.
    Softmax,
    /// DUQ (van Amersfoort et al. 2020): a kernel around a centroid for each class, trained by binary cross entropy.
    /// Its slope is held by spectral normalization ([`Recipe::spectral`]), as in the NUQ paper, not by a gradient penalty.
    Duq {
        /// The dimension of the classes' spaces.
        projection: usize,
        /// The kernel's length scale.
        length_scale: f64,
        /// How much of a centroid is kept in a step.
        momentum: f64,
    },
    /// SNGP (Liu et al. 2020): a Gaussian process by random features with Laplace's approximation, trained by cross entropy.
    Sngp {
        /// The number of random features.
        features: usize,
        /// The kernel's length scale, in units of $\sqrt{d}$ for features of dimension $d$.
        length_scale: f64,
        /// The precision of the weights' prior.
        ridge: f64,
    },
}

impl HeadKind {
    /// DUQ for short trainings: a smaller space, a wider kernel and a shorter memory of centroids than its authors take. Chosen
    /// beforehand, not tuned.
    pub fn duq() -> Self {
        Self::Duq { projection: 64, length_scale: 0.3, momentum: 0.99 }
    }

    /// SNGP with 1024 random features. Chosen beforehand, not tuned.
    pub fn sngp() -> Self {
        Self::Sngp { features: 1024, length_scale: 1.0, ridge: 1.0 }
    }
}

/// Spectral normalization: no layer stretches more than `bound`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Spectral {
    /// The largest singular value that a layer may have.
    pub bound: f64,
    /// Steps of the power iteration after each step of training.
    pub power_steps: usize,
}

impl Default for Spectral {
    /// The paper's: a bound of one, three steps.
    fn default() -> Self {
        Self { bound: 1.0, power_steps: 3 }
    }
}

/// How gradients become steps.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub enum Optimizer {
    /// Adam with decoupled weight decay.
    Adam,
    /// Stochastic gradient descent.
    Sgd {
        /// How much of the last step is kept in the next.
        momentum: f64,
    },
}

/// How the learning rate goes over a training.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Schedule {
    /// Always the same.
    Constant,
    /// Up from a tenth over the first fifth of all steps, then down to a hundredth along a cosine.
    OneCycle,
    /// Divided by `divisor` before each of the epochs named, counted from 0.
    Steps {
        /// Before which epochs.
        epochs: Vec<usize>,
        /// By how much.
        divisor: f64,
    },
}

/// Everything that decides about a network but its data; a hash of both is part of the checkpoint's name.
///
/// Make one from a preset and change what differs:
///
/// ```
/// use nuq_lab::training::{Recipe, Spectral};
/// let recipe = Recipe { epochs: 2, spectral: Some(Spectral::default()), ..Recipe::mnist(7) };
/// assert_eq!(recipe.seed, 7);
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Recipe {
    /// The layers from a picture to its features.
    pub architecture: Architecture,
    /// What turns features into logits.
    pub head: HeadKind,
    /// The number of classes.
    pub n_classes: usize,
    /// Spectral normalization of all convolutions and linear layers, or none.
    pub spectral: Option<Spectral>,
    /// The share of features that are dropped before the head while training.
    pub dropout: f64,
    /// Passes over the data.
    pub epochs: usize,
    /// Pictures of a step.
    pub batch_size: usize,
    /// How gradients become steps.
    pub optimizer: Optimizer,
    /// The largest learning rate.
    pub learning_rate: f64,
    /// How the learning rate goes.
    pub schedule: Schedule,
    /// Weight decay of convolutions and linear layers.
    pub weight_decay: f64,
    /// Random changes of the pictures while training.
    pub augment: Augment,
    /// The seed of first weights, order, dropout and augmentation.
    pub seed: u64,
}

impl Recipe {
    /// Two classes of points in the plane.
    pub fn moons(seed: u64) -> Self {
        Self {
            architecture: Architecture::Mlp { inputs: 2, hidden: vec![64, 64] },
            head: HeadKind::Softmax,
            n_classes: 2,
            spectral: None,
            dropout: 0.0,
            epochs: 60,
            batch_size: 32,
            optimizer: Optimizer::Adam,
            learning_rate: 1e-2,
            schedule: Schedule::OneCycle,
            weight_decay: 1e-4,
            augment: Augment::NONE,
            seed,
        }
    }

    /// The paper's network for gray pictures of ten classes, 28 × 28; how accurate it is on MNIST is told in docs/reproduction.md.
    pub fn mnist(seed: u64) -> Self {
        Self {
            architecture: Architecture::Cnn { widths: [16, 32, 64], embedding: None },
            n_classes: 10,
            dropout: 0.1,
            epochs: 4,
            batch_size: 128,
            ..Self::moons(seed)
        }
    }

    /// ResNet-18 for CIFAR as the paper trains its networks: 200 epochs of stochastic gradient descent, for a GPU.
    pub fn cifar(n_classes: usize, seed: u64) -> Self {
        Self {
            architecture: Architecture::ResNet18 { width: 64 },
            n_classes,
            spectral: Some(Spectral::default()),
            epochs: 200,
            batch_size: 128,
            optimizer: Optimizer::Sgd { momentum: 0.9 },
            learning_rate: 0.1,
            schedule: Schedule::Steps { epochs: vec![60, 120, 160], divisor: 5.0 },
            weight_decay: 5e-4,
            augment: Augment::CIFAR_TRAINING,
            ..Self::moons(seed)
        }
    }

    /// The same over another number of epochs, the schedule's steps moved in proportion.
    pub fn over(self, epochs: usize) -> Self {
        let moved = |at: &usize| (at * epochs).div_ceil(self.epochs.max(1));
        let schedule = match &self.schedule {
            Schedule::Steps { epochs: steps, divisor } => {
                Schedule::Steps { epochs: steps.iter().map(moved).collect(), divisor: *divisor }
            }
            other => other.clone(),
        };
        Self { epochs, schedule, ..self }
    }

    /// Refuses what cannot be followed, with the option's name.
    pub fn check(&self) -> Result<(), LabError> {
        let refuse = |option, problem: &str| Err(LabError::Recipe { option, problem: problem.to_owned() });
        if self.n_classes < 2 {
            return refuse("n_classes", "must be at least 2");
        }
        if self.epochs == 0 || self.batch_size < 2 {
            return refuse("epochs and batch_size", "must be at least 1 and 2");
        }
        if !(0.0..1.0).contains(&self.dropout) {
            return refuse("dropout", "must be at least 0 and below 1");
        }
        if !(self.learning_rate > 0.0 && self.learning_rate.is_finite()) {
            return refuse("learning_rate", "must be positive");
        }
        if !(self.weight_decay >= 0.0 && self.weight_decay.is_finite()) {
            return refuse("weight_decay", "must be zero or positive");
        }
        if self.spectral.is_some_and(|spectral| spectral.bound <= 0.0 || spectral.power_steps == 0) {
            return refuse("spectral", "must have a positive bound and at least one power step");
        }
        self.check_layers()
    }

    fn check_layers(&self) -> Result<(), LabError> {
        let refuse = |option, problem: &str| Err(LabError::Recipe { option, problem: problem.to_owned() });
        let layers_fit = match &self.architecture {
            Architecture::Mlp { inputs, hidden } => *inputs > 0 && !hidden.is_empty() && !hidden.contains(&0),
            Architecture::Cnn { widths, embedding } => !widths.contains(&0) && *embedding != Some(0),
            Architecture::ResNet18 { width } | Architecture::ResNet50 { width } => *width > 0,
        };
        if !layers_fit {
            return refuse("architecture", "must have layers, each at least one wide");
        }
        match self.head {
            HeadKind::Duq { projection, length_scale, momentum }
                if projection == 0 || length_scale <= 0.0 || !(0.0..1.0).contains(&momentum) =>
            {
                refuse("head", "must have a positive projection and length scale and a momentum below 1")
            }
            HeadKind::Sngp { features, length_scale, ridge }
                if features == 0 || length_scale <= 0.0 || ridge <= 0.0 =>
            {
                refuse("head", "must have features and a positive length scale and ridge")
            }
            _ => Ok(()),
        }
    }

    /// The learning rate of a step, of `steps` in an epoch.
    pub(crate) fn rate(&self, epoch: usize, step: usize, steps: usize) -> f64 {
        let done = (epoch * steps + step) as f64 / (self.epochs * steps).max(1) as f64;
        self.learning_rate
            * match &self.schedule {
                Schedule::Constant => 1.0,
                Schedule::OneCycle if done < 0.2 => 0.1 + 0.9 * done / 0.2,
                Schedule::OneCycle => {
                    let down = (done - 0.2) / 0.8;
                    0.01 + 0.99 * 0.5 * (1.0 + (std::f64::consts::PI * down).cos())
                }
                Schedule::Steps { epochs, divisor } => {
                    divisor.powi(-(epochs.iter().filter(|&&at| at <= epoch).count() as i32))
                }
            }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_names_the_option() {
        let error = Recipe { dropout: 1.0, ..Recipe::mnist(0) }.check().unwrap_err();
        assert_eq!(error.to_string(), "the recipe's dropout must be at least 0 and below 1");
        let nothing = Architecture::Mlp { inputs: 2, hidden: vec![] };
        assert!(Recipe { architecture: nothing, ..Recipe::moons(0) }.check().is_err());
    }

    #[test]
    fn one_cycle_rises_to_the_rate_and_falls_to_a_hundredth() {
        let recipe = Recipe { epochs: 10, learning_rate: 1.0, ..Recipe::moons(0) };
        assert!((recipe.rate(0, 0, 100) - 0.1).abs() < 1e-12);
        assert!((recipe.rate(2, 0, 100) - 1.0).abs() < 1e-12);
        assert!((recipe.rate(6, 0, 100) - 0.505).abs() < 1e-12);
        assert!(recipe.rate(9, 99, 100) < 0.0101);
    }

    #[test]
    fn steps_divide_at_the_papers_epochs() {
        let recipe = Recipe::cifar(100, 0);
        for (epoch, expected) in [(0, 0.1), (59, 0.1), (60, 0.02), (120, 0.004), (160, 0.0008)] {
            assert!((recipe.rate(epoch, 5, 390) - expected).abs() < 1e-12, "{epoch}");
        }
    }

    #[test]
    fn a_shorter_training_has_its_steps_in_proportion() {
        let short = Recipe::cifar(10, 0).over(10);
        assert_eq!(short.schedule, Schedule::Steps { epochs: vec![3, 6, 8], divisor: 5.0 });
        assert_eq!((short.epochs, Recipe::cifar(10, 0).over(200)), (10, Recipe::cifar(10, 0)));
    }

    #[test]
    fn a_recipe_survives_its_json() {
        let recipe = Recipe { head: HeadKind::sngp(), ..Recipe::cifar(100, 3) };
        let json = serde_json::to_string(&recipe).unwrap();
        assert_eq!(serde_json::from_str::<Recipe>(&json).unwrap(), recipe);
    }
}
