//! Compared methods. Each computes one uncertainty score per row; higher scores mean less certain.

use nuq::{
    Classification, Covariance, Density, Embeddings, Kernel, NuqClassifier, Params, Predictions, Shrinkage,
};
use nuq_eval::baselines::{Batch, Ddu, Ensemble, Entropy, MaxProb, Members, Reduction, Scorer};
use nuq_eval::metrics::Selective;

use super::Context;
use super::digits::View;
use super::network_outputs::{Layer, NetworkOutputs, rows};
use super::networks::{Kind, MEMBERS, NetworkId};
use crate::LabError;
use crate::training::{Outputs, argmax};

/// Scores of all evaluated image sets (views) in the order of [`View::index`].
pub(super) type Scores = Vec<Vec<f64>>;

/// Kernel and density of NUQ.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Variant {
    /// Defaults: Gaussian kernel, and a density that combines a kernel density and Gaussians.
    Default,
    /// Gaussian kernel for posterior and density.
    Rbf,
    /// Logistic kernel for posterior and density.
    Logistic,
    /// Class Gaussians as density.
    Gaussians,
}

impl Variant {
    fn params(self) -> Params<Classification> {
        let params = NuqClassifier::params();
        match self {
            Variant::Default => params,
            Variant::Rbf => params.density(Density::kde()),
            Variant::Logistic => params.density(Density::kde()).kernel(Kernel::Logistic),
            Variant::Gaussians => params.density(gaussians()),
        }
    }
}

/// One full-covariance Gaussian per class, as in DDU.
pub(super) fn gaussians() -> Density {
    Density::Gmm { covariance: Covariance::Full, shrinkage: Shrinkage::LedoitWolf, scale_free: false }
}

/// A method of the MNIST experiments.
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

/// The five methods of the paper's figures, NUQ first.
pub(super) const MAIN_METHODS: [Method; 5] =
    [NUQ, Method::Ddu(Layer::Features), Method::Ensemble, Method::Entropy, Method::MaxProb];
/// Further methods in tables: NUQ and DDU on logits, MC dropout, DUQ and SNGP.
pub(super) const OTHER_METHODS: [Method; 5] = [
    Method::Nuq(Layer::Logits, Variant::Default),
    Method::Ddu(Layer::Logits),
    Method::Dropout,
    Method::Duq,
    Method::Sngp,
];
/// Number of forward passes of MC dropout.
const DROPOUT_PASSES: usize = 10;
/// NUQ with default parameters on features.
pub(super) const NUQ: Method = Method::Nuq(Layer::Features, Variant::Default);

impl Method {
    pub(super) fn name(self) -> &'static str {
        match self {
            Method::Nuq(Layer::Features, Variant::Default) => "NUQ",
            Method::Nuq(Layer::Features, Variant::Rbf) => "NUQ, RBF",
            Method::Nuq(Layer::Features, Variant::Logistic) => "NUQ, logistic",
            Method::Nuq(Layer::Features, Variant::Gaussians) => "NUQ, GMM",
            Method::Nuq(Layer::Logits, Variant::Default) => "NUQ on logits",
            Method::Nuq(Layer::Logits, Variant::Rbf) => "NUQ on logits, RBF",
            Method::Nuq(Layer::Logits, Variant::Logistic) => "NUQ on logits, logistic",
            Method::Nuq(Layer::Logits, Variant::Gaussians) => "NUQ on logits, GMM",
            Method::Ddu(Layer::Features) => "DDU",
            Method::Ddu(Layer::Logits) => "DDU on logits",
            Method::Ensemble => "Ensemble of 5",
            Method::Dropout => "MC dropout",
            Method::Duq => "DUQ",
            Method::Sngp => "SNGP",
            Method::Entropy => "Entropy",
            Method::MaxProb => "MaxProb",
        }
    }

    /// The network of the method: DUQ and SNGP have their own networks.
    fn network_id(self, id: NetworkId) -> NetworkId {
        match self {
            Method::Duq => NetworkId { kind: Kind::Duq, ..id },
            Method::Sngp => NetworkId { kind: Kind::Sngp, ..id },
            _ => id,
        }
    }

    /// Computes the scores of all views. Call [`Context::scores`] instead, which caches them. The ensemble uses
    /// all its members, for every `id`.
    pub(super) fn scores(self, context: &Context, id: NetworkId) -> Result<Scores, LabError> {
        let outputs = context.network_outputs(self.network_id(id))?;
        match self {
            Method::Nuq(layer, variant) => nuq(context, &outputs, layer, variant),
            Method::Ddu(layer) => ddu(context, &outputs, layer),
            Method::Ensemble => {
                ensemble(context, &(0..MEMBERS as u64).collect::<Vec<_>>(), Reduction::Entropy)
            }
            Method::Dropout => dropout(&outputs, id.seed),
            Method::Duq | Method::Sngp => head_scores(&outputs),
            Method::Entropy => logit_scores(&outputs, &Entropy),
            Method::MaxProb => logit_scores(&outputs, &MaxProb),
        }
    }

    /// The evaluated seeds: only 0 for the ensemble, which uses all networks, and for DUQ and SNGP, which are trained once.
    pub(super) fn seeds(self, context: &Context) -> std::ops::Range<u64> {
        match self {
            Method::Ensemble | Method::Duq | Method::Sngp => 0..1,
            _ => 0..context.seeds as u64,
        }
    }

    /// Predicted classes of a view: by the mean probabilities of the ensemble, or by the network of the method.
    fn predictions(self, context: &Context, id: NetworkId, view: View) -> Result<Vec<usize>, LabError> {
        match self {
            Method::Ensemble => ensemble_predictions(context, view),
            _ => Ok(context.network_outputs(self.network_id(id))?.view(view).predictions()),
        }
    }

    /// Accuracy of [`predictions`](Self::predictions) among the k most certain rotated digits, for k = 1, …, n.
    pub(super) fn accuracy_curve(self, context: &Context, id: NetworkId) -> Result<Vec<f64>, LabError> {
        let predicted = self.predictions(context, id, View::Rotated)?;
        let truth = &context.digits()?.test.labels;
        let is_error: Vec<bool> = predicted.iter().zip(truth).map(|(a, b)| a != b).collect();
        let scores = context.scores(self, id)?;
        let risks = Selective::new(&scores[View::Rotated.index()], &is_error)?.curve();
        Ok(risks.into_iter().map(|risk| 1.0 - risk).collect())
    }
}

/// Epistemic uncertainty of NUQ for all views.
fn nuq(
    context: &Context,
    network: &NetworkOutputs,
    layer: Layer,
    variant: Variant,
) -> Result<Scores, LabError> {
    let model = network.fit(context, layer, &variant.params())?;
    (0..network.views().len())
        .map(|view| Ok(epistemic(&network.predict(context, layer, &model, view)?)))
        .collect()
}

/// Log epistemic uncertainty of each row.
pub(super) fn epistemic(predictions: &Predictions<'_>) -> Vec<f64> {
    predictions.iter().map(|prediction| prediction.log_epistemic).collect()
}

/// DDU scores of all views.
fn ddu(context: &Context, network: &NetworkOutputs, layer: Layer) -> Result<Scores, LabError> {
    let train = rows(network.train(context)?, layer)?;
    let ddu = Ddu::fit(&train, &context.digits()?.train.labels, Shrinkage::LedoitWolf)?;
    let score = |outputs| score_embeddings(&ddu, &rows(outputs, layer)?);
    network.views().iter().map(score).collect()
}

/// Scores of the ensemble of the networks with the given seeds.
pub(super) fn ensemble(context: &Context, seeds: &[u64], reduction: Reduction) -> Result<Scores, LabError> {
    let mut networks = Vec::new();
    for &seed in seeds {
        networks.push(context.network_outputs(NetworkId::plain(seed))?);
    }
    let score = |view: usize| {
        let logits = networks.iter().map(|network| network.views()[view].logit_rows());
        score_members(&Members::new(logits.collect::<Result<_, _>>()?)?, reduction)
    };
    (0..networks[0].views().len()).map(score).collect()
}

/// The class with the largest mean probability over the members of the ensemble.
fn ensemble_predictions(context: &Context, view: View) -> Result<Vec<usize>, LabError> {
    let mut sums: Vec<f64> = Vec::new();
    let mut n_classes = 1;
    for seed in 0..MEMBERS as u64 {
        let network = context.network_outputs(NetworkId::plain(seed))?;
        let outputs = network.view(view);
        n_classes = outputs.n_classes;
        sums.resize(outputs.logits.len(), 0.0);
        for (sums, row) in sums.chunks_mut(n_classes).zip(outputs.logits.chunks(n_classes)) {
            let largest = row.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let total: f64 = row.iter().map(|logit| (logit - largest).exp()).sum();
            sums.iter_mut().zip(row).for_each(|(sum, logit)| *sum += (logit - largest).exp() / total);
        }
    }
    Ok(sums.chunks(n_classes).map(argmax).collect())
}

/// MC dropout: entropy of the mean prediction over several passes with dropout.
fn dropout(network: &NetworkOutputs, seed: u64) -> Result<Scores, LabError> {
    let score = |outputs: &Outputs| {
        let passes = network.network.dropout_logits(outputs, DROPOUT_PASSES, seed)?;
        score_members(&members(&passes, outputs.n_classes)?, Reduction::Entropy)
    };
    network.views().iter().map(score).collect()
}

/// The logits of several passes of one network as the members of an ensemble.
pub(super) fn members(passes: &[Vec<f64>], n_classes: usize) -> Result<Members, LabError> {
    let rows = passes.iter().map(|logits| Embeddings::from_f64(logits, n_classes));
    Ok(Members::new(rows.collect::<Result<_, _>>()?)?)
}

/// Uncertainty scores of the network's own head (DUQ, SNGP).
fn head_scores(network: &NetworkOutputs) -> Result<Scores, LabError> {
    Ok(network.views().iter().map(|outputs| network.network.head_uncertainty(outputs)).collect())
}

/// Reduces the predictions of several members to one score per row.
pub(super) fn score_members(members: &Members, reduction: Reduction) -> Result<Vec<f64>, LabError> {
    Ok(Ensemble(reduction).score(&Batch { members: Some(members), ..Batch::default() })?)
}

fn logit_scores(network: &NetworkOutputs, scorer: &dyn Scorer) -> Result<Scores, LabError> {
    network.views().iter().map(|outputs| score_logits(scorer, &outputs.logit_rows()?)).collect()
}

/// Applies a scorer to logits.
pub(super) fn score_logits(scorer: &dyn Scorer, logits: &Embeddings<'_>) -> Result<Vec<f64>, LabError> {
    Ok(scorer.score(&Batch { logits: Some(logits), ..Batch::default() })?)
}

/// Applies a scorer to embeddings.
pub(super) fn score_embeddings(scorer: &dyn Scorer, rows: &Embeddings<'_>) -> Result<Vec<f64>, LabError> {
    Ok(scorer.score(&Batch { embeddings: Some(rows), ..Batch::default() })?)
}
