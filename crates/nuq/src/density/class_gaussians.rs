//! One Gaussian per class: $\hat p(x) = \sum_c \pi_c\, N(x; \mu_c, \Sigma_c)$.

use faer::Mat;
use nuq_neighbors::Embeddings;
use rayon::prelude::*;

use super::covariance::{CenteredRows, Whitener, check_shrinkage, scatter};
use super::{Covariance, Shrinkage};
use crate::log_space::log_add;
use crate::{Classes, Error, Label};

/// The mixture of class Gaussians, fitted without iteration: means and shrunk covariances of each class.
///
/// A class of one point, or of equal points, gets a multiple of the identity with the mean variance of all rows
/// around their class means (around the overall mean when every class is such).
///
/// ```
/// use nuq::{ClassGaussians, Covariance, Embeddings, Shrinkage};
///
/// // One class with mean 0 and variance 1 in one dimension.
/// let x = Embeddings::from_rows(&[[-1.0], [1.0]])?;
/// let model = ClassGaussians::fit(&x, &[0, 0], Covariance::Full, Shrinkage::LedoitWolf)?;
/// let at_mean = model.log_density(&Embeddings::from_rows(&[[0.0]])?)?;
/// assert!((at_mean[0] + 0.5 * (2.0 * std::f64::consts::PI).ln()).abs() < 1e-12);
/// # Ok::<(), nuq::Error>(())
/// ```
pub struct ClassGaussians<'a> {
    embeddings: Embeddings<'a>,
    means: Vec<Vec<f64>>,
    log_weights: Vec<f64>,
    shapes: Shapes,
}

enum Shapes {
    /// One map per class, with the training rows it was made of.
    Separate { whiteners: Vec<Whitener>, members: Vec<Vec<u32>> },
    /// One map for all, applied to the class means beforehand (as columns), with the class of each row.
    Tied { whitener: Whitener, whitened_means: Mat<f64>, of_row: Vec<u32> },
}

/// Queries that one task takes through all classes.
const QUERIES: usize = 256;

impl<'a> ClassGaussians<'a> {
    /// Fits the mixture to embeddings and their labels, one per row.
    pub fn fit<'l, L>(
        embeddings: &Embeddings<'a>,
        labels: &'l [L],
        covariance: Covariance,
        shrinkage: Shrinkage,
    ) -> Result<Self, Error>
    where
        Label: From<&'l L>,
    {
        if labels.len() != embeddings.len() {
            let (got, expected) = (labels.len(), embeddings.len());
            return Err(Error::LengthMismatch {
                what: "labels",
                got,
                counterpart: "training rows",
                expected,
            });
        }
        if embeddings.is_empty() {
            return Err(nuq_neighbors::Error::Empty.into());
        }
        let (classes, of_row) = Classes::encode(labels);
        Self::fit_encoded(embeddings, &classes, &of_row, covariance, shrinkage)
    }

    /// The same for labels that are encoded already.
    pub(crate) fn fit_encoded(
        embeddings: &Embeddings<'a>,
        classes: &Classes,
        of_row: &[u32],
        covariance: Covariance,
        shrinkage: Shrinkage,
    ) -> Result<Self, Error> {
        check_shrinkage(shrinkage)?;
        let mut members = vec![Vec::new(); classes.len()];
        for (row, &class) in of_row.iter().enumerate() {
            members[class as usize].push(row as u32);
        }
        let means: Vec<Vec<f64>> = members.par_iter().map(|ids| mean(embeddings, ids)).collect();
        let total = embeddings.len() as f64;
        let log_weights = members.iter().map(|ids| (ids.len() as f64 / total).ln()).collect();
        let shapes = match covariance {
            Covariance::Tied => tied(embeddings, of_row, &means, shrinkage)?,
            _ => separate(embeddings, classes, members, &means, covariance, shrinkage)?,
        };
        Ok(Self { embeddings: embeddings.clone(), means, log_weights, shapes })
    }

    /// $\ln \hat p(x)$ of each query.
    pub fn log_density(&self, queries: &Embeddings<'_>) -> Result<Vec<f64>, Error> {
        let constants: Vec<f64> =
            (0..self.means.len()).map(|class| self.log_weights[class] + self.log_peak(class)).collect();
        self.each_query(queries, |sq_distances| {
            let terms = constants.iter().zip(sq_distances).map(|(constant, sq)| constant - 0.5 * sq);
            terms.fold(f64::NEG_INFINITY, log_add)
        })
    }

    /// The squared Mahalanobis distance of each query to the nearest class:
    /// $\min_c (x - \mu_c)^\top \Sigma_c^{-1} (x - \mu_c)$.
    pub fn nearest_sq_distance(&self, queries: &Embeddings<'_>) -> Result<Vec<f64>, Error> {
        self.each_query(queries, |sq_distances| sq_distances.iter().copied().fold(f64::INFINITY, f64::min))
    }

    /// $\ln \sum_c \pi_c e^{-D_c/2}$ of each query: the density without its constants.
    pub(crate) fn log_mixture(&self, queries: &Embeddings<'_>) -> Result<Vec<f64>, Error> {
        self.each_query(queries, |sq_distances| self.mixed(sq_distances.iter().copied()))
    }

    fn mixed(&self, sq_distances: impl Iterator<Item = f64>) -> f64 {
        let terms = self.log_weights.iter().zip(sq_distances).map(|(weight, sq)| weight - 0.5 * sq);
        terms.fold(f64::NEG_INFINITY, log_add)
    }

    /// The same of training rows, each left out of the fit it is measured by: of one covariance for all classes, with its
    /// shrinkage and the class frequencies as they are. `None` for a row that is its class. `classes` are those of `rows`.
    ///
    /// Without row $x$ of class $c$ the mean moves away from it, $x - \mu_c' = f (x - \mu_c)$ with $f = n_c/(n_c - 1)$, and the
    /// covariance loses $b\,(x - \mu_c)(x - \mu_c)^\top$ with $b = (1-\rho) f / N$. By Sherman and Morrison's formula, with
    /// $q = D_c$ and $t_k = (x - \mu_k)^\top \Sigma^{-1} (x - \mu_c)$,
    ///
    /// $$D_c' = \frac{f^2 q}{1 - bq}, \qquad D_k' = D_k + \frac{b\, t_k^2}{1 - bq}$$
    pub(crate) fn left_out_log_mixture(&self, rows: &Embeddings<'_>, classes: &[u32]) -> Vec<Option<f64>> {
        let Shapes::Tied { whitener, whitened_means, of_row } = &self.shapes else {
            unreachable!("only asked of one covariance for all classes")
        };
        let mut counts = vec![0usize; self.means.len()];
        of_row.iter().for_each(|&class| counts[class as usize] += 1);
        let total = of_row.len() as f64;
        let between = |k: usize, c: usize| (whitened_means.col(k) - whitened_means.col(c)).squared_norm_l2();
        let left_out = |sq: &[f64], own: usize| {
            let n = counts[own] as f64;
            if n < 2.0 {
                return None;
            }
            let (f, q) = (n / (n - 1.0), sq[own]);
            let b = (1.0 - whitener.shrinkage()) * f / total;
            let rest = (1.0 - b * q).max(1e-6);
            let without = |(k, &d): (usize, &f64)| match k == own {
                true => f * f * q / rest,
                false => d + b / rest * (0.5 * (d + q - between(k, own))).powi(2),
            };
            Some(self.mixed(sq.iter().enumerate().map(without)))
        };
        let width = self.means.len();
        let blocks = rows.as_slice().par_chunks(QUERIES * rows.dim()).zip(classes.par_chunks(QUERIES));
        blocks
            .flat_map_iter(|(block, classes)| {
                let sq = self.sq_distances(block);
                let of = |(i, &class): (usize, &u32)| left_out(&sq[i * width..][..width], class as usize);
                classes.iter().enumerate().map(of).collect::<Vec<_>>()
            })
            .collect()
    }

    /// Reads a number off each query's squared distances to the classes.
    fn each_query(
        &self,
        queries: &Embeddings<'_>,
        read: impl Fn(&[f64]) -> f64 + Sync,
    ) -> Result<Vec<f64>, Error> {
        let dim = self.embeddings.dim();
        if queries.dim() != dim {
            let (got, expected) = (queries.dim(), dim);
            return Err(nuq_neighbors::Error::DimensionMismatch { got, expected }.into());
        }
        let block = |block: &[f32]| {
            let sq_distances = self.sq_distances(block);
            sq_distances.chunks(self.means.len()).map(&read).collect::<Vec<f64>>()
        };
        Ok(queries.as_slice().par_chunks(QUERIES * dim).flat_map_iter(block).collect())
    }

    /// The squared distances of a block of queries to all classes, query after query.
    fn sq_distances(&self, block: &[f32]) -> Vec<f64> {
        let classes = self.means.len();
        let mut sq_distances = vec![0.0; block.len() / self.embeddings.dim() * classes];
        match &self.shapes {
            Shapes::Separate { whiteners, members } => {
                for (class, whitener) in whiteners.iter().enumerate() {
                    let mean = &self.means[class];
                    let rows = ClassRows { embeddings: &self.embeddings, ids: &members[class], mean };
                    let whitened = whitener.whiten(offsets(block, mean), &rows);
                    let of_class = sq_distances.iter_mut().skip(class).step_by(classes);
                    of_class.zip(whitened.col_iter()).for_each(|(sq, column)| *sq = column.squared_norm_l2());
                }
            }
            // The map is linear: whitening the query once and the means beforehand gives all class distances.
            Shapes::Tied { whitener, whitened_means, of_row } => {
                let rows = AllRows { embeddings: &self.embeddings, of_row, means: &self.means };
                let whitened = whitener.whiten(offsets(block, &self.means[0]), &rows);
                for (of_query, query) in sq_distances.chunks_mut(classes).zip(whitened.col_iter()) {
                    for (sq, mean) in of_query.iter_mut().zip(whitened_means.col_iter()) {
                        *sq = query.iter().zip(mean.iter()).map(|(q, m)| (q - m).powi(2)).sum();
                    }
                }
            }
        }
        sq_distances
    }

    /// $\ln N(\mu_c; \mu_c, \Sigma_c)$.
    fn log_peak(&self, class: usize) -> f64 {
        let whitener = match &self.shapes {
            Shapes::Separate { whiteners, .. } => &whiteners[class],
            Shapes::Tied { whitener, .. } => whitener,
        };
        let dim = self.embeddings.dim() as f64;
        -0.5 * (dim * (2.0 * std::f64::consts::PI).ln() + whitener.log_det())
    }

    /// The number of `f64` values that the mixture holds beside the training rows.
    #[must_use]
    pub fn n_values(&self) -> usize {
        let shapes: usize = match &self.shapes {
            Shapes::Separate { whiteners, .. } => whiteners.iter().map(Whitener::n_values).sum(),
            Shapes::Tied { whitener, whitened_means, .. } => {
                whitener.n_values() + whitened_means.nrows() * whitened_means.ncols()
            }
        };
        shapes + self.means.len() * self.embeddings.dim()
    }
}

/// The queries minus a mean, one per column.
fn offsets(block: &[f32], mean: &[f64]) -> Mat<f64> {
    let dim = mean.len();
    Mat::from_fn(dim, block.len() / dim, |j, i| f64::from(block[i * dim + j]) - mean[j])
}

fn separate(
    embeddings: &Embeddings<'_>,
    classes: &Classes,
    members: Vec<Vec<u32>>,
    means: &[Vec<f64>],
    covariance: Covariance,
    shrinkage: Shrinkage,
) -> Result<Shapes, Error> {
    let class_rows = |class: usize| ClassRows { embeddings, ids: &members[class], mean: &means[class] };
    let sums: Vec<f64> = (0..members.len()).into_par_iter().map(|class| sq_sum(&class_rows(class))).collect();
    let fallback = mean_variance(embeddings, sums.iter().sum());
    let fit = |class: usize| {
        let rows = class_rows(class);
        if sums[class] == 0.0 {
            let variance = fallback.ok_or(Error::NoSpread { rows: embeddings.len() })?;
            return Ok(Whitener::isotropic(embeddings.dim(), variance));
        }
        let whitener = match covariance {
            Covariance::Diagonal => Whitener::diagonal(&rows, shrinkage),
            _ => Whitener::full(&rows, shrinkage),
        };
        whitener.ok_or_else(|| singular(classes.label(class).to_string(), shrinkage))
    };
    let whiteners = (0..members.len()).into_par_iter().map(fit).collect::<Result<_, Error>>()?;
    Ok(Shapes::Separate { whiteners, members })
}

fn tied(
    embeddings: &Embeddings<'_>,
    of_row: &[u32],
    means: &[Vec<f64>],
    shrinkage: Shrinkage,
) -> Result<Shapes, Error> {
    let rows = AllRows { embeddings, of_row, means };
    let whitener = if sq_sum(&rows) == 0.0 {
        let variance = mean_variance(embeddings, 0.0).ok_or(Error::NoSpread { rows: embeddings.len() })?;
        Whitener::isotropic(embeddings.dim(), variance)
    } else {
        Whitener::full(&rows, shrinkage).ok_or_else(|| singular("all (tied)".to_owned(), shrinkage))?
    };
    let from_first = |j: usize, class: usize| means[class][j] - means[0][j];
    let whitened_means = whitener.whiten(Mat::from_fn(embeddings.dim(), means.len(), from_first), &rows);
    Ok(Shapes::Tied { whitener, whitened_means, of_row: of_row.to_vec() })
}

fn singular(class: String, shrinkage: Shrinkage) -> Error {
    let shrinkage = match shrinkage {
        Shrinkage::Fixed(amount) => amount,
        Shrinkage::LedoitWolf => 0.0,
    };
    Error::SingularCovariance { class, shrinkage }
}

/// The mean variance per column of rows around their class means, given their summed squared distances; around
/// the overall mean where that is zero; `None` where that is zero too.
fn mean_variance(embeddings: &Embeddings<'_>, within: f64) -> Option<f64> {
    let sum = if within > 0.0 {
        within
    } else {
        let ids: Vec<u32> = (0..embeddings.len() as u32).collect();
        let mean = mean(embeddings, &ids);
        sq_sum(&ClassRows { embeddings, ids: &ids, mean: &mean })
    };
    (sum > 0.0).then(|| sum / (embeddings.len() * embeddings.dim()) as f64)
}

/// The mean of some rows. Equal rows give exactly that row.
fn mean(embeddings: &Embeddings<'_>, ids: &[u32]) -> Vec<f64> {
    let first = embeddings.row(ids[0] as usize);
    let mut mean = vec![0.0; embeddings.dim()];
    for &id in ids {
        let row = embeddings.row(id as usize).iter().zip(first);
        mean.iter_mut().zip(row).for_each(|(m, (x, f))| *m += f64::from(*x) - f64::from(*f));
    }
    mean.iter_mut().zip(first).for_each(|(m, f)| *m = *m / ids.len() as f64 + f64::from(*f));
    mean
}

/// $\sum_i \lVert x_i \rVert^2$ of centered rows.
fn sq_sum(rows: &dyn CenteredRows) -> f64 {
    let mut row = vec![0.0; rows.dim()];
    (0..rows.len())
        .map(|i| {
            rows.write(i, &mut row);
            row.iter().map(|x| x * x).sum::<f64>()
        })
        .sum()
}

fn write_centered(row: &[f32], mean: &[f64], centered: &mut [f64]) {
    for ((c, x), m) in centered.iter_mut().zip(row).zip(mean) {
        *c = f64::from(*x) - m;
    }
}

/// The scatter of all rows around a center; see [`scatter_around`](crate::moments::scatter_around).
pub(crate) fn class_rows_scatter(embeddings: &Embeddings<'_>, center: &[f64]) -> Mat<f64> {
    let ids: Vec<u32> = (0..embeddings.len() as u32).collect();
    scatter(&ClassRows { embeddings, ids: &ids, mean: center }).0
}

/// The rows of one class around its mean.
struct ClassRows<'r> {
    embeddings: &'r Embeddings<'r>,
    ids: &'r [u32],
    mean: &'r [f64],
}

impl CenteredRows for ClassRows<'_> {
    fn len(&self) -> usize {
        self.ids.len()
    }
    fn dim(&self) -> usize {
        self.embeddings.dim()
    }
    fn write(&self, i: usize, row: &mut [f64]) {
        write_centered(self.embeddings.row(self.ids[i] as usize), self.mean, row);
    }
}

/// All rows, each around its own class's mean.
struct AllRows<'r> {
    embeddings: &'r Embeddings<'r>,
    of_row: &'r [u32],
    means: &'r [Vec<f64>],
}

impl CenteredRows for AllRows<'_> {
    fn len(&self) -> usize {
        self.embeddings.len()
    }
    fn dim(&self) -> usize {
        self.embeddings.dim()
    }
    fn write(&self, i: usize, row: &mut [f64]) {
        write_centered(self.embeddings.row(i), &self.means[self.of_row[i] as usize], row);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROWS: [[f32; 2]; 7] =
        [[0.0, 0.3], [1.0, -0.2], [0.4, 1.1], [4.0, 4.2], [5.1, 4.0], [4.6, 5.3], [9.0, -3.0]];
    const CLASSES: [u32; 7] = [0, 0, 0, 1, 1, 1, 2];

    /// $(x - \mu)^\top \Sigma^{-1} (x - \mu)$ in the plane.
    fn sq_distance(x: [f64; 2], mean: [f64; 2], [a, b, c]: [f64; 3]) -> f64 {
        let (u, v) = (x[0] - mean[0], x[1] - mean[1]);
        (c * u * u - 2.0 * b * u * v + a * v * v) / (a * c - b * b)
    }

    /// Class means and the scatter around them, over all seven rows, of those that are kept.
    fn fit(kept: impl Fn(usize) -> bool) -> (Vec<[f64; 2]>, [f64; 3]) {
        let at = |i: usize| ROWS[i].map(f64::from);
        let mut means = vec![];
        let mut scatter = [0.0; 3];
        for class in 0..3 {
            let ids: Vec<usize> = (0..7).filter(|&i| CLASSES[i] == class && kept(i)).collect();
            let n = ids.len() as f64;
            let mean = [0, 1].map(|j| ids.iter().map(|&i| at(i)[j]).sum::<f64>() / n);
            for &i in &ids {
                let (u, v) = (at(i)[0] - mean[0], at(i)[1] - mean[1]);
                [u * u, u * v, v * v].iter().zip(&mut scatter).for_each(|(term, sum)| *sum += term / 7.0);
            }
            means.push(mean);
        }
        (means, scatter)
    }

    #[test]
    fn leaving_a_row_out_is_fitting_the_others() {
        let rows = Embeddings::from_rows(&ROWS).unwrap();
        let rho = 0.2;
        let model = ClassGaussians::fit(&rows, &CLASSES, Covariance::Tied, Shrinkage::Fixed(rho)).unwrap();
        let found = model.left_out_log_mixture(&rows, &CLASSES);
        // The identity's part stays that of all rows.
        let (_, all) = fit(|_| true);
        let target = 0.5 * (all[0] + all[2]);
        for i in 0..6 {
            let (means, scatter) = fit(|other| other != i);
            let sigma = [
                (1.0 - rho) * scatter[0] + rho * target,
                (1.0 - rho) * scatter[1],
                (1.0 - rho) * scatter[2] + rho * target,
            ];
            let density: f64 = (0..3)
                .map(|c| {
                    let weight = [3.0, 3.0, 1.0][c] / 7.0;
                    weight * (-0.5 * sq_distance(ROWS[i].map(f64::from), means[c], sigma)).exp()
                })
                .sum();
            assert!((found[i].unwrap() - density.ln()).abs() < 1e-10, "row {i}");
        }
        assert_eq!(found[6], None, "a row that is its class");
    }
}
