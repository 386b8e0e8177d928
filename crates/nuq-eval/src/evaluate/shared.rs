//! Training rows and neighbors that several methods share.

use std::borrow::Cow;

use nuq_neighbors::device::exact_index;
use nuq_neighbors::{Embeddings, NeighborIndex, Neighbors};

use super::{Comparison, Rows};
use crate::Error;
use crate::baselines::Batch;
use nuq::{FittedModel, Label, NuqClassifier, Predictions};

/// The labels of the training rows of a model, without removed rows.
pub(super) fn training_labels(model: &NuqClassifier<'_>) -> Vec<Label> {
    let label = |id: u32| model.classes().label(model.training_classes()[id as usize] as usize).clone();
    model.index().rows().live_ids().into_iter().map(label).collect()
}

/// The training rows of a model, without removed rows, and the neighbors of all query rows among them. The rows are in the space of
/// the model, or L2-normalized. Only one of both is in memory at a time, because normalized rows are a copy of a mapped file.
pub(super) struct Space<'m> {
    pub(super) rows: Embeddings<'m>,
    /// Whether the rows are L2-normalized. A model can be fitted with normalization; then this is false for the space of the model.
    pub(super) is_normalized: bool,
    model: &'m NuqClassifier<'m>,
    /// An exact index over `rows`. `None` if the model searches them by Euclidean distance (without a scale per column), and the ids of
    /// its neighbors are the numbers of `rows`.
    own_index: Option<Box<dyn NeighborIndex + 'm>>,
    /// The neighbors of the queries of each set; `None` if the scorers search for them.
    neighbors: Option<Vec<Cow<'m, Neighbors>>>,
    /// Seconds per 1000 rows of the search for `neighbors`; zero without a clock.
    pub(super) search_seconds: f64,
}

impl<'m> Space<'m> {
    /// The rows as the model stores them. They are copied only if rows were removed, are in shards or are stored in half precision. The
    /// neighbors are those of the predictions. `search_seconds` is an estimate of the time of the model's search, per 1000 rows.
    pub(super) fn of_model(
        model: &'m NuqClassifier<'_>,
        predictions: &[&'m Predictions<'_>],
        search_seconds: f64,
    ) -> Result<Self, Error> {
        let index = model.index();
        let rows = index.rows().live_rows()?;
        // If rows were removed, ids are not row numbers.
        let is_searched = index.rows().scale().is_none() && index.len() == index.rows().id_bound();
        let neighbors = || predictions.iter().map(|set| Cow::Borrowed(set.neighbors())).collect();
        Ok(Self {
            own_index: if is_searched { None } else { Some(exact_index(&rows)?) },
            neighbors: is_searched.then(neighbors),
            // Without shared neighbors the scorer searches itself, and its own time includes the search.
            search_seconds: if is_searched { search_seconds } else { 0.0 },
            rows,
            is_normalized: false,
            model,
        })
    }

    /// Normalizes the rows, in place if they have no other owner.
    pub(super) fn into_normalized(mut self) -> Self {
        // The index is an owner of the rows.
        self.own_index = None;
        if !self.model.is_normalized() {
            self.rows = self.rows.into_l2_normalized();
            self.neighbors = None;
        }
        Self { is_normalized: true, ..self }
    }

    /// Searches for the neighbors of the normalized queries among the normalized rows, unless the model has found them.
    pub(super) fn with_neighbors(mut self, comparison: &Comparison<'_>) -> Result<Self, Error> {
        if self.neighbors.is_some() {
            return Ok(self);
        }
        let index = exact_index(&self.rows)?;
        let start = comparison.clock.map(|clock| clock());
        let search = |rows: &Rows<'_>| {
            index.search(&rows.embeddings.l2_normalized(), self.model.n_neighbors()).map(Cow::Owned)
        };
        let neighbors: Vec<Cow<'_, Neighbors>> = comparison.sets().map(search).collect::<Result<_, _>>()?;
        let seconds = comparison.clock.zip(start).map_or(0.0, |(clock, start)| clock() - start);
        let queries: usize = neighbors.iter().map(|set| set.len()).sum();
        self.search_seconds = 1000.0 * seconds / queries as f64;
        Ok(Self { own_index: Some(index), neighbors: Some(neighbors), ..self })
    }

    /// The `k` nearest other rows of each row. The index of the model is searched if it has these rows: with many rows it is a graph,
    /// and an exact search for the neighbors of every row would take days.
    pub(super) fn neighbors_of_rows(&self, k: usize) -> Result<Neighbors, Error> {
        let index = self.own_index.as_deref().unwrap_or_else(|| self.model.index());
        Ok(index.leave_one_out(&index.rows().live_ids(), k)?)
    }

    /// One batch per set, with its neighbors.
    pub(super) fn batches<'b>(&'b self, comparison: &'b Comparison<'_>) -> Vec<Batch<'b>> {
        let batch = |(i, rows): (usize, &'b Rows<'_>)| {
            let neighbors = self.neighbors.as_ref().map(|sets| &*sets[i]);
            Batch {
                embeddings: Some(rows.embeddings),
                logits: rows.logits,
                members: rows.members,
                neighbors: neighbors.filter(|_| !self.is_normalized),
                normalized_neighbors: neighbors.filter(|_| self.is_normalized),
                uncertainties: None,
            }
        };
        comparison.sets().enumerate().map(batch).collect()
    }
}
