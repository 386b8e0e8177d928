//! The methods that experiments compare, each as scores of rows: higher is less certain.

use nuq_eval::baselines::{Batch, Ddu, Ensemble, Entropy, MaxProb, Members, Reduction, Scorer};
use nuq_eval::metrics::Selective;
use nuq::{
    Classification, Covariance, Density, Embeddings, Kernel, NuqClassifier, Params, Predictions, Shrinkage,
};

use super::Lab;
use super::digits::View;
use super::networks::{Base, Kind, MEMBERS};
use super::seen::{Layer, Seen, rows};
use crate::LabError;
use crate::training::{Outputs, first_largest};

/// Scores of all views, in their order.
pub(super) type Scores = Vec<Vec<f64>>;

/// What NUQ takes for kernel and density.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Variant {
    /// Its defaults, both Gaussian kernels.
    Rbf,
    /// Logistic kernels.
    Logistic,
    /// A Gaussian for each class as its density.
    Gaussians,
}

impl Variant {
    fn params(self) -> Params<Classification> {
        let params = NuqClassifier::params();
        match self {
            Variant::Rbf => params,
            Variant::Logistic => params.kernel(Kernel::Logistic),
            Variant::Gaussians => params.density(gaussians()),
        }
    }
}

/// A Gaussian for each class, as DDU has them.
pub(super) fn gaussians() -> Density {
    Density::Gaussians { covariance: Covariance::Full, shrinkage: Shrinkage::LedoitWolf }
}

/// A way to be uncertain about digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Method {
    Nuq(Layer, Variant),
    Ddu(Layer),
    Ensemble,
    Dropout,
    Duq,
    Sngp,
    Entropy,
    MaxProb,
}

/// The paper's five, NUQ first, as figures show them.
pub(super) const FIVE: [Method; 5] =
    [NUQ, Method::Ddu(Layer::Features), Method::Ensemble, Method::Entropy, Method::MaxProb];
/// The others that tables show: NUQ and DDU of logits, and what needs a network of its own or many answers of one.
pub(super) const OTHERS: [Method; 5] = [
    Method::Nuq(Layer::Logits, Variant::Rbf),
    Method::Ddu(Layer::Logits),
    Method::Dropout,
    Method::Duq,
    Method::Sngp,
];
/// Passes with dropout left on.
const PASSES: usize = 10;
/// NUQ as the headline has it.
pub(super) const NUQ: Method = Method::Nuq(Layer::Features, Variant::Rbf);

impl Method {
    pub(super) fn name(self) -> &'static str {
        match self {
            Method::Nuq(Layer::Features, Variant::Rbf) => "NUQ",
            Method::Nuq(Layer::Features, Variant::Logistic) => "NUQ, logistic",
            Method::Nuq(Layer::Features, Variant::Gaussians) => "NUQ, GMM",
            Method::Nuq(Layer::Logits, Variant::Rbf) => "NUQ of logits",
            Method::Nuq(Layer::Logits, Variant::Logistic) => "NUQ of logits, logistic",
            Method::Nuq(Layer::Logits, Variant::Gaussians) => "NUQ of logits, GMM",
            Method::Ddu(Layer::Features) => "DDU",
            Method::Ddu(Layer::Logits) => "DDU of logits",
            Method::Ensemble => "Ensemble of 5",
            Method::Dropout => "MC dropout",
            Method::Duq => "DUQ",
            Method::Sngp => "SNGP",
            Method::Entropy => "Entropy",
            Method::MaxProb => "MaxProb",
        }
    }

    /// The network that a method looks at in place of this one: DUQ and SNGP have their own.
    fn network(self, base: Base) -> Base {
        match self {
            Method::Duq => Base { kind: Kind::Duq, ..base },
            Method::Sngp => Base { kind: Kind::Sngp, ..base },
            _ => base,
        }
    }

    /// The scores by a network, to be asked for through [`Lab::scores`]. The ensemble takes all networks there are.
    pub(super) fn scores(self, lab: &Lab, base: Base) -> Result<Scores, LabError> {
        let seen = lab.seen(self.network(base))?;
        match self {
            Method::Nuq(layer, variant) => nuq(lab, &seen, layer, variant),
            Method::Ddu(layer) => ddu(lab, &seen, layer),
            Method::Ensemble => ensemble(lab, &(0..MEMBERS as u64).collect::<Vec<_>>(), Reduction::Entropy),
            Method::Dropout => dropout(&seen, base.seed),
            Method::Duq | Method::Sngp => of_head(&seen),
            Method::Entropy => of_logits(&seen, &Entropy),
            Method::MaxProb => of_logits(&seen, &MaxProb),
        }
    }

    /// The seeds to look at: an ensemble takes all networks there are, and heads of their own are trained once.
    pub(super) fn seeds(self, lab: &Lab) -> std::ops::Range<u64> {
        match self {
            Method::Ensemble | Method::Duq | Method::Sngp => 0..1,
            _ => 0..lab.seeds as u64,
        }
    }

    /// What is answered for a view: by the mean of an ensemble's probabilities, or by the network that the method looks at.
    fn answers(self, lab: &Lab, base: Base, view: View) -> Result<Vec<usize>, LabError> {
        match self {
            Method::Ensemble => together(lab, view),
            _ => Ok(lab.seen(self.network(base))?.view(view).predictions()),
        }
    }

    /// The accuracy among the k most certain rotated digits, for k from 1 to all, of the answers that go with the method.
    pub(super) fn accuracy_kept(self, lab: &Lab, base: Base) -> Result<Vec<f64>, LabError> {
        let predicted = self.answers(lab, base, View::Rotated)?;
        let truth = &lab.digits()?.test.labels;
        let is_error: Vec<bool> = predicted.iter().zip(truth).map(|(a, b)| a != b).collect();
        let scores = lab.scores(self, base)?;
        let risks = Selective::new(&scores[View::Rotated.place()], &is_error)?.curve();
        Ok(risks.into_iter().map(|risk| 1.0 - risk).collect())
    }
}

/// NUQ's epistemic uncertainty of every view.
fn nuq(lab: &Lab, base: &Seen, layer: Layer, variant: Variant) -> Result<Scores, LabError> {
    let model = base.fit(lab, layer, &variant.params())?;
    (0..base.views().len()).map(|place| Ok(epistemic(&base.ask(lab, layer, &model, place)?))).collect()
}

/// The epistemic uncertainty of each row.
pub(super) fn epistemic(predictions: &Predictions<'_>) -> Vec<f64> {
    predictions.iter().map(|prediction| prediction.log_epistemic).collect()
}

/// DDU of every view.
fn ddu(lab: &Lab, base: &Seen, layer: Layer) -> Result<Scores, LabError> {
    let train = rows(base.train(lab)?, layer)?;
    let ddu = Ddu::fit(&train, &lab.digits()?.train.labels, Shrinkage::LedoitWolf)?;
    let score = |outputs| of_embeddings(&ddu, &rows(outputs, layer)?);
    base.views().iter().map(score).collect()
}

/// The networks of some seeds as an ensemble.
pub(super) fn ensemble(lab: &Lab, seeds: &[u64], reduction: Reduction) -> Result<Scores, LabError> {
    let mut networks = Vec::new();
    for &seed in seeds {
        networks.push(lab.seen(Base::plain(seed))?);
    }
    let score = |view: usize| {
        let logits = networks.iter().map(|seen| seen.views()[view].logit_rows());
        of_members(&Members::new(logits.collect::<Result<_, _>>()?)?, reduction)
    };
    (0..networks[0].views().len()).map(score).collect()
}

/// The class that the members of the ensemble find likeliest on average.
fn together(lab: &Lab, view: View) -> Result<Vec<usize>, LabError> {
    let mut sums: Vec<f64> = Vec::new();
    let mut n_classes = 1;
    for seed in 0..MEMBERS as u64 {
        let seen = lab.seen(Base::plain(seed))?;
        let outputs = seen.view(view);
        n_classes = outputs.n_classes;
        sums.resize(outputs.logits.len(), 0.0);
        for (sums, row) in sums.chunks_mut(n_classes).zip(outputs.logits.chunks(n_classes)) {
            let largest = row.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let total: f64 = row.iter().map(|logit| (logit - largest).exp()).sum();
            sums.iter_mut().zip(row).for_each(|(sum, logit)| *sum += (logit - largest).exp() / total);
        }
    }
    Ok(sums.chunks(n_classes).map(first_largest).collect())
}

/// One network asked several times with dropout left on.
fn dropout(base: &Seen, seed: u64) -> Result<Scores, LabError> {
    let score = |outputs: &Outputs| {
        let passes = base.network.dropout_logits(outputs, PASSES, seed)?;
        of_members(&members(&passes, outputs.n_classes)?, Reduction::Entropy)
    };
    base.views().iter().map(score).collect()
}

/// Logits of several passes as members.
pub(super) fn members(passes: &[Vec<f64>], n_classes: usize) -> Result<Members, LabError> {
    let rows = passes.iter().map(|logits| Embeddings::from_f64(logits, n_classes));
    Ok(Members::new(rows.collect::<Result<_, _>>()?)?)
}

/// What the head of a network says itself.
fn of_head(base: &Seen) -> Result<Scores, LabError> {
    Ok(base.views().iter().map(|outputs| base.network.head_uncertainty(outputs)).collect())
}

/// Several predictions of rows as one number each.
pub(super) fn of_members(members: &Members, reduction: Reduction) -> Result<Vec<f64>, LabError> {
    Ok(Ensemble(reduction).score(&Batch { members: Some(members), ..Batch::default() })?)
}

fn of_logits(base: &Seen, scorer: &dyn Scorer) -> Result<Scores, LabError> {
    base.views().iter().map(|outputs| from_logits(scorer, &outputs.logit_rows()?)).collect()
}

/// A score of logits.
pub(super) fn from_logits(scorer: &dyn Scorer, logits: &Embeddings<'_>) -> Result<Vec<f64>, LabError> {
    Ok(scorer.score(&Batch { logits: Some(logits), ..Batch::default() })?)
}

/// A score of embeddings.
pub(super) fn of_embeddings(scorer: &dyn Scorer, rows: &Embeddings<'_>) -> Result<Vec<f64>, LabError> {
    Ok(scorer.score(&Batch { embeddings: Some(rows), ..Batch::default() })?)
}
