//! Outputs of a network for all images, computed once per run.

use std::cell::OnceCell;
use std::rc::Rc;

use nuq::{
    Classification, ExactIndex, FittedModel, IndexKind, NeighborIndex, NuqClassifier, Params, Predictions,
};
use nuq_neighbors::{Embeddings, Neighbors};

use super::Context;
use super::digits::View;
use super::memo::{Memo, get_or_try_init};
use super::networks::{NetworkId, Trainer};
use crate::LabError;
use crate::training::{Network, Outputs};

/// Layer whose outputs a method uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Layer {
    Features,
    Logits,
}

/// A network and its outputs.
pub(super) struct NetworkOutputs {
    pub(super) network: Network,
    /// Outputs for the evaluated image sets, in the order of [`View::index`].
    views: Vec<Outputs>,
    /// Outputs for the training digits.
    train: OnceCell<Outputs>,
    /// Neighbors by layer, number of neighbors and index of the view.
    neighbors: Memo<(Layer, usize, usize), Neighbors>,
}

impl NetworkOutputs {
    pub(super) fn new(context: &Context, id: NetworkId) -> Result<Self, LabError> {
        let digits = context.digits()?;
        let network = Trainer::new(context).network(id, &digits.train)?;
        let views = digits.views().map(|images| network.outputs(images)).collect::<Result<_, _>>()?;
        Ok(Self { network, views, train: OnceCell::new(), neighbors: Memo::default() })
    }

    pub(super) fn view(&self, view: View) -> &Outputs {
        &self.views[view.index()]
    }

    pub(super) fn views(&self) -> &[Outputs] {
        &self.views
    }

    /// Outputs for the training digits, computed on first use. Most ensemble members do not need them.
    pub(super) fn train(&self, context: &Context) -> Result<&Outputs, LabError> {
        get_or_try_init(&self.train, || self.network.outputs(&context.digits()?.train.images))
    }

    /// Fits NUQ to a layer with exact search. [`predict`](Self::predict) uses the neighbors of one exact search for all models, so
    /// the fit must use exact neighbors too.
    pub(super) fn fit(
        &self,
        context: &Context,
        layer: Layer,
        params: &Params<Classification>,
    ) -> Result<NuqClassifier<'static>, LabError> {
        let params = params.clone().index(IndexKind::Exact);
        Ok(params.fit(&rows(self.train(context)?, layer)?, &context.digits()?.train.labels)?)
    }

    /// Predictions of NUQ for the view with index `view`. Models with the same number of neighbors share one search, for any
    /// kernel, bandwidth and density. Models that search in a transformed space (`normalize`, one bandwidth per dimension) are not
    /// supported.
    pub(super) fn predict<'m>(
        &self,
        context: &Context,
        layer: Layer,
        model: &'m NuqClassifier<'_>,
        view: usize,
    ) -> Result<Predictions<'m>, LabError> {
        let neighbors = self.neighbor_table(context, layer, model.n_neighbors(), view)?;
        Ok(model.predict_from(&rows(&self.views[view], layer)?, &neighbors)?)
    }

    fn neighbor_table(
        &self,
        context: &Context,
        layer: Layer,
        k: usize,
        view: usize,
    ) -> Result<Rc<Neighbors>, LabError> {
        self.neighbors.get((layer, k, view), || {
            let index = ExactIndex::new(&rows(self.train(context)?, layer)?)?;
            Ok(index.search(&rows(&self.views[view], layer)?, k)?)
        })
    }
}

/// The outputs of a layer, one row per image.
pub(super) fn rows(outputs: &Outputs, layer: Layer) -> Result<Embeddings<'static>, LabError> {
    match layer {
        Layer::Features => Ok(outputs.embeddings.clone()),
        Layer::Logits => outputs.logit_rows(),
    }
}
