//! What all experiments on MNIST share: digits, their rotated selves, outliers, and what networks say about them.

use nuq_neighbors::Embeddings;

use super::{Lab, Size};
use crate::data::outliers::{self, Outliers};
use crate::data::rotate::{DEGREES, rotated};
use crate::data::{DataError, get, idx};
use crate::training::{HeadKind, Network, Outputs, Recipe, Silent, Spectral, ToStderr};
use crate::{Images, LabError, Labeled};

/// Networks of an ensemble, as in the paper.
pub(super) const MEMBERS: usize = 5;

/// The pictures.
pub(super) struct Digits {
    pub(super) train: Labeled,
    pub(super) test: Labeled,
    pub(super) rotated: Images,
    pub(super) outliers: Vec<Outliers>,
}

impl Digits {
    pub(super) fn load(lab: &Lab) -> Result<Self, LabError> {
        let folder = get::folder(lab.cache(), "mnist");
        let read = |part: &str, most: usize| -> Result<Labeled, LabError> {
            let (images, labels) = (format!("{part}-images-idx3-ubyte"), format!("{part}-labels-idx1-ubyte"));
            let (images, labels) = (folder.join(images), folder.join(labels));
            if !images.is_file() || !labels.is_file() {
                let folder = folder.clone();
                return Err(DataError::NotBrought { title: "MNIST", name: "mnist", folder }.into());
            }
            let all = idx::read_labeled(&images, &labels)?;
            Ok(all.rows(0..all.len().min(most)))
        };
        let (train, test) = lab.size.pick((60_000, 10_000), (10_000, 2000), (1500, 300));
        let (train, test) = (read("train", train)?, read("t10k", test)?);
        let outliers = outliers::all(lab.cache(), lab.user_data(), lab.size.pick(10_000, 1000, 100))?;
        Ok(Self { rotated: rotated(&test.images, DEGREES, 0), train, test, outliers })
    }

    /// Test digits, rotated digits, then each set of outliers.
    pub(super) fn views(&self) -> impl Iterator<Item = &Images> {
        [&self.test.images, &self.rotated].into_iter().chain(self.outliers.iter().map(|set| &set.images))
    }
}

/// How a network is trained.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Kind {
    /// Spectrally normalized, as the paper's: the one that uncertainties are computed from.
    Spectral,
    /// Without normalization.
    Plain,
    /// Spectrally normalized with DUQ's head.
    Duq,
    /// Spectrally normalized with SNGP's head.
    Sngp,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Kind::Spectral => "with spectral normalization",
            Kind::Plain => "plain",
            Kind::Duq => "with DUQ's head",
            Kind::Sngp => "with SNGP's head",
        }
    }
}

/// Which network.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Base {
    pub(super) kind: Kind,
    pub(super) seed: u64,
}

impl Base {
    /// The network that uncertainties are computed from.
    pub(super) fn spectral(seed: u64) -> Self {
        Self { kind: Kind::Spectral, seed }
    }

    fn recipe(self, size: Size) -> Recipe {
        let spectral = (self.kind != Kind::Plain).then(Spectral::default);
        let head = match self.kind {
            Kind::Duq => HeadKind::duq(),
            Kind::Sngp => HeadKind::sngp(),
            Kind::Spectral | Kind::Plain => HeadKind::Softmax,
        };
        let recipe = Recipe { spectral, head, epochs: 3, ..Recipe::mnist(self.seed) };
        match size {
            Size::Full | Size::Small => recipe,
            Size::Tiny => Recipe { epochs: 6, batch_size: 32, ..recipe },
        }
    }
}

/// What a network says.
pub(super) struct Seen {
    pub(super) network: Network,
    pub(super) train: Outputs,
    /// Of test digits, rotated digits, then each set of outliers.
    views: Vec<Outputs>,
}

/// Which rows a score is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum View {
    Test,
    Rotated,
    Outliers(usize),
}

impl View {
    pub(super) fn place(self) -> usize {
        match self {
            View::Test => 0,
            View::Rotated => 1,
            View::Outliers(i) => 2 + i,
        }
    }
}

/// Which layer's outputs are looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Layer {
    Features,
    Logits,
}

impl Seen {
    pub(super) fn of(lab: &Lab, base: Base) -> Result<Self, LabError> {
        let digits = lab.digits()?;
        let name = format!("network {}, {}", base.seed, base.kind.name());
        let (recipe, networks) = (base.recipe(lab.size), lab.networks());
        let network = if lab.is_quiet() {
            Network::train(&recipe, &digits.train, &networks, &Silent)?
        } else {
            Network::train(&recipe, &digits.train, &networks, &ToStderr { name })?
        };
        let train = network.outputs(&digits.train.images)?;
        let views = digits.views().map(|images| network.outputs(images)).collect::<Result<_, _>>()?;
        Ok(Self { network, train, views })
    }

    pub(super) fn view(&self, view: View) -> &Outputs {
        &self.views[view.place()]
    }

    pub(super) fn views(&self) -> &[Outputs] {
        &self.views
    }
}

/// The outputs of a layer as rows.
pub(super) fn rows(outputs: &Outputs, layer: Layer) -> Result<Embeddings<'static>, LabError> {
    match layer {
        Layer::Features => Ok(outputs.embeddings.clone()),
        Layer::Logits => outputs.logit_rows(),
    }
}

/// What a reader must know of the data.
pub(super) fn note(lab: &Lab) -> Result<String, LabError> {
    let digits = lab.digits()?;
    let sets: Vec<String> =
        digits.outliers.iter().map(|set| format!("{} of {}", set.images.len(), set.name)).collect();
    let (train, test, epochs) =
        (digits.train.len(), digits.test.len(), Base::spectral(0).recipe(lab.size).epochs);
    Ok(format!(
        "Networks: three 3 × 3 convolutions with batch normalization, trained for {epochs} epochs on {train} digits; {test} test digits; \
         outliers: {}.",
        sets.join(", ")
    ))
}
