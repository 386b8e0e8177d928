//! Projection of rows onto the first two principal components of the training rows.

use faer::{Mat, Side};
use nuq_neighbors::Embeddings;

use crate::Error;
use crate::error::no_spread;
use nuq::moments::{mean, scatter_around};
use nuq::{FittedModel, NuqClassifier};

/// A plane that is spanned by two principal components.
#[derive(Debug, Clone)]
pub struct Plane {
    mean: Vec<f64>,
    /// The two unit vectors, as columns.
    axes: Mat<f64>,
    /// The share of the total variance along each axis, in [0, 1].
    pub explained: (f64, f64),
}

/// The plane of the first two principal components of a model's training rows.
///
/// ```
/// use nuq_eval::evaluate::principal_plane;
/// use nuq::{Embeddings, NuqClassifier};
/// // The variance is large in the third column and small in the first.
/// let x = Embeddings::from_rows(&[[0.0, 5.0, -9.0], [0.1, 5.0, 9.0], [0.0, 5.0, -8.0], [0.1, 5.0, 8.0]])?;
/// let model = NuqClassifier::params().n_neighbors(2).fit(&x, &[0, 1, 0, 1])?;
/// let plane = principal_plane(&model)?;
/// assert!(plane.explained.0 > 0.99);
/// let points = plane.project(&x);
/// assert!((points[0].0 - points[1].0).abs() > 17.9);
/// # Ok::<(), nuq_eval::Error>(())
/// ```
///
/// # Errors
/// The eigendecomposition does not converge.
pub fn principal_plane(model: &NuqClassifier<'_>) -> Result<Plane, Error> {
    let index = model.index();
    plane(&index.rows().gather(&index.rows().live_ids())?)
}

fn plane(rows: &Embeddings<'_>) -> Result<Plane, Error> {
    let d = rows.dim();
    let mean = mean(rows);
    let scatter = scatter_around(rows, &mean);
    let total: f64 = (0..d).map(|j| scatter[(j, j)]).sum();
    let eigen = scatter
        .self_adjoint_eigen(Side::Lower)
        .map_err(|_| no_spread("a projection to two dimensions", rows.len()))?;
    // Eigenvalues are in ascending order. The sign of an eigenvector is arbitrary: make its largest entry positive, so that
    // the figure does not depend on the machine.
    let axis = |from_last: usize| -> Vec<f64> {
        if from_last >= d {
            return vec![0.0; d];
        }
        let column: Vec<f64> = eigen.U().col(d - 1 - from_last).iter().copied().collect();
        let largest = column.iter().copied().fold(0.0, |a: f64, b| if b.abs() > a.abs() { b } else { a });
        column.into_iter().map(|v| v * largest.signum()).collect()
    };
    let axes = [axis(0), axis(1)];
    let share = |from_last: usize| match total > 0.0 && from_last < d {
        true => eigen.S().column_vector()[d - 1 - from_last].max(0.0) / total,
        false => 0.0,
    };
    Ok(Plane { mean, axes: Mat::from_fn(d, 2, |j, k| axes[k][j]), explained: (share(0), share(1)) })
}

impl Plane {
    /// The two coordinates of each row.
    #[must_use]
    pub fn project(&self, rows: &Embeddings<'_>) -> Vec<(f64, f64)> {
        let along = |row: &[f32], k: usize| -> f64 {
            row.iter().enumerate().map(|(j, &x)| (f64::from(x) - self.mean[j]) * self.axes[(j, k)]).sum()
        };
        rows.rows().map(|row| (along(row, 0), along(row, 1))).collect()
    }
}
