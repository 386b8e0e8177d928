//! Weights of training rows.
//!
//! A row of weight `s` counts as `s` equal rows in every sum over training rows: in the kernel sums, the class frequencies, the
//! mean and variance of the targets, and the densities. A row of weight 0 is removed; its id names no row. Leave-one-out leaves
//! out a row with all its weight, and multiplies the loss of the row by its weight.
//!
//! Distances do not depend on weights. So the number of neighbors, the grid of bandwidths, the bandwidth of the kernel
//! density and the intrinsic dimension are the same as without weights.

use nuq_neighbors::cancel::uninterrupted;

use crate::error::{check_lengths, out_of_range};
use crate::posterior::Prior;
use crate::weights::Weights;
use crate::{Classes, Error};

/// The weights of all training rows.
#[derive(Debug, Clone)]
pub(crate) struct SampleWeights {
    /// The weight of each id; `None` if all weights are 1. The value of an id that names no row is an arbitrary valid weight, which is
    /// not used.
    by_id: Option<Vec<f64>>,
    /// `Σ_i s_i` over the existing rows.
    total: f64,
}

/// Whether a positive weight is in the allowed range. Sums and squares of weights in this range, and their products with kernel
/// values, are finite.
fn is_usable(weight: f64) -> bool {
    (1e-100..=1e100).contains(&weight)
}

impl SampleWeights {
    /// The weight 1 for each row.
    pub(crate) fn ones(rows: usize) -> Self {
        Self { by_id: None, total: rows as f64 }
    }

    /// Returns the weights of rows `0..rows` (1 for each row if none are given), and the rows of weight 0.
    pub(crate) fn of_rows(weights: Option<&[f64]>, rows: usize) -> Result<(Self, Vec<u32>), Error> {
        weights.map_or_else(|| Ok((Self::ones(rows), vec![])), |weights| Self::given(weights, rows))
    }

    /// Returns the given weights of rows `0..rows`, and the rows of weight 0, which the caller must remove.
    fn given(weights: &[f64], rows: usize) -> Result<(Self, Vec<u32>), Error> {
        let zeros = zeros(weights, rows)?;
        let (by_id, total) = (with_ones(weights), weights.iter().sum());
        let has_other = by_id.iter().any(|&weight| weight != 1.0);
        Ok((Self { by_id: has_other.then_some(by_id), total }, zeros))
    }

    /// Weights by id, as a file stores them. `live` are the ids that name a row.
    pub(crate) fn restored(by_id: Option<Vec<f64>>, live: &[u32], id_bound: usize) -> Result<Self, Error> {
        if let Some(weights) = &by_id {
            check_lengths(("sample weights", weights.len()), ("training rows", id_bound))?;
            if let Some(row) = weights.iter().position(|&weight| !is_usable(weight)) {
                return Err(Error::BadSampleWeight { row, value: weights[row] });
            }
        }
        let mut restored = Self { by_id, total: 0.0 };
        restored.update_total(live);
        Ok(restored)
    }

    /// Sets the weights of inserted rows. `weights` has one weight per id; `None` means that each weight is 1.
    pub(crate) fn insert(&mut self, ids: &[u32], weights: Option<&[f64]>, id_bound: usize) {
        let are_ones = weights.is_none_or(|weights| weights.iter().all(|&weight| weight == 1.0));
        if self.by_id.is_none() && are_ones {
            return;
        }
        let by_id = self.by_id.get_or_insert_with(Vec::new);
        by_id.resize(id_bound, 1.0);
        for (i, &id) in ids.iter().enumerate() {
            by_id[id as usize] = weights.map_or(1.0, |weights| weights[i]);
        }
    }

    /// Computes the sum again after rows were inserted or removed.
    pub(crate) fn update_total(&mut self, live: &[u32]) {
        self.total = live.iter().map(|&id| self.of(id)).sum();
    }

    /// The weights by id; `None` if all are 1.
    pub(crate) fn by_id(&self) -> Option<&[f64]> {
        self.by_id.as_deref()
    }

    /// The weight of a row.
    pub(crate) fn of(&self, id: u32) -> f64 {
        self.by_id.as_ref().map_or(1.0, |weights| weights[id as usize])
    }

    /// The weights of these rows.
    pub(crate) fn gather(&self, ids: &[u32]) -> Vec<f64> {
        ids.iter().map(|&id| self.of(id)).collect()
    }

    /// `Σ_i s_i`: the number of rows if all weights are 1.
    pub(crate) fn total(&self) -> f64 {
        self.total
    }

    /// `Σ_i s_i` without one row. It is positive even if the row has nearly all the weight.
    pub(crate) fn total_without(&self, id: u32) -> f64 {
        (self.total - self.of(id)).max(f64::MIN_POSITIVE)
    }

    /// Multiplies the kernel weights of neighbors by their sample weights.
    pub(crate) fn apply(&self, ids: &[u32], weights: &mut Weights) {
        if let Some(by_id) = &self.by_id {
            weights.multiply(ids.iter().map(|&id| by_id[id as usize]));
        }
    }

    /// The prior of a classifier: class frequencies are sums of sample weights. `live` are the ids that name a row, and `weight` is
    /// the weight `w` of the prior.
    pub(crate) fn prior(&self, classes: &Classes, class_of_row: &[u32], live: &[u32], weight: f64) -> Prior {
        if self.by_id.is_none() {
            return Prior::new(classes, weight);
        }
        let mut sums = vec![0.0; classes.len()];
        live.iter().for_each(|&id| sums[class_of_row[id as usize] as usize] += self.of(id));
        Prior::weighted(&sums, weight)
    }
}

/// Checks given weights and returns the rows of weight 0.
pub(crate) fn zeros(weights: &[f64], rows: usize) -> Result<Vec<u32>, Error> {
    check_lengths(("sample weights", weights.len()), ("rows", rows))?;
    if let Some(row) = weights.iter().position(|&weight| weight != 0.0 && !is_usable(weight)) {
        return Err(Error::BadSampleWeight { row, value: weights[row] });
    }
    let zeros: Vec<u32> = (0..rows as u32).filter(|&row| weights[row as usize] == 0.0).collect();
    if zeros.len() == rows && rows > 0 {
        return Err(out_of_range("sum of the sample weights", 0.0, "at least one weight must be positive"));
    }
    Ok(zeros)
}

/// Inserts `rows` weighted rows into a model. `insert` is called with weights in which each 0 is replaced by 1, and
/// returns the ids. Then `remove` is called with the ids of the rows of weight 0, without check points: a cancelled computation leaves
/// the model as it was, and the insertion cannot be undone.
pub(crate) fn insert<M>(
    model: &mut M,
    weights: &[f64],
    rows: usize,
    insert: impl FnOnce(&mut M, &[f64]) -> Result<Vec<u32>, Error>,
    remove: impl FnOnce(&mut M, &[u32]) -> Result<(), Error>,
) -> Result<Vec<u32>, Error> {
    let zeros = zeros(weights, rows)?;
    let ids = insert(model, &with_ones(weights))?;
    if !zeros.is_empty() {
        let removed: Vec<u32> = zeros.iter().map(|&row| ids[row as usize]).collect();
        uninterrupted(|| remove(model, &removed))?;
    }
    Ok(ids)
}

/// Replaces each weight 0 by 1. Rows of weight 0 are removed from the model; the value of their ids is not used, but must be a valid
/// weight.
pub(crate) fn with_ones(weights: &[f64]) -> Vec<f64> {
    weights.iter().map(|&weight| if weight == 0.0 { 1.0 } else { weight }).collect()
}
