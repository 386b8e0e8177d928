//! Projection of rows to two dimensions: the first two principal components, or the first two linear discriminants.

use std::collections::BTreeMap;

use faer::{Mat, Side};
use nuq_neighbors::{Embeddings, SeededRng};

use crate::Error;
use crate::error::no_spread;
use nuq::moments::{mean, scatter_around};
use nuq::{FittedModel, NuqClassifier};

/// A plane that is spanned by two axes.
#[derive(Debug, Clone)]
pub struct Plane {
    mean: Vec<f64>,
    /// The two axes, as columns.
    axes: Mat<f64>,
    /// The share of the total variance along each axis, in [0, 1]; `None` for linear discriminants, which are not orthogonal.
    pub explained: Option<(f64, f64)>,
}

/// Number of principal components from which linear discriminants are computed. Components of small variance would add
/// noise.
const COMPONENTS: usize = 48;
/// Number of steps of the subspace iteration.
const ITERATIONS: usize = 8;

/// The plane of the first two principal components of a model's training rows.
///
/// ```
/// use nuq_eval::evaluate::principal_plane;
/// use nuq::{Embeddings, NuqClassifier};
/// // The variance is large in the third column and small in the first.
/// let x = Embeddings::from_rows(&[[0.0, 5.0, -9.0], [0.1, 5.0, 9.0], [0.0, 5.0, -8.0], [0.1, 5.0, 8.0]])?;
/// let model = NuqClassifier::params().n_neighbors(2).fit(&x, &[0, 1, 0, 1])?;
/// let plane = principal_plane(&model)?;
/// assert!(plane.explained.unwrap().0 > 0.99);
/// let points = plane.project(&x);
/// assert!((points[0].0 - points[1].0).abs() > 17.9);
/// # Ok::<(), nuq_eval::Error>(())
/// ```
///
/// # Errors
/// The eigendecomposition does not converge.
pub fn principal_plane(model: &NuqClassifier<'_>) -> Result<Plane, Error> {
    plane(&model.index().rows().live_rows()?)
}

/// The plane in which the classes of some rows are separated best: two linear discriminants, computed in the space of
/// the first principal components. The variance within classes is 1 along each axis. With fewer than three classes or
/// a single column there are fewer than two discriminants. Then the result is the plane of the first two principal components.
///
/// The discriminants of Fisher and Rao are dominated by the classes that are far from all others. Here each pair of
/// classes has a weight that decreases with the distance Δ of their means (Loog, Duin and Haeb-Umbach 2001), as 1/Δ⁴,
/// so that near classes are separated too.
///
/// ```
/// use nuq_eval::evaluate::discriminant_plane;
/// use nuq::Embeddings;
/// // The third column has the largest variance, but only the first two depend on the class.
/// let noise = [-9.0, 9.0, -7.0, 7.0];
/// let rows: Vec<[f32; 3]> = (0..12).map(|i| [[0.0, 0.0], [3.0, 0.0], [0.0, 3.0]][i % 3])
///     .zip((0..12).map(|i| (noise[i / 3], 0.1 * noise[3 - i / 3])))
///     .map(|([x, y], (z, e))| [x + 0.1 * e, y - 0.1 * e, z]).collect();
/// let classes: Vec<u32> = (0..12).map(|i| i % 3).collect();
/// let plane = discriminant_plane(&Embeddings::from_rows(&rows)?, &classes)?;
/// let points = plane.project(&Embeddings::from_rows(&rows)?);
/// let distance = |i: usize, j: usize| (points[i].0 - points[j].0).hypot(points[i].1 - points[j].1);
/// assert!(distance(0, 3) < 0.3 * distance(0, 1) && distance(0, 3) < 0.3 * distance(0, 2));
/// # Ok::<(), nuq_eval::Error>(())
/// ```
///
/// # Errors
/// The eigendecomposition does not converge.
///
/// # Panics
/// If there is not one class per row.
pub fn discriminant_plane(rows: &Embeddings<'_>, classes: &[u32]) -> Result<Plane, Error> {
    assert_eq!(rows.len(), classes.len(), "there is not one class per row");
    let (mean, components) = principal_components(rows)?;
    let p = components.ncols();
    let coordinates = centered(rows, &mean) * &components;
    let (within, means, shares) = class_moments(&coordinates, classes);
    if shares.len() < 3 || p < 2 {
        let axes = Mat::from_fn(rows.dim(), 2, |j, k| if k < p { components[(j, k)] } else { 0.0 });
        let explained = explained_by_first(rows, &mean, &coordinates);
        return Ok(Plane { mean, axes: with_positive_largest_entries(axes), explained: Some(explained) });
    }
    let failed = |_| no_spread("a projection to two dimensions", rows.len());
    let eigen = within.self_adjoint_eigen(Side::Lower).map_err(failed)?;
    let variances = eigen.S().column_vector();
    // Directions without variance within classes would have infinite discriminants. So variances have a lower bound.
    let floor = (1e-6 * variances[p - 1]).max(f64::MIN_POSITIVE);
    let whitening = Mat::from_fn(p, p, |i, j| eigen.U()[(i, j)] / variances[j].max(floor).sqrt());
    let between = pairwise_scatter(&(means * &whitening), &shares);
    let eigen = between.self_adjoint_eigen(Side::Lower).map_err(failed)?;
    let first = Mat::from_fn(p, 2, |i, k| eigen.U()[(i, p - 1 - k)]);
    Ok(Plane { mean, axes: with_positive_largest_entries(components * (whitening * first)), explained: None })
}

/// The rows minus their mean.
fn centered(rows: &Embeddings<'_>, mean: &[f64]) -> Mat<f64> {
    Mat::from_fn(rows.len(), rows.dim(), |i, j| f64::from(rows.row(i)[j]) - mean[j])
}

/// The mean and the first principal components as columns, by descending variance, from a seeded subspace iteration.
fn principal_components(rows: &Embeddings<'_>) -> Result<(Vec<f64>, Mat<f64>), Error> {
    let mean = mean(rows);
    let centered = centered(rows, &mean);
    let count = COMPONENTS.min(rows.dim()).min(rows.len());
    let mut rng = SeededRng::new(0);
    let mut axes = Mat::from_fn(rows.dim(), count, |_, _| rng.normal());
    for _ in 0..ITERATIONS {
        let images = &centered * &axes;
        axes = (centered.transpose() * images).qr().compute_thin_Q();
    }
    let images = &centered * &axes;
    let eigen = (images.transpose() * &images)
        .self_adjoint_eigen(Side::Lower)
        .map_err(|_| no_spread("a projection to two dimensions", rows.len()))?;
    Ok((mean, axes * eigen.U().reverse_cols()))
}

/// The covariance within classes, the class means as rows, and the shares of the classes.
fn class_moments(coordinates: &Mat<f64>, classes: &[u32]) -> (Mat<f64>, Mat<f64>, Vec<f64>) {
    let (n, p) = (coordinates.nrows(), coordinates.ncols());
    let mut members: BTreeMap<u32, Vec<usize>> = BTreeMap::new();
    classes.iter().enumerate().for_each(|(i, &class)| members.entry(class).or_default().push(i));
    let members: Vec<Vec<usize>> = members.into_values().collect();
    let mean =
        |rows: &[usize], j: usize| rows.iter().map(|&i| coordinates[(i, j)]).sum::<f64>() / rows.len() as f64;
    let means = Mat::from_fn(members.len(), p, |class, j| mean(&members[class], j));
    let mut residuals = coordinates.clone();
    for (class, rows) in members.iter().enumerate() {
        for j in 0..p {
            rows.iter().for_each(|&i| residuals[(i, j)] -= means[(class, j)]);
        }
    }
    let within = residuals.transpose() * &residuals * faer::Scale(1.0 / n as f64);
    (within, means, members.iter().map(|rows| rows.len() as f64 / n as f64).collect())
}

/// `Σ_{a<b} π_a π_b Δ_ab⁻⁴ (m_a − m_b)(m_a − m_b)ᵀ` for class means m as rows, shares π and distances Δ.
fn pairwise_scatter(means: &Mat<f64>, shares: &[f64]) -> Mat<f64> {
    let p = means.ncols();
    let pairs = (0..shares.len()).flat_map(|a| (0..a).map(move |b| (a, b)));
    let mut scatter = Mat::zeros(p, p);
    for (a, b) in pairs {
        let difference: Vec<f64> = (0..p).map(|j| means[(a, j)] - means[(b, j)]).collect();
        let sq_distance: f64 = difference.iter().map(|d| d * d).sum();
        // The lower bound prevents a division by zero: equal means contribute nothing.
        let weight = shares[a] * shares[b] / sq_distance.max(1e-12).powi(2);
        for j in 0..p {
            (0..=j).for_each(|k| scatter[(j, k)] += weight * difference[j] * difference[k]);
        }
    }
    // Only the lower triangle is computed, because the eigendecomposition reads no other entries.
    scatter
}

/// The shares of the total variance along the first two components.
fn explained_by_first(rows: &Embeddings<'_>, mean: &[f64], coordinates: &Mat<f64>) -> (f64, f64) {
    let square =
        |row: &[f32]| -> f64 { row.iter().zip(mean).map(|(&x, m)| (f64::from(x) - m).powi(2)).sum() };
    let total: f64 = rows.rows().map(square).sum();
    let share = |k: usize| match total > 0.0 && k < coordinates.ncols() {
        true => coordinates.col(k).iter().map(|v| v * v).sum::<f64>() / total,
        false => 0.0,
    };
    (share(0), share(1))
}

/// The sign of an axis is arbitrary: its entry with the largest absolute value is made positive, so that figures of the plane do not
/// depend on the machine.
fn with_positive_largest_entries(mut axes: Mat<f64>) -> Mat<f64> {
    for k in 0..axes.ncols() {
        let largest =
            axes.col(k).iter().copied().fold(0.0, |a: f64, b| if b.abs() > a.abs() { b } else { a });
        (0..axes.nrows()).for_each(|j| axes[(j, k)] *= largest.signum());
    }
    axes
}

fn plane(rows: &Embeddings<'_>) -> Result<Plane, Error> {
    let d = rows.dim();
    let mean = mean(rows);
    let scatter = scatter_around(rows, &mean);
    let total: f64 = (0..d).map(|j| scatter[(j, j)]).sum();
    let eigen = scatter
        .self_adjoint_eigen(Side::Lower)
        .map_err(|_| no_spread("a projection to two dimensions", rows.len()))?;
    // Eigenvalues are in ascending order. The sign of an eigenvector is arbitrary: make its entry with the largest absolute value
    // positive, so that figures of the plane do not depend on the machine.
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
    Ok(Plane { mean, axes: Mat::from_fn(d, 2, |j, k| axes[k][j]), explained: Some((share(0), share(1))) })
}

impl Plane {
    /// The number of columns of the rows that can be projected.
    #[must_use]
    pub fn dim(&self) -> usize {
        self.mean.len()
    }

    /// The two coordinates of each row.
    #[must_use]
    pub fn project(&self, rows: &Embeddings<'_>) -> Vec<(f64, f64)> {
        let along = |row: &[f32], k: usize| -> f64 {
            row.iter().enumerate().map(|(j, &x)| (f64::from(x) - self.mean[j]) * self.axes[(j, k)]).sum()
        };
        rows.rows().map(|row| (along(row, 0), along(row, 1))).collect()
    }
}
