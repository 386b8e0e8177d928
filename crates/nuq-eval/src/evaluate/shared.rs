//! Training rows and neighbors that several methods share.

use nuq_neighbors::device::exact_index;
use nuq_neighbors::{Embeddings, Neighbors};

use super::{Comparison, Rows};
use crate::Error;
use crate::baselines::Batch;
use nuq::{FittedModel, Label, NuqClassifier, Predictions};

/// The training rows of a model, without removed rows, and their labels.
pub(super) struct Training<'m> {
    /// The rows as the model stores them, normalized if `is_normalized`. They are copied only if rows were removed, are in shards
    /// or are stored in half precision.
    pub(super) rows: Embeddings<'m>,
    /// The L2-normalized rows.
    pub(super) normalized: Embeddings<'m>,
    pub(super) labels: Vec<Label>,
    /// Whether the model was fitted with L2 normalization. `rows` are then normalized already.
    pub(super) is_normalized: bool,
    /// Whether the model searches `rows` by Euclidean distance (without a scale per column), and the ids of its neighbors are
    /// the numbers of these rows. A graph index may miss some of the nearest rows.
    pub(super) has_plain_neighbors: bool,
}

impl<'m> Training<'m> {
    pub(super) fn from_model(model: &'m NuqClassifier<'_>) -> Result<Self, Error> {
        let index = model.index();
        let ids = index.rows().live_ids();
        let label = |&id: &u32| model.classes().label(model.training_classes()[id as usize] as usize).clone();
        let (rows, is_normalized) = (index.rows().live_rows()?, model.is_normalized());
        Ok(Self {
            labels: ids.iter().map(label).collect(),
            normalized: if is_normalized { rows.clone() } else { rows.l2_normalized() },
            rows,
            is_normalized,
            // If rows were removed, ids are not row numbers.
            has_plain_neighbors: index.rows().scale().is_none() && index.len() == index.rows().id_bound(),
        })
    }
}

/// The neighbors of all query rows, and the time of their search.
pub(super) struct SharedNeighbors<'p> {
    /// The neighbors of the queries of each set among `Training::rows`, from the model's predictions; `None` unless
    /// `Training::has_plain_neighbors`.
    plain: Vec<Option<&'p Neighbors>>,
    /// The neighbors of the normalized queries of each set among `Training::normalized`.
    normalized: Vec<Neighbors>,
    /// Seconds per 1000 rows; zero without a clock.
    pub(super) plain_seconds: f64,
    pub(super) normalized_seconds: f64,
}

impl<'p> SharedNeighbors<'p> {
    /// Takes the neighbors among the rows of the model from the predictions, and searches for the neighbors among normalized rows.
    /// `plain_seconds` is an estimate of the time of the model's search, per 1000 rows.
    pub(super) fn search(
        comparison: &Comparison<'_>,
        model: &NuqClassifier<'_>,
        training: &Training<'_>,
        predictions: &[&'p Predictions<'_>],
        plain_seconds: f64,
    ) -> Result<Self, Error> {
        let neighbors = predictions.iter().map(|set| training.has_plain_neighbors.then(|| set.neighbors()));
        let plain: Vec<Option<&Neighbors>> = neighbors.collect();
        if let (true, Some(own)) = (training.is_normalized, plain.iter().copied().collect::<Option<Vec<_>>>())
        {
            // The rows of the model are normalized already, so its neighbors are the neighbors among normalized rows.
            let normalized = own.into_iter().cloned().collect();
            return Ok(Self { plain, normalized, plain_seconds, normalized_seconds: plain_seconds });
        }
        let index = exact_index(&training.normalized)?;
        let start = comparison.clock.map(|clock| clock());
        let search = |rows: &Rows<'_>| index.search(&rows.embeddings.l2_normalized(), model.n_neighbors());
        let normalized = comparison.sets().map(search).collect::<Result<Vec<_>, _>>()?;
        let seconds = comparison.clock.zip(start).map_or(0.0, |(clock, start)| clock() - start);
        let rows: usize = normalized.iter().map(Neighbors::len).sum();
        Ok(Self { plain, normalized, plain_seconds, normalized_seconds: 1000.0 * seconds / rows as f64 })
    }

    /// One batch per set, with its neighbors.
    pub(super) fn batches<'b>(&'b self, comparison: &'b Comparison<'_>) -> Vec<Batch<'b>> {
        let batch =
            |((rows, plain), normalized): ((&'b Rows<'_>, &Option<&'b Neighbors>), &'b Neighbors)| Batch {
                embeddings: Some(rows.embeddings),
                logits: rows.logits,
                members: rows.members,
                neighbors: *plain,
                normalized_neighbors: Some(normalized),
                uncertainties: None,
            };
        comparison.sets().zip(&self.plain).zip(&self.normalized).map(batch).collect()
    }
}
