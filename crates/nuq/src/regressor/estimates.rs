//! The estimates of a batch of queries.

use std::ops::Deref;

use nuq_neighbors::Neighbors;

use crate::Estimate;

/// One [`Estimate`] per query, as a slice, and the neighbors of each query.
#[derive(Debug, Clone)]
pub struct Estimates {
    rows: Vec<Estimate>,
    neighbors: Neighbors,
}

impl Estimates {
    pub(super) fn new(rows: Vec<Estimate>, neighbors: Neighbors) -> Self {
        Self { rows, neighbors }
    }

    /// The nearest training rows of each query.
    #[must_use]
    pub fn neighbors(&self) -> &Neighbors {
        &self.neighbors
    }
}

impl Deref for Estimates {
    type Target = [Estimate];

    fn deref(&self) -> &[Estimate] {
        &self.rows
    }
}

impl<'e> IntoIterator for &'e Estimates {
    type Item = &'e Estimate;
    type IntoIter = std::slice::Iter<'e, Estimate>;

    fn into_iter(self) -> Self::IntoIter {
        self.rows.iter()
    }
}
