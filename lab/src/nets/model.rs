//! The network that a recipe describes: a body that maps images to features and a head that maps features to logits.

use burn::module::Module;
use burn::nn::Linear;
use burn::nn::loss::CrossEntropyLossConfig;
use burn::tensor::{Device, Int, Tensor};
use nuq_neighbors::SeededRng;

use super::cnn::{Cnn, SMALLEST_SIDE};
use super::duq::DuqHead;
use super::layers::linear;
use super::mlp::Mlp;
use super::resnet::ResNet;
use super::sngp::SngpHead;
use crate::LabError;
use crate::random::random_stream;
use crate::training::{Architecture, HeadKind, Recipe};

// A model contains only one body, so the unused memory of a smaller variant is negligible.
#[allow(clippy::large_enum_variant)]
#[derive(Module, Debug)]
pub(crate) enum Body {
    Mlp(Mlp),
    Cnn(Cnn),
    ResNet(ResNet),
}

#[derive(Module, Debug)]
pub(crate) enum Head {
    Softmax(Linear),
    Duq(DuqHead),
    Sngp(SngpHead),
}

#[derive(Module, Debug)]
pub(crate) struct Model {
    body: Body,
    head: Head,
}

impl Model {
    /// Creates a model with seeded initial weights for images of a shape (channels, rows, columns).
    pub(crate) fn new(recipe: &Recipe, shape: [usize; 3], device: &Device) -> Result<Self, LabError> {
        check_shape(recipe, shape)?;
        let mut rng = random_stream("first weights", recipe.seed, 0);
        let body = Body::new(&recipe.architecture, shape[0], &mut rng, device);
        let head = Head::new(recipe, recipe.architecture.features(), &mut rng, device);
        Ok(Self { body, head })
    }

    pub(crate) fn features(&self, images: Tensor<4>) -> Tensor<2> {
        match &self.body {
            Body::Mlp(body) => body.features(images),
            Body::Cnn(body) => body.features(images),
            Body::ResNet(body) => body.features(images),
        }
    }

    pub(crate) fn head(&self) -> &Head {
        &self.head
    }

    pub(crate) fn head_mut(&mut self) -> &mut Head {
        &mut self.head
    }
}

impl Body {
    fn new(architecture: &Architecture, channels: usize, rng: &mut SeededRng, device: &Device) -> Self {
        match architecture {
            Architecture::Mlp { inputs, hidden } => Self::Mlp(Mlp::new(rng, *inputs, hidden, device)),
            Architecture::Cnn { widths, embedding } => {
                Self::Cnn(Cnn::new(rng, channels, *widths, *embedding, device))
            }
            Architecture::ResNet18 { width } => Self::ResNet(ResNet::resnet18(rng, channels, *width, device)),
            Architecture::ResNet50 { width } => Self::ResNet(ResNet::resnet50(rng, channels, *width, device)),
        }
    }
}

impl Head {
    fn new(recipe: &Recipe, width: usize, rng: &mut SeededRng, device: &Device) -> Self {
        let n_classes = recipe.n_classes;
        match recipe.head {
            HeadKind::Softmax => Self::Softmax(linear(rng, width, n_classes, device)),
            HeadKind::Duq { projection, length_scale, momentum } => {
                let sizes = [width, projection, n_classes];
                Self::Duq(DuqHead::new(rng, sizes, length_scale, momentum, device))
            }
            HeadKind::Sngp { features, length_scale, ridge } => {
                let sizes = [width, features, n_classes];
                Self::Sngp(SngpHead::new(rng, sizes, length_scale, ridge, device))
            }
        }
    }

    /// Output of a trained head: logits (softmax), mean-field logits (SNGP) or log kernels (DUQ).
    pub(crate) fn logits(&self, features: Tensor<2>) -> Tensor<2> {
        match self {
            Self::Softmax(head) => head.forward(features),
            Self::Duq(head) => head.log_kernels(features),
            Self::Sngp(head) => head.logits(features),
        }
    }

    /// The loss and the logits from which it was computed.
    pub(crate) fn loss(&self, features: Tensor<2>, labels: Tensor<1, Int>) -> (Tensor<1>, Tensor<2>) {
        let cross_entropy = |logits: &Tensor<2>| {
            CrossEntropyLossConfig::new().init(&logits.device()).forward(logits.clone(), labels.clone())
        };
        match self {
            Self::Softmax(head) => {
                let logits = head.forward(features);
                (cross_entropy(&logits), logits)
            }
            Self::Sngp(head) => {
                let logits = head.plain_logits(features);
                (cross_entropy(&logits), logits)
            }
            Self::Duq(head) => {
                let log_kernels = head.log_kernels(features);
                let [_, n_classes] = log_kernels.dims();
                (head.loss(log_kernels.clone(), one_hot(labels, n_classes)), log_kernels)
            }
        }
    }

    /// Updates the parts of a head that are not trained by gradients (the centroids of DUQ).
    pub(crate) fn after_step(&mut self, features: Tensor<2>, labels: Tensor<1, Int>, n_classes: usize) {
        if let Self::Duq(head) = self {
            head.update_centroids(features, one_hot(labels, n_classes));
        }
    }
}

/// One-hot encoding of labels.
fn one_hot(labels: Tensor<1, Int>, n_classes: usize) -> Tensor<2> {
    labels.one_hot::<2>(n_classes).float()
}

/// Checks that the architecture supports the image shape.
fn check_shape(recipe: &Recipe, [channels, height, width]: [usize; 3]) -> Result<(), LabError> {
    let problem = match recipe.architecture {
        Architecture::Mlp { inputs, .. } if inputs != channels * height * width => {
            format!("expects {inputs} values per image, but images have {}", channels * height * width)
        }
        Architecture::Cnn { .. } if height.min(width) < SMALLEST_SIDE => {
            format!(
                "requires images of at least {SMALLEST_SIDE} × {SMALLEST_SIDE} pixels, but images have {height} × {width}"
            )
        }
        _ => return Ok(()),
    };
    Err(LabError::Recipe { option: "architecture", problem })
}
