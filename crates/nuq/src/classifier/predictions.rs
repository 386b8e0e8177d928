//! The predictions of a batch of queries.

use std::ops::Deref;

use nuq_neighbors::Neighbors;

use crate::labels::Label;
use crate::uncertainty::Prediction;
use crate::{Classes, Decision, RejectRule};

/// One [`Prediction`] per query, as a slice, and the neighbors of each query.
#[derive(Debug, Clone)]
pub struct Predictions<'m> {
    rows: Vec<Prediction>,
    neighbors: Neighbors,
    classes: &'m Classes,
}

impl<'m> Predictions<'m> {
    pub(super) fn new(rows: Vec<Prediction>, neighbors: Neighbors, classes: &'m Classes) -> Self {
        Self { rows, neighbors, classes }
    }

    /// The label predicted for query `i`.
    ///
    /// # Panics
    /// If there is no query `i`.
    #[must_use]
    pub fn label(&self, i: usize) -> &'m Label {
        self.classes.label(self.rows[i].class)
    }

    /// The nearest training rows of each query.
    #[must_use]
    pub fn neighbors(&self) -> &Neighbors {
        &self.neighbors
    }

    /// The decision of a rule for each prediction.
    #[must_use]
    pub fn decide(&self, rule: &RejectRule) -> Vec<Decision> {
        self.rows.iter().map(|row| rule.decide(row, self.classes.len())).collect()
    }
}

impl Deref for Predictions<'_> {
    type Target = [Prediction];

    fn deref(&self) -> &[Prediction] {
        &self.rows
    }
}

impl<'p> IntoIterator for &'p Predictions<'_> {
    type Item = &'p Prediction;
    type IntoIter = std::slice::Iter<'p, Prediction>;

    fn into_iter(self) -> Self::IntoIter {
        self.rows.iter()
    }
}

/// The probabilities of every class for each query: a row-major matrix. Each row sums to one, except if all training
/// rows have the same class and the prior weight is positive. The rest is then the probability of a class without training rows.
#[derive(Debug, Clone, PartialEq)]
pub struct Probabilities {
    values: Vec<f64>,
    classes: usize,
}

impl Probabilities {
    pub(crate) fn new(values: Vec<f64>, classes: usize) -> Self {
        Self { values, classes }
    }

    /// The number of queries.
    #[must_use]
    pub fn len(&self) -> usize {
        self.values.len() / self.classes
    }

    /// Whether there are no queries.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// The number of classes.
    #[must_use]
    pub fn classes(&self) -> usize {
        self.classes
    }

    /// The probabilities of query `i`, in the order of the classes.
    ///
    /// # Panics
    /// If there is no query `i`.
    #[must_use]
    pub fn row(&self, i: usize) -> &[f64] {
        &self.values[i * self.classes..][..self.classes]
    }

    /// An iterator over the rows.
    pub fn rows(&self) -> std::slice::ChunksExact<'_, f64> {
        self.values.chunks_exact(self.classes)
    }

    /// All values, row after row.
    #[must_use]
    pub fn as_slice(&self) -> &[f64] {
        &self.values
    }
}
