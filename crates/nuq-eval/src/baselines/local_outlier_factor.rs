//! Local outlier factor (Breunig et al. 2000): how much sparser a row's surroundings are than those of its neighbors.
//!
//! With $r_k(o)$ the distance of training row $o$ to its own $k$-th neighbor, the reachability of $x$ from $o$ is
//! $\max(\lVert x - o \rVert, r_k(o))$, the local density $\ell(x)$ the inverse of its mean over the $k$ neighbors $o$ of $x$, and
//! the factor $\frac1k \sum_o \ell(o) / \ell(x)$.

use nuq_neighbors::{Embeddings, ExactIndex, NeighborIndex, Neighbors};

use super::knn_distance::neighbors_of;
use super::{Batch, Input, Scorer};
use crate::Error;
use crate::error::length_mismatch;

/// The factor of rows that were not trained on.
pub struct LocalOutlierFactor<'a> {
    index: ExactIndex<'a>,
    k: usize,
    /// Of each training row: the distance to its k-th neighbor, and its local density.
    reach: Vec<f64>,
    density: Vec<f64>,
}

/// As scikit-learn's: keeps the density of a row amid its own copies finite.
const LEAST_REACH: f64 = 1e-10;

impl<'a> LocalOutlierFactor<'a> {
    /// Measures the surroundings of every training row, searched exactly.
    pub fn fit(rows: &Embeddings<'a>, k: usize) -> Result<Self, Error> {
        let ids: Vec<u32> = (0..rows.len() as u32).collect();
        Self::from_neighbors(rows, &ExactIndex::new(rows)?.leave_one_out(&ids, k)?)
    }

    /// With the nearest others of every training row, which were found before.
    pub fn from_neighbors(rows: &Embeddings<'a>, others: &Neighbors) -> Result<Self, Error> {
        let index = ExactIndex::new(rows)?;
        if others.k() == 0 {
            return Err(nuq::Error::NoSpread { rows: rows.len() }.into());
        }
        if others.len() != rows.len() {
            let (got, expected) = (others.len(), rows.len());
            return Err(length_mismatch("rows of neighbors", got, "embeddings", expected));
        }
        others.check_ids(index.rows())?;
        let k = others.k();
        let reach: Vec<f64> = (0..rows.len()).map(|i| others.sq_distances(i)[k - 1].sqrt()).collect();
        let density = (0..rows.len()).map(|i| local_density(others, i, k, &reach)).collect();
        Ok(Self { index, k, reach, density })
    }
}

fn local_density(table: &Neighbors, i: usize, k: usize, reach: &[f64]) -> f64 {
    let pairs = table.ids(i).iter().zip(table.sq_distances(i)).take(k);
    let sum: f64 = pairs.map(|(&id, sq)| sq.sqrt().max(reach[id as usize])).sum();
    1.0 / (sum / k as f64 + LEAST_REACH)
}

impl Scorer for LocalOutlierFactor<'_> {
    fn name(&self) -> String {
        "LOF".to_owned()
    }

    fn inputs(&self) -> &'static [Input] {
        &[Input::Embeddings]
    }

    fn takes_neighbors(&self) -> bool {
        true
    }

    fn score(&self, batch: &Batch<'_>) -> Result<Vec<f64>, Error> {
        let rows = batch.need_embeddings(self)?;
        let table = neighbors_of(batch, rows, &self.index, self.k)?;
        let factor = |i: usize| {
            let ids = &table.ids(i)[..self.k];
            let around = ids.iter().map(|&id| self.density[id as usize]).sum::<f64>() / self.k as f64;
            around / local_density(&table, i, self.k, &self.reach)
        };
        Ok((0..rows.len()).map(factor).collect())
    }

    fn bytes(&self) -> u64 {
        16 * self.reach.len() as u64
    }
}
