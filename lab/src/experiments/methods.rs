//! The methods that experiments compare, each as scores of rows: higher is less certain.

use nuq::baselines::{Batch, Ddu, Ensemble, Entropy, MaxProb, Members, Reduction, Scorer};
use nuq::{Classification, Prediction};
use nuq::{Embeddings, NuqClassifier, Params, Shrinkage};

use super::Lab;
use super::digits::{Base, Layer, MEMBERS, Seen, rows};
use crate::LabError;

/// A way to be uncertain about digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Method {
    Nuq(Layer),
    Ddu(Layer),
    Ensemble,
    Entropy,
    MaxProb,
}

/// The paper's five, NUQ first, as figures show them.
pub(super) const FIVE: [Method; 5] =
    [NUQ, Method::Ddu(Layer::Features), Method::Ensemble, Method::Entropy, Method::MaxProb];
/// NUQ as the headline has it.
pub(super) const NUQ: Method = Method::Nuq(Layer::Features);

impl Method {
    pub(super) fn name(self) -> &'static str {
        match self {
            Method::Nuq(Layer::Features) => "NUQ",
            Method::Nuq(Layer::Logits) => "NUQ of logits",
            Method::Ddu(Layer::Features) => "DDU",
            Method::Ddu(Layer::Logits) => "DDU of logits",
            Method::Ensemble => "Ensemble of 5",
            Method::Entropy => "Entropy",
            Method::MaxProb => "MaxProb",
        }
    }

    /// The scores of all views, in their order, of the network of a seed.
    pub(super) fn scores(self, lab: &Lab, seed: u64) -> Result<Vec<Vec<f64>>, LabError> {
        let base = lab.seen(Base::spectral(seed))?;
        match self {
            Method::Nuq(layer) => nuq(lab, &base, layer, &NuqClassifier::params()),
            Method::Ddu(layer) => ddu(lab, &base, layer),
            Method::Ensemble => ensemble(lab, &(0..MEMBERS as u64).collect::<Vec<_>>(), Reduction::Entropy),
            Method::Entropy => of_logits(&base, &Entropy),
            Method::MaxProb => of_logits(&base, &MaxProb),
        }
    }

    /// The seeds that give different scores: an ensemble takes all networks there are.
    pub(super) fn seeds(self, lab: &Lab) -> std::ops::Range<u64> {
        if self == Method::Ensemble { 0..1 } else { 0..lab.seeds as u64 }
    }
}

/// NUQ's epistemic uncertainty of every view.
pub(super) fn nuq(
    lab: &Lab,
    base: &Seen,
    layer: Layer,
    params: &Params<Classification>,
) -> Result<Vec<Vec<f64>>, LabError> {
    let model_rows = rows(&base.train, layer)?;
    let model = params.fit(&model_rows, &lab.digits()?.train.labels)?;
    let score = |outputs| epistemic(&model, &rows(outputs, layer)?);
    base.views().iter().map(score).collect()
}

/// NUQ's epistemic uncertainty of rows.
pub(super) fn epistemic(model: &NuqClassifier<'_>, rows: &Embeddings<'_>) -> Result<Vec<f64>, LabError> {
    read(model, rows, |prediction| prediction.log_epistemic)
}

/// What is read off each of NUQ's predictions.
pub(super) fn read(
    model: &NuqClassifier<'_>,
    rows: &Embeddings<'_>,
    what: fn(&Prediction) -> f64,
) -> Result<Vec<f64>, LabError> {
    Ok(model.predict(rows)?.iter().map(what).collect())
}

/// DDU of every view.
pub(super) fn ddu(lab: &Lab, base: &Seen, layer: Layer) -> Result<Vec<Vec<f64>>, LabError> {
    let train = rows(&base.train, layer)?;
    let ddu = Ddu::fit(&train, &lab.digits()?.train.labels, Shrinkage::LedoitWolf)?;
    let score = |outputs| of_embeddings(&ddu, &rows(outputs, layer)?);
    base.views().iter().map(score).collect()
}

/// The networks of some seeds as an ensemble.
pub(super) fn ensemble(lab: &Lab, seeds: &[u64], reduction: Reduction) -> Result<Vec<Vec<f64>>, LabError> {
    let mut networks = Vec::new();
    for &seed in seeds {
        networks.push(lab.seen(Base::spectral(seed))?);
    }
    let score = |view: usize| {
        let logits = networks.iter().map(|seen| seen.views()[view].logit_rows());
        of_members(&Members::new(logits.collect::<Result<_, _>>()?)?, reduction)
    };
    (0..networks[0].views().len()).map(score).collect()
}

/// Several predictions of rows as one number each.
pub(super) fn of_members(members: &Members, reduction: Reduction) -> Result<Vec<f64>, LabError> {
    Ok(Ensemble(reduction).score(&Batch { members: Some(members), ..Batch::default() })?)
}

fn of_logits(base: &Seen, scorer: &dyn Scorer) -> Result<Vec<Vec<f64>>, LabError> {
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
