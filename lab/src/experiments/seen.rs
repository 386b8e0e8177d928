//! What a network says about all pictures, asked once for all experiments of a run.

use std::cell::OnceCell;
use std::rc::Rc;

use nuq::{Classification, ExactIndex, IndexKind, NeighborIndex, NuqClassifier, Params, Predictions};
use nuq_neighbors::{Embeddings, Neighbors};

use super::Lab;
use super::digits::View;
use super::memo::{Memo, once};
use super::networks::{Base, Trainer};
use crate::LabError;
use crate::training::{Network, Outputs};

/// Which layer's outputs are looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Layer {
    Features,
    Logits,
}

/// What a network says.
pub(super) struct Seen {
    pub(super) network: Network,
    /// Of test digits, rotated digits, then each set of outliers.
    views: Vec<Outputs>,
    train: OnceCell<Outputs>,
    near: Memo<(Layer, usize, usize), Neighbors>,
}

impl Seen {
    pub(super) fn of(lab: &Lab, base: Base) -> Result<Self, LabError> {
        let digits = lab.digits()?;
        let network = Trainer::of(lab).network(base, &digits.train)?;
        let views = digits.views().map(|images| network.outputs(images)).collect::<Result<_, _>>()?;
        Ok(Self { network, views, train: OnceCell::new(), near: Memo::default() })
    }

    pub(super) fn view(&self, view: View) -> &Outputs {
        &self.views[view.place()]
    }

    pub(super) fn views(&self) -> &[Outputs] {
        &self.views
    }

    /// About the training digits: networks that only vote are never asked.
    pub(super) fn train(&self, lab: &Lab) -> Result<&Outputs, LabError> {
        once(&self.train, || self.network.outputs(&lab.digits()?.train.images))
    }

    /// NUQ of a layer, on exact search: neighbors that [`ask`](Self::ask) found once must be those that any model would find.
    pub(super) fn fit(
        &self,
        lab: &Lab,
        layer: Layer,
        params: &Params<Classification>,
    ) -> Result<NuqClassifier<'static>, LabError> {
        let params = params.clone().index(IndexKind::Exact);
        Ok(params.fit(&rows(self.train(lab)?, layer)?, &lab.digits()?.train.labels)?)
    }

    /// What NUQ of a layer says about a view. Models of one number of neighbors share the search, whatever their kernel, bandwidth and
    /// density; those that search another space (`normalize`, a bandwidth for each dimension) must not come here.
    pub(super) fn ask<'m>(
        &self,
        lab: &Lab,
        layer: Layer,
        model: &'m NuqClassifier<'_>,
        place: usize,
    ) -> Result<Predictions<'m>, LabError> {
        let near = self.neighbors(lab, layer, model.neighbors(), place)?;
        Ok(model.predict_from(&rows(&self.views[place], layer)?, &near)?)
    }

    fn neighbors(&self, lab: &Lab, layer: Layer, k: usize, place: usize) -> Result<Rc<Neighbors>, LabError> {
        self.near.get((layer, k, place), || {
            let index = ExactIndex::new(&rows(self.train(lab)?, layer)?)?;
            Ok(index.search(&rows(&self.views[place], layer)?, k)?)
        })
    }
}

/// The outputs of a layer as rows.
pub(super) fn rows(outputs: &Outputs, layer: Layer) -> Result<Embeddings<'static>, LabError> {
    match layer {
        Layer::Features => Ok(outputs.embeddings.clone()),
        Layer::Logits => outputs.logit_rows(),
    }
}
