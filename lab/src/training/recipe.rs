//! Training recipes: architecture, head, optimizer and all other settings of a training.

use serde::{Deserialize, Serialize};

use super::augment::Augment;
use crate::LabError;

/// The feature maps of the last convolution are averaged over `CNN_REGIONS × CNN_REGIONS` regions. Global average pooling loses the
/// positions of strokes and reduced the test accuracy on MNIST by about 0.4 percentage points.
pub(crate) const CNN_REGIONS: usize = 2;

/// Architecture of the network body, from image to features.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Architecture {
    /// Multilayer perceptron with ReLU. The features are the last hidden layer.
    Mlp {
        /// Number of values of a flattened image.
        inputs: usize,
        /// Width of each hidden layer.
        hidden: Vec<usize>,
    },
    /// The paper's MNIST network: three blocks of 3 × 3 convolution, batch normalization and ReLU, with max pooling after the first two. The
    /// features are averages over the four quarters of the last feature maps.
    Cnn {
        /// Number of channels of each convolution.
        widths: [usize; 3],
        /// Width of an additional linear layer with ReLU before the head. The paper has none.
        embedding: Option<usize>,
    },
    /// ResNet-18 for CIFAR, with a 3 × 3 stem of stride 1 and without pooling.
    ResNet18 {
        /// Number of channels of the first stage; 64 in the original paper.
        width: usize,
    },
    /// ResNet-50 with the same stem as [`Self::ResNet18`].
    ResNet50 {
        /// Number of channels of the first stage; 64 in the original paper.
        width: usize,
    },
}

impl Architecture {
    /// Number of features, the dimension of the embeddings.
    #[must_use]
    pub fn features(&self) -> usize {
        match self {
            Self::Mlp { inputs, hidden } => hidden.last().copied().unwrap_or(*inputs),
            Self::Cnn { widths, embedding } => embedding.unwrap_or(widths[2] * CNN_REGIONS * CNN_REGIONS),
            Self::ResNet18 { width } => 8 * width,
            Self::ResNet50 { width } => 32 * width,
        }
    }
}

/// Type of the head, which maps features to logits.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum HeadKind {
    /// Linear layer, trained with cross entropy.
    Softmax,
    /// DUQ (van Amersfoort et al. 2020): one kernel around a centroid per class, trained with binary cross entropy. As in the NUQ paper,
    /// spectral normalization ([`Recipe::spectral`]) replaces the gradient penalty.
    Duq {
        /// Dimension of the projection of each class.
        projection: usize,
        /// Length scale of the kernel.
        length_scale: f64,
        /// Momentum of the moving averages of the centroids, in `[0, 1)`.
        momentum: f64,
    },
    /// SNGP (Liu et al. 2020): a random-feature Gaussian process with a Laplace approximation, trained with cross entropy.
    Sngp {
        /// Number of random features.
        features: usize,
        /// Length scale of the kernel, in units of `√d` for features of dimension `d`.
        length_scale: f64,
        /// Precision of the prior of the weights.
        ridge: f64,
    },
}

impl HeadKind {
    /// DUQ settings for short trainings: smaller projection, wider kernel and smaller momentum than in the DUQ paper. The values were chosen
    /// in advance and not tuned.
    #[must_use]
    pub fn duq() -> Self {
        Self::Duq { projection: 64, length_scale: 0.3, momentum: 0.99 }
    }

    /// SNGP with 1024 random features. The values were chosen in advance and not tuned.
    #[must_use]
    pub fn sngp() -> Self {
        Self::Sngp { features: 1024, length_scale: 1.0, ridge: 1.0 }
    }
}

/// Settings of spectral normalization.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Spectral {
    /// Upper bound of the singular values of each layer.
    pub bound: f64,
    /// Number of power iterations after each training step.
    pub power_steps: usize,
}

impl Default for Spectral {
    /// The paper's settings: bound 1, three power iterations.
    fn default() -> Self {
        Self { bound: 1.0, power_steps: 3 }
    }
}

/// Optimizer.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub enum Optimizer {
    /// Adam with decoupled weight decay.
    Adam,
    /// Stochastic gradient descent.
    Sgd {
        /// Momentum, in `[0, 1)`.
        momentum: f64,
    },
}

/// Learning rate schedule.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Schedule {
    /// Constant learning rate.
    Constant,
    /// Linear increase from 10 % to 100 % of the maximum learning rate over the first fifth of all steps, then cosine decrease to 1 %.
    OneCycle,
    /// Division by `divisor` at the start of each listed epoch.
    Steps {
        /// Epochs, counted from 0.
        epochs: Vec<usize>,
        /// Divisor of the learning rate.
        divisor: f64,
    },
}

/// All settings of a training except the data. The file name of a checkpoint contains a hash of recipe and data.
///
/// Create a recipe from a preset and override fields:
///
/// ```
/// use nuq_lab::training::{Recipe, Spectral};
/// let recipe = Recipe { epochs: 2, spectral: Some(Spectral::default()), ..Recipe::mnist(7) };
/// assert_eq!(recipe.seed, 7);
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Recipe {
    /// Architecture of the network body, from image to features.
    pub architecture: Architecture,
    /// Type of the head.
    pub head: HeadKind,
    /// Number of classes.
    pub n_classes: usize,
    /// Spectral normalization of all convolutions and linear layers (but not of DUQ and SNGP heads), if any.
    pub spectral: Option<Spectral>,
    /// Dropout probability before the head, in `[0, 1)`.
    pub dropout: f64,
    /// Number of epochs.
    pub epochs: usize,
    /// Number of images per step, at least 3. The batches of an epoch have nearly equal length. With a batch size of 2, a batch
    /// could have a single image, but batch normalization needs at least two.
    pub batch_size: usize,
    /// Optimizer of the weights.
    pub optimizer: Optimizer,
    /// Maximum learning rate.
    pub learning_rate: f64,
    /// Learning rate schedule.
    pub schedule: Schedule,
    /// Weight decay of convolutions and linear layers.
    pub weight_decay: f64,
    /// Augmentation of training images.
    pub augment: Augment,
    /// Seed of initial weights, data order, dropout and augmentation.
    pub seed: u64,
}

impl Recipe {
    /// Preset for two classes of points in the plane.
    #[must_use]
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

    /// Preset for gray 28 × 28 images of ten classes: the paper's MNIST network. docs/reproduction.md contains its accuracy on MNIST.
    #[must_use]
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

    /// Preset for CIFAR: ResNet-18 with the paper's training, 200 epochs of stochastic gradient descent. In practice, it requires a
    /// GPU.
    #[must_use]
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

    /// Changes the number of epochs and scales the epochs of the learning rate schedule.
    #[must_use]
    pub fn with_epochs(self, epochs: usize) -> Self {
        let scaled = |epoch: &usize| (epoch * epochs).div_ceil(self.epochs.max(1));
        let schedule = match &self.schedule {
            Schedule::Steps { epochs: steps, divisor } => {
                Schedule::Steps { epochs: steps.iter().map(scaled).collect(), divisor: *divisor }
            }
            other => other.clone(),
        };
        Self { epochs, schedule, ..self }
    }

    /// Checks all settings.
    ///
    /// # Errors
    /// If a setting is invalid; the error contains its name.
    pub fn check(&self) -> Result<(), LabError> {
        let invalid = |option, problem: &str| Err(LabError::Recipe { option, problem: problem.to_owned() });
        if self.n_classes < 2 {
            return invalid("n_classes", "must be at least 2");
        }
        if self.epochs == 0 || self.batch_size < 3 {
            return invalid("epochs and batch_size", "must be at least 1 and 3");
        }
        if !(0.0..1.0).contains(&self.dropout) {
            return invalid("dropout", "must be at least 0 and below 1");
        }
        if let Optimizer::Sgd { momentum } = self.optimizer
            && !(0.0..1.0).contains(&momentum)
        {
            return invalid("optimizer", "must have a momentum of at least 0 and below 1");
        }
        if !is_positive(self.learning_rate) {
            return invalid("learning_rate", "must be positive");
        }
        if let Schedule::Steps { divisor, .. } = &self.schedule
            && !is_positive(*divisor)
        {
            return invalid("schedule", "must have a positive divisor");
        }
        if !(self.weight_decay >= 0.0 && self.weight_decay.is_finite()) {
            return invalid("weight_decay", "must be zero or positive");
        }
        if !(self.augment.max_degrees >= 0.0 && self.augment.max_degrees.is_finite()) {
            return invalid("augment", "must have max_degrees of zero or more");
        }
        if self.spectral.is_some_and(|spectral| !is_positive(spectral.bound) || spectral.power_steps == 0) {
            return invalid("spectral", "must have a positive bound and at least one power step");
        }
        self.check_layers()
    }

    fn check_layers(&self) -> Result<(), LabError> {
        let invalid = |option, problem: &str| Err(LabError::Recipe { option, problem: problem.to_owned() });
        let has_valid_layers = match &self.architecture {
            Architecture::Mlp { inputs, hidden } => *inputs > 0 && !hidden.is_empty() && !hidden.contains(&0),
            Architecture::Cnn { widths, embedding } => !widths.contains(&0) && *embedding != Some(0),
            Architecture::ResNet18 { width } | Architecture::ResNet50 { width } => *width > 0,
        };
        if !has_valid_layers {
            return invalid("architecture", "must have layers of positive width");
        }
        match self.head {
            HeadKind::Duq { projection, length_scale, momentum }
                if projection == 0 || !is_positive(length_scale) || !(0.0..1.0).contains(&momentum) =>
            {
                invalid("head", "must have a positive projection and length scale, and a momentum in [0, 1)")
            }
            HeadKind::Sngp { features, length_scale, ridge }
                if features == 0 || !is_positive(length_scale) || !is_positive(ridge) =>
            {
                invalid("head", "must have a positive number of features, length scale and ridge")
            }
            _ => Ok(()),
        }
    }

    /// Learning rate of a step in an epoch with `steps` steps.
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
                    divisor.powi(-(epochs.iter().filter(|&&start| start <= epoch).count() as i32))
                }
            }
    }
}

/// Whether a number is positive and finite. NaN is not.
fn is_positive(value: f64) -> bool {
    value > 0.0 && value.is_finite()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_settings_are_named() {
        let moons = || Recipe::moons(0);
        let spectral =
            |bound, power_steps| Recipe { spectral: Some(Spectral { bound, power_steps }), ..moons() };
        let sgd = |momentum| Recipe { optimizer: Optimizer::Sgd { momentum }, ..moons() };
        let steps = |divisor| Recipe { schedule: Schedule::Steps { epochs: vec![1], divisor }, ..moons() };
        let rotated = |max_degrees| Recipe { augment: Augment { max_degrees, ..Augment::NONE }, ..moons() };
        let duq = |length_scale| {
            let head = HeadKind::Duq { projection: 4, length_scale, momentum: 0.9 };
            Recipe { head, ..moons() }
        };
        let sngp = |length_scale, ridge| {
            let head = HeadKind::Sngp { features: 4, length_scale, ridge };
            Recipe { head, ..moons() }
        };
        for (recipe, expected) in [
            (Recipe { batch_size: 2, ..moons() }, "epochs and batch_size"),
            (Recipe { learning_rate: f64::NAN, ..moons() }, "learning_rate"),
            (sgd(1.0), "optimizer"),
            (sgd(-0.1), "optimizer"),
            (sgd(f64::NAN), "optimizer"),
            (steps(0.0), "schedule"),
            (steps(f64::NAN), "schedule"),
            (rotated(-1.0), "augment"),
            (rotated(f64::NAN), "augment"),
            (spectral(0.0, 1), "spectral"),
            (spectral(f64::NAN, 1), "spectral"),
            (spectral(1.0, 0), "spectral"),
            (duq(f64::NAN), "head"),
            (sngp(f64::NAN, 1.0), "head"),
            (sngp(1.0, f64::NAN), "head"),
        ] {
            let result = recipe.check();
            let is_named = matches!(result, Err(LabError::Recipe { option, .. }) if option == expected);
            assert!(is_named, "{expected}: {result:?}");
        }
        for recipe in
            [moons(), Recipe::mnist(0), Recipe::cifar(10, 0), spectral(1.0, 1), sgd(0.0), sngp(1.0, 1.0)]
        {
            recipe.check().unwrap();
        }
    }

    #[test]
    fn dropout_error_states_the_range_and_an_mlp_without_layers_is_an_error() {
        let error = Recipe { dropout: 1.0, ..Recipe::mnist(0) }.check().unwrap_err();
        assert_eq!(error.to_string(), "recipe option dropout must be at least 0 and below 1");
        let nothing = Architecture::Mlp { inputs: 2, hidden: vec![] };
        assert!(Recipe { architecture: nothing, ..Recipe::moons(0) }.check().is_err());
    }

    #[test]
    fn one_cycle_rises_to_the_maximum_and_falls_to_one_percent() {
        let recipe = Recipe { epochs: 10, learning_rate: 1.0, ..Recipe::moons(0) };
        assert!((recipe.rate(0, 0, 100) - 0.1).abs() < 1e-12);
        assert!((recipe.rate(2, 0, 100) - 1.0).abs() < 1e-12);
        assert!((recipe.rate(6, 0, 100) - 0.505).abs() < 1e-12);
        assert!(recipe.rate(9, 99, 100) < 0.0101);
    }

    #[test]
    fn step_schedule_matches_the_paper() {
        let recipe = Recipe::cifar(100, 0);
        for (epoch, expected) in [(0, 0.1), (59, 0.1), (60, 0.02), (120, 0.004), (160, 0.0008)] {
            assert!((recipe.rate(epoch, 5, 390) - expected).abs() < 1e-12, "{epoch}");
        }
    }

    #[test]
    fn with_epochs_scales_the_schedule() {
        let short = Recipe::cifar(10, 0).with_epochs(10);
        assert_eq!(short.schedule, Schedule::Steps { epochs: vec![3, 6, 8], divisor: 5.0 });
        assert_eq!((short.epochs, Recipe::cifar(10, 0).with_epochs(200)), (10, Recipe::cifar(10, 0)));
    }

    #[test]
    fn recipe_round_trips_through_json() {
        let recipe = Recipe { head: HeadKind::sngp(), ..Recipe::cifar(100, 3) };
        let json = serde_json::to_string(&recipe).unwrap();
        assert_eq!(serde_json::from_str::<Recipe>(&json).unwrap(), recipe);
    }
}
