//! Scores by distances to training rows and to classes.

use crate::gaussians;
use crate::oracle::by_distance;

/// Class means with a shared covariance, and one Gaussian of all rows.
pub struct Mahalanobis {
    /// `μ_c`, the mean of each class.
    means: Vec<Vec<f64>>,
    /// The Cholesky factor of `Σ`, the covariance of all rows around their class means.
    within: Vec<Vec<f64>>,
    /// `μ₀`, the mean of all rows.
    mean: Vec<f64>,
    /// The Cholesky factor of `Σ₀`, the covariance of all rows around `μ₀`.
    overall: Vec<Vec<f64>>,
}

impl Mahalanobis {
    /// Labels are `0..classes`. A `shrinkage` of `None` selects the shrinkage of Ledoit and Wolf.
    pub fn fit(x: &[Vec<f64>], y: &[usize], classes: usize, shrinkage: Option<f64>) -> Self {
        let all: Vec<&Vec<f64>> = x.iter().collect();
        let mean = gaussians::mean(&all);
        let means: Vec<Vec<f64>> = (0..classes)
            .map(|class| {
                let members: Vec<&Vec<f64>> =
                    x.iter().zip(y).filter(|(_, label)| **label == class).map(|(row, _)| row).collect();
                gaussians::mean(&members)
            })
            .collect();
        let around_class: Vec<Vec<f64>> = x.iter().zip(y).map(|(row, &c)| minus(row, &means[c])).collect();
        let around_all: Vec<Vec<f64>> = x.iter().map(|row| minus(row, &mean)).collect();
        let factor = |rows: &[Vec<f64>]| {
            gaussians::cholesky(gaussians::covariance(rows, false, shrinkage, variance(&around_all)))
        };
        Self { within: factor(&around_class), overall: factor(&around_all), means, mean }
    }

    /// Squared distance to the nearest class: `min_c (q − μ_c)ᵀ Σ⁻¹ (q − μ_c)`.
    pub fn nearest(&self, q: &[f64]) -> f64 {
        let distances = self.means.iter().map(|mean| squared(&self.within, &minus(q, mean)));
        distances.fold(f64::INFINITY, f64::min)
    }

    /// Squared distance to the Gaussian of all rows: `(q − μ₀)ᵀ Σ₀⁻¹ (q − μ₀)`. The relative Mahalanobis distance subtracts this value.
    pub fn from_all(&self, q: &[f64]) -> f64 {
        squared(&self.overall, &minus(q, &self.mean))
    }
}

fn minus(a: &[f64], b: &[f64]) -> Vec<f64> {
    a.iter().zip(b).map(|(a, b)| a - b).collect()
}

/// Squared length of `u` for the covariance `L Lᵀ`: `uᵀ (L Lᵀ)⁻¹ u`. `factor` is `L`.
fn squared(factor: &[Vec<f64>], u: &[f64]) -> f64 {
    gaussians::forward(factor, u).iter().map(|v| v * v).sum()
}

/// The mean variance of the columns of centered rows.
fn variance(rows: &[Vec<f64>]) -> f64 {
    rows.iter().flatten().map(|v| v * v).sum::<f64>() / (rows.len() * rows[0].len()) as f64
}

/// The distances to the `k` nearest training rows, ascending.
pub fn knn_distances(x: &[Vec<f64>], q: &[f64], k: usize) -> Vec<f64> {
    let all = by_distance(x, q, &vec![1.0; q.len()]);
    all.iter().take(k).map(|(sq, _)| sq.sqrt()).collect()
}

/// Local outlier factor (Breunig et al. 2000) of new rows. As in scikit-learn, 1e-10 is added to each mean reachability
/// distance, so that the density of duplicated rows is finite.
pub struct LocalOutlierFactor<'x> {
    x: &'x [Vec<f64>],
    k: usize,
    k_distance: Vec<f64>,
    density: Vec<f64>,
}

impl<'x> LocalOutlierFactor<'x> {
    /// Uses `k` neighbors, or all other rows if there are fewer.
    pub fn fit(x: &'x [Vec<f64>], k: usize) -> Self {
        let k = k.min(x.len() - 1);
        let mut fitted = Self { x, k, k_distance: Vec::new(), density: Vec::new() };
        let neighbors: Vec<_> = x.iter().enumerate().map(|(i, row)| fitted.neighbors(row, Some(i))).collect();
        fitted.k_distance = neighbors.iter().map(|near| near[k - 1].1).collect();
        fitted.density = neighbors.iter().map(|near| fitted.density_at(near)).collect();
        fitted
    }

    /// The `k` nearest rows with their distances in ascending order, without row `excluded`.
    fn neighbors(&self, q: &[f64], excluded: Option<usize>) -> Vec<(usize, f64)> {
        let all = by_distance(self.x, q, &vec![1.0; q.len()]);
        let others = all.into_iter().filter(|(_, i)| Some(*i) != excluded);
        others.take(self.k).map(|(sq, i)| (i, sq.sqrt())).collect()
    }

    /// The local density: the inverse of the mean reachability distance.
    fn density_at(&self, neighbors: &[(usize, f64)]) -> f64 {
        let mut sum = 0.0;
        for &(i, distance) in neighbors {
            sum += distance.max(self.k_distance[i]);
        }
        1.0 / (sum / self.k as f64 + 1e-10)
    }

    /// The mean density of the neighbors, divided by the density of the query.
    pub fn score(&self, q: &[f64]) -> f64 {
        let neighbors = self.neighbors(q, None);
        let density = self.density_at(&neighbors);
        neighbors.iter().map(|&(i, _)| self.density[i] / density).sum::<f64>() / self.k as f64
    }
}
