//! Local outlier factor (Breunig et al. 2000): the local density of the neighbors of a row, divided by the local
//! density of the row itself.
//!
//! `r_k(o)` is the distance of training row `o` to its k-th neighbor. The sums are over the k nearest training rows `o`
//! of `x`.
//!
//! ```text
//! reach(x, o) = max(‖x − o‖, r_k(o))
//! ℓ(x)        = 1 / ((1/k) Σ_o reach(x, o))
//! s(x)        = (1/k) Σ_o ℓ(o) / ℓ(x)
//! ```

use nuq_neighbors::device::exact_index;
use nuq_neighbors::{Embeddings, NeighborIndex, Neighbors};

use super::knn_distance::neighbors_of;
use super::parts::damaged;
use super::{BaselineParts, Batch, Input, Scorer};
use crate::Error;
use crate::error::{length_mismatch, no_spread};
use crate::evaluate::MethodId;

/// Local outlier factor of new rows (`novelty=True` in scikit-learn).
pub struct LocalOutlierFactor<'a> {
    index: Box<dyn NeighborIndex + 'a>,
    k: usize,
    /// `r_k` of each training row.
    kth_distance: Vec<f64>,
    /// `ℓ` of each training row.
    density: Vec<f64>,
}

/// Added to the mean of `reach`, so that the density of duplicated rows is finite; the same value as in scikit-learn.
const MIN_REACH: f64 = 1e-10;

impl<'a> LocalOutlierFactor<'a> {
    /// Computes the local density of every training row, by exact search.
    ///
    /// # Errors
    /// Fewer than two rows, or `k` is zero.
    pub fn fit(rows: &Embeddings<'a>, k: usize) -> Result<Self, Error> {
        let ids: Vec<u32> = (0..rows.len() as u32).collect();
        Self::from_neighbors(rows, &exact_index(rows)?.leave_one_out(&ids, k)?)
    }

    /// Computes the local density of every training row from `others`, the `k` nearest other rows of each training row.
    ///
    /// # Errors
    /// There are no rows, or `others` has no neighbors, another number of rows than `rows`, or an id that names no training row.
    pub fn from_neighbors(rows: &Embeddings<'a>, others: &Neighbors) -> Result<Self, Error> {
        let index = exact_index(rows)?;
        if others.k() == 0 {
            return Err(no_spread("the local outlier factor", rows.len()));
        }
        if others.len() != rows.len() {
            let (got, expected) = (others.len(), rows.len());
            return Err(length_mismatch("rows of neighbors", got, "embeddings", expected));
        }
        others.check_ids(index.rows())?;
        let k = others.k();
        let kth_distance: Vec<f64> = (0..rows.len()).map(|i| others.sq_distances(i)[k - 1].sqrt()).collect();
        let density = (0..rows.len()).map(|i| local_density(others, i, k, &kth_distance)).collect();
        Ok(Self { index, k, kth_distance, density })
    }
}

impl LocalOutlierFactor<'static> {
    pub(super) fn from_parts(
        parts: &mut BaselineParts,
        index: Box<dyn NeighborIndex>,
    ) -> Result<Self, Error> {
        let (k, rows) = (parts.count("n_neighbors")?, index.len());
        if index.rows().id_bound() != rows {
            return Err(damaged("index", "rows were removed"));
        }
        if k == 0 || k >= rows {
            return Err(damaged(
                "params",
                format!(
                    "`n_neighbors` is {k}; it must be positive and below {rows}, the number of training rows"
                ),
            ));
        }
        let kth_distance = parts.finite_of_shape("kth_distance", &[rows])?;
        let density = parts.finite_of_shape("density", &[rows])?;
        if kth_distance.iter().any(|distance| *distance < 0.0) {
            return Err(damaged("kth_distance", "a distance is negative"));
        }
        if density.iter().any(|density| *density <= 0.0) {
            return Err(damaged("density", "a density is not positive"));
        }
        Ok(Self { index, k, kth_distance, density })
    }
}

fn local_density(neighbors: &Neighbors, i: usize, k: usize, kth_distance: &[f64]) -> f64 {
    let pairs = neighbors.ids(i).iter().zip(neighbors.sq_distances(i)).take(k);
    let sum: f64 = pairs.map(|(&id, sq)| sq.sqrt().max(kth_distance[id as usize])).sum();
    1.0 / (sum / k as f64 + MIN_REACH)
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
        let neighbors = neighbors_of(batch, rows, &*self.index, self.k)?;
        let factor = |i: usize| {
            let ids = &neighbors.ids(i)[..self.k];
            let neighbor_density =
                ids.iter().map(|&id| self.density[id as usize]).sum::<f64>() / self.k as f64;
            neighbor_density / local_density(&neighbors, i, self.k, &self.kth_distance)
        };
        Ok((0..rows.len()).map(factor).collect())
    }

    fn bytes(&self) -> u64 {
        16 * self.kth_distance.len() as u64
    }

    fn parts(&self) -> Option<BaselineParts> {
        let parts = BaselineParts::new(MethodId::Lof).param("n_neighbors", self.k);
        Some(parts.array("kth_distance", self.kth_distance.clone()).array("density", self.density.clone()))
    }

    fn index(&self) -> Option<&dyn NeighborIndex> {
        Some(&*self.index)
    }
}
