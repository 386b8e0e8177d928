//! What several methods look at, searched once.

use nuq_neighbors::{Embeddings, ExactIndex, NeighborIndex, Neighbors};

use super::{Comparison, Rows};
use crate::Error;
use crate::baselines::Batch;
use nuq::{Label, NuqClassifier, Predictions};

/// The training rows and labels that a model holds.
pub(super) struct Training {
    pub(super) rows: Embeddings<'static>,
    /// Divided by their length.
    pub(super) normalized: Embeddings<'static>,
    pub(super) labels: Vec<Label>,
    /// Whether the rows were divided by their length when the model was fitted.
    pub(super) is_normalized: bool,
    /// Whether the model's neighbors are those of the rows as they are.
    pub(super) has_plain_neighbors: bool,
}

impl Training {
    pub(super) fn of(model: &NuqClassifier<'_>) -> Result<Self, Error> {
        let index = model.index();
        let ids = index.live_ids();
        let label = |&id: &u32| model.classes().label(model.training_classes()[id as usize] as usize).clone();
        let (rows, is_normalized) = (index.rows_of(&ids)?, model.parts().smoother.normalize);
        Ok(Self {
            labels: ids.iter().map(label).collect(),
            normalized: if is_normalized { rows.clone() } else { rows.l2_normalized() },
            rows,
            is_normalized,
            // Rows that were removed leave gaps in the ids.
            has_plain_neighbors: index.scale().is_none() && index.len() == index.ids(),
        })
    }
}

/// The neighbors of all rows that are asked about, and what finding them took.
pub(super) struct SharedNeighbors<'p> {
    /// Of the rows as they are, by the model: none where the model measures otherwise.
    plain: Vec<Option<&'p Neighbors>>,
    normalized: Vec<Neighbors>,
    /// Seconds that a thousand rows took, without a clock none.
    pub(super) plain_seconds: f64,
    pub(super) normalized_seconds: f64,
}

impl<'p> SharedNeighbors<'p> {
    /// Takes the model's neighbors, whose search took the given time, and searches those of normalized rows.
    pub(super) fn find(
        comparison: &Comparison<'_>,
        model: &NuqClassifier<'_>,
        training: &Training,
        found: &[&'p Predictions<'_>],
        plain_seconds: f64,
    ) -> Result<Self, Error> {
        let tables = found.iter().map(|found| training.has_plain_neighbors.then(|| found.neighbors()));
        let plain: Vec<Option<&Neighbors>> = tables.collect();
        if let (true, Some(own)) = (training.is_normalized, plain.iter().copied().collect::<Option<Vec<_>>>())
        {
            // The model's rows are the normalized ones.
            let normalized = own.into_iter().cloned().collect();
            return Ok(Self { plain, normalized, plain_seconds, normalized_seconds: plain_seconds });
        }
        let index = ExactIndex::new(&training.normalized)?;
        let start = comparison.clock.map(|clock| clock());
        let search = |rows: &Rows<'_>| index.search(&rows.embeddings.l2_normalized(), model.n_neighbors());
        let normalized = comparison.sets().map(search).collect::<Result<Vec<_>, _>>()?;
        let seconds = comparison.clock.zip(start).map_or(0.0, |(clock, start)| clock() - start);
        let rows: usize = normalized.iter().map(Neighbors::len).sum();
        Ok(Self { plain, normalized, plain_seconds, normalized_seconds: 1000.0 * seconds / rows as f64 })
    }

    /// A batch of each set, with its neighbors.
    pub(super) fn batches<'b>(&'b self, comparison: &'b Comparison<'_>) -> Vec<Batch<'b>> {
        let batch =
            |((rows, plain), normalized): ((&'b Rows<'_>, &Option<&'b Neighbors>), &'b Neighbors)| Batch {
                embeddings: Some(rows.embeddings),
                logits: rows.logits,
                members: rows.members,
                neighbors: *plain,
                normalized_neighbors: Some(normalized),
            };
        comparison.sets().zip(&self.plain).zip(&self.normalized).map(batch).collect()
    }
}
