//! Selection of unlabeled rows to label next: uncertain rows that are far from each other.

use nuq_neighbors::cancel::{ParallelCheckpoints, checkpoint};
use nuq_neighbors::{Embeddings, scaled_sq_distance, sq_distance};
use rayon::prelude::*;

use crate::Error;
use crate::error::check_lengths;

/// Candidates per selected row.
const CANDIDATES_PER_ROW: usize = 10;

/// Selects `count` rows to label next, in the order of selection, by the Euclidean distances between the rows as given.
/// [`FittedModel::suggest`](crate::FittedModel::suggest) measures the distances in the space that a model searches.
///
/// The candidates are the `10 · count` most uncertain rows. The first selected row is the most uncertain one. Each
/// further row is the candidate with the largest distance to the nearest selected row (farthest-first traversal,
/// Gonzalez 1985), so that similar rows are not all selected. `uncertainty` has one value per row, higher for less
/// certain rows. Rows with NaN are never selected; if fewer than `count` rows remain, all of them are selected.
///
/// ```
/// use nuq::{Embeddings, suggest};
/// let x = Embeddings::from_rows(&[[0.0], [0.1], [9.0], [4.0]])?;
/// // Rows 0 and 1 are close to each other: only one of them is selected.
/// assert_eq!(suggest(&x, &[3.0, 2.9, 2.0, 1.0], 2)?, [0, 2]);
/// # Ok::<(), nuq::Error>(())
/// ```
///
/// # Errors
/// [`Error::LengthMismatch`] unless there is one uncertainty per row.
pub fn suggest(rows: &Embeddings<'_>, uncertainty: &[f64], count: usize) -> Result<Vec<usize>, Error> {
    suggest_by(rows, uncertainty, count, sq_distance)
}

/// The space that a model searches, without the model: whether rows are divided by their norms, and the divisors of the coordinates.
#[derive(Debug, Clone)]
pub struct SearchSpace {
    pub(crate) dim: usize,
    pub(crate) is_normalized: bool,
    pub(crate) scale: Option<Vec<f64>>,
}

impl SearchSpace {
    /// Selects `count` of the given rows to label next, as [`suggest`], by distances in this space. `uncertainty` has one value per row, usually
    /// the logarithm of the epistemic uncertainty.
    ///
    /// # Errors
    /// A dimension mismatch, or [`Error::LengthMismatch`] unless there is one uncertainty per row.
    pub fn suggest(
        &self,
        rows: &Embeddings<'_>,
        uncertainty: &[f64],
        count: usize,
    ) -> Result<Vec<usize>, Error> {
        if rows.dim() != self.dim {
            let (got, expected) = (rows.dim(), self.dim);
            return Err(nuq_neighbors::Error::DimensionMismatch { got, expected }.into());
        }
        let normalized = self.is_normalized.then(|| rows.l2_normalized());
        let rows = normalized.as_ref().unwrap_or(rows);
        match &self.scale {
            None => suggest_by(rows, uncertainty, count, sq_distance),
            Some(scale) => suggest_by(rows, uncertainty, count, |a, b| scaled_sq_distance(a, b, scale)),
        }
    }
}

/// As [`suggest`], with another squared distance of two rows.
fn suggest_by(
    rows: &Embeddings<'_>,
    uncertainty: &[f64],
    count: usize,
    sq_distance: impl Fn(&[f32], &[f32]) -> f64 + Sync,
) -> Result<Vec<usize>, Error> {
    check_lengths(("uncertainties", uncertainty.len()), ("rows", rows.len()))?;
    let mut candidates: Vec<usize> = (0..rows.len()).filter(|&i| !uncertainty[i].is_nan()).collect();
    candidates.sort_by(|&a, &b| uncertainty[b].total_cmp(&uncertainty[a]).then(a.cmp(&b)));
    candidates.truncate(count.saturating_mul(CANDIDATES_PER_ROW));
    let count = count.min(candidates.len());
    // Squared distance of each candidate to the nearest selected row.
    let mut nearest = vec![f64::INFINITY; candidates.len()];
    let mut selected = Vec::with_capacity(count);
    while selected.len() < count {
        checkpoint();
        // Among equal distances the more uncertain candidate is selected. At first all distances are infinite.
        let next = (0..candidates.len()).reduce(|best, i| if nearest[i] > nearest[best] { i } else { best });
        let Some(next) = next else { break };
        selected.push(candidates[next]);
        let row = rows.row(candidates[next]);
        nearest.par_iter_mut().zip(&candidates).with_checkpoints().for_each(|(nearest, &i)| {
            *nearest = nearest.min(sq_distance(rows.row(i), row));
        });
        // With minus infinity, this candidate is not selected again even if all remaining distances are zero.
        nearest[next] = f64::NEG_INFINITY;
    }
    Ok(selected)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Bandwidth, FittedModel, NuqClassifier};

    #[test]
    fn unequal_lengths_are_an_error() {
        let x = Embeddings::from_rows(&[[0.0], [1.0]]).unwrap();
        let error = suggest(&x, &[1.0], 1).unwrap_err();
        assert_eq!(error.to_string(), "1 uncertainties for 2 rows: give one for each");
    }

    #[test]
    fn a_model_measures_the_distances_in_the_space_that_it_searches() {
        let x = Embeddings::from_rows(&[[1.0, 0.0], [1000.0, 0.0], [0.0, 1.0]]).unwrap();
        let uncertainty = [3.0, 2.0, 1.0];
        assert_eq!(suggest(&x, &uncertainty, 2).unwrap(), [0, 1]);
        let params = || NuqClassifier::params().n_neighbors(2);
        let normalized = params().normalize(true).bandwidth(1.0).fit(&x, &[0, 0, 1]).unwrap();
        assert_eq!(normalized.suggest(&x, &uncertainty, 2).unwrap(), [0, 2]);
        let scaled = params().bandwidth(Bandwidth::PerDimension(vec![1e6, 1.0])).fit(&x, &[0, 0, 1]).unwrap();
        assert_eq!(scaled.suggest(&x, &uncertainty, 2).unwrap(), [0, 2]);
        let narrow = Embeddings::from_rows(&[[1.0], [2.0], [3.0]]).unwrap();
        let error = scaled.suggest(&narrow, &uncertainty, 2).unwrap_err().to_string();
        assert!(error.starts_with("the given rows have 1 column, and the training rows have 2"), "{error}");
    }

    #[test]
    fn each_of_several_equal_rows_is_selected_once() {
        let x = Embeddings::from_rows(&[[1.0], [1.0], [1.0]]).unwrap();
        assert_eq!(suggest(&x, &[1.0, f64::NAN, 1.0], 5).unwrap(), [0, 2]);
    }
}
