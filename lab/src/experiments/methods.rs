//! The methods that experiments compare, each as scores of rows: higher is less certain.

use nuq::baselines::{Batch, Ddu, Ensemble, Entropy, MaxProb, Members, Reduction, Scorer};
use nuq::{Classification, Prediction};
use nuq::{Embeddings, NuqClassifier, Params, Shrinkage};

use super::Lab;
use super::digits::{Base, Kind, Layer, MEMBERS, Seen, View, rows};
use crate::LabError;

/// A way to be uncertain about digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Method {
    Nuq(Layer),
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
pub(super) const OTHERS: [Method; 5] =
    [Method::Nuq(Layer::Logits), Method::Ddu(Layer::Logits), Method::Dropout, Method::Duq, Method::Sngp];
/// Passes with dropout left on.
const PASSES: usize = 10;
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
            Method::Dropout => "MC dropout",
            Method::Duq => "DUQ",
            Method::Sngp => "SNGP",
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
            Method::Dropout => dropout(lab, &base, seed),
            Method::Duq => of_head(&*lab.seen(Base { kind: Kind::Duq, seed })?),
            Method::Sngp => of_head(&*lab.seen(Base { kind: Kind::Sngp, seed })?),
            Method::Entropy => of_logits(&base, &Entropy),
            Method::MaxProb => of_logits(&base, &MaxProb),
        }
    }

    /// The seeds to look at: an ensemble takes all networks there are, and heads of their own are trained once.
    pub(super) fn seeds(self, lab: &Lab) -> std::ops::Range<u64> {
        match self {
            Method::Ensemble | Method::Duq | Method::Sngp => 0..1,
            _ => 0..lab.seeds as u64,
        }
    }

    /// What is answered for a view: by the mean of an ensemble's probabilities, by a network of the method's own, or by the
    /// network that the others look at.
    pub(super) fn answers(self, lab: &Lab, seed: u64, view: View) -> Result<Vec<usize>, LabError> {
        let of = |kind| -> Result<Vec<usize>, LabError> {
            Ok(lab.seen(Base { kind, seed })?.view(view).predictions())
        };
        match self {
            Method::Ensemble => together(lab, view),
            Method::Duq => of(Kind::Duq),
            Method::Sngp => of(Kind::Sngp),
            _ => of(Kind::Spectral),
        }
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

/// The class that the members of the ensemble find likeliest on average.
fn together(lab: &Lab, view: View) -> Result<Vec<usize>, LabError> {
    let mut sums: Vec<f64> = Vec::new();
    let mut n_classes = 1;
    for seed in 0..MEMBERS as u64 {
        let seen = lab.seen(Base::spectral(seed))?;
        let outputs = seen.view(view);
        n_classes = outputs.n_classes;
        sums.resize(outputs.logits.len(), 0.0);
        for (sums, row) in sums.chunks_mut(n_classes).zip(outputs.logits.chunks(n_classes)) {
            let largest = row.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let total: f64 = row.iter().map(|logit| (logit - largest).exp()).sum();
            sums.iter_mut().zip(row).for_each(|(sum, logit)| *sum += (logit - largest).exp() / total);
        }
    }
    let best = |row: &[f64]| (1..row.len()).fold(0, |best, c| if row[c] > row[best] { c } else { best });
    Ok(sums.chunks(n_classes).map(best).collect())
}

/// One network asked several times with dropout left on.
fn dropout(lab: &Lab, base: &Seen, seed: u64) -> Result<Vec<Vec<f64>>, LabError> {
    let score = |images| {
        let passes = base.network.dropout_logits(images, PASSES, seed)?;
        let n_classes = base.train.n_classes;
        let rows = |logits: Vec<f64>| Embeddings::new(logits.iter().map(|z| *z as f32).collect(), n_classes);
        of_members(
            &Members::new(passes.into_iter().map(rows).collect::<Result<_, _>>()?)?,
            Reduction::Entropy,
        )
    };
    lab.digits()?.views().map(score).collect()
}

/// What the head of a network says itself.
fn of_head(base: &Seen) -> Result<Vec<Vec<f64>>, LabError> {
    Ok(base.views().iter().map(|outputs| base.network.head_uncertainty(outputs)).collect())
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
