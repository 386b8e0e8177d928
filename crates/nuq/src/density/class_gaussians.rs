//! One Gaussian per class: `p̂(x) = Σ_c π_c N(x; μ_c, Σ_c)`. `π_c` is the share of class `c` in the sum of all sample weights.

use faer::Mat;
use nuq_neighbors::Embeddings;
use nuq_neighbors::cancel::{Checkpoint, checkpoint};
use rayon::prelude::*;

use super::centered_rows::{AllRows, ClassRows, mean, write_centered};
use super::class_covariances::{ClassCovariances, SeparateFit, fit_tied};
use super::lanes::sq_distance;
use super::{Covariance, RowClasses, Shrinkage, check_shrinkage};
use crate::error::{check_lengths, no_class_covariance};
use crate::log_space::log_add;
use crate::row_source::RowSource;
use crate::{Classes, Error, Label};

/// The mixture of class Gaussians, with the mean and the shrunk covariance of each class. The fit needs no iteration.
///
/// If a class has only one row, or only equal rows, its covariance is the identity times the mean variance of all rows
/// around their class means (around the overall mean if every class is of this kind).
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
    /// The training rows; none if no covariance needs them. A full covariance of fewer rows than columns needs its rows.
    pub(super) rows: RowSource<'a>,
    pub(super) means: Vec<Vec<f64>>,
    /// `ln π_c` of each class.
    pub(super) log_weights: Vec<f64>,
    pub(super) covariances: ClassCovariances,
    /// The sample weight of each of `rows`; `None` if all are 1.
    pub(super) weights: Option<Vec<f64>>,
}

/// The rows of each class, their mean, and `ln π_c`.
struct ClassMeans {
    members: Vec<Vec<u32>>,
    means: Vec<Vec<f64>>,
    log_weights: Vec<f64>,
}

impl ClassMeans {
    fn of(rows: &RowSource<'_>, RowClasses { classes, class_of_row, weights }: RowClasses<'_>) -> Self {
        let mut members = vec![Vec::new(); classes.len()];
        for (row, &class) in class_of_row.iter().enumerate() {
            members[class as usize].push(row as u32);
        }
        let here = Checkpoint::current();
        let means = members.par_iter().map(|ids| here.enter(|| mean(rows, ids, weights))).collect();
        let sum = |ids: &Vec<u32>| match weights {
            Some(weights) => ids.iter().map(|&id| weights[id as usize]).sum::<f64>(),
            None => ids.len() as f64,
        };
        let sums: Vec<f64> = members.iter().map(sum).collect();
        let total: f64 = sums.iter().sum();
        Self { members, means, log_weights: sums.iter().map(|sum| (sum / total).ln()).collect() }
    }
}

/// Queries per parallel task.
pub(super) const QUERIES: usize = 256;

impl<'a> ClassGaussians<'a> {
    /// Fits the mixture to embeddings and their labels, one per row.
    ///
    /// # Errors
    /// [`Error::LengthMismatch`], an error if there are no rows, [`Error::OutOfRange`] for the shrinkage,
    /// [`Error::SingularCovariance`] for a given shrinkage that is too small, [`Error::NoSpread`] if all rows are
    /// equal.
    pub fn fit<'l, L>(
        embeddings: &Embeddings<'a>,
        labels: &'l [L],
        covariance: Covariance,
        shrinkage: Shrinkage,
    ) -> Result<Self, Error>
    where
        Label: From<&'l L>,
    {
        let (classes, class_of_row) = encode(embeddings, labels)?;
        let classes = RowClasses { classes: &classes, class_of_row: &class_of_row, weights: None };
        Self::fit_encoded(&embeddings.into(), classes, covariance, shrinkage).map_err(without_parameter)
    }

    /// Fits the mixture with one full covariance per class, and passes it to `work` in parts of a few classes, in the order of the
    /// classes. Only the covariances of one part are in memory: with 200 classes of 512 columns, all of them take 400 MiB.
    /// [`add_density`](Self::add_density) of all parts gives the same numbers as [`log_density`](Self::log_density) of the mixture.
    ///
    /// # Errors
    /// Those of [`fit`](Self::fit) and of `work`.
    #[doc(hidden)]
    pub fn fit_in_parts<'l, L, E>(
        embeddings: &Embeddings<'a>,
        labels: &'l [L],
        shrinkage: Shrinkage,
        mut work: impl FnMut(&Self) -> Result<(), E>,
    ) -> Result<(), E>
    where
        Label: From<&'l L>,
        E: From<Error>,
    {
        check_shrinkage(shrinkage)?;
        let (classes, class_of_row) = encode(embeddings, labels)?;
        let rows = RowSource::from(embeddings);
        let row_classes = RowClasses { classes: &classes, class_of_row: &class_of_row, weights: None };
        let ClassMeans { members, means, log_weights } = ClassMeans::of(&rows, row_classes);
        let fit = SeparateFit::new(&rows, row_classes, &members, &means, Covariance::Full, shrinkage);
        // The classes of a part are fitted in parallel.
        let per_part = rayon::current_num_threads();
        for first in (0..means.len()).step_by(per_part) {
            let part = first..means.len().min(first + per_part);
            let whiteners = fit.whiteners(part.clone()).map_err(without_parameter)?;
            let members = members[part.clone()].to_vec();
            let (means, log_weights) = (means[part.clone()].to_vec(), log_weights[part].to_vec());
            let covariances = ClassCovariances::Separate { whiteners, members };
            work(&Self::new(&rows, means, log_weights, covariances, None))?;
        }
        Ok(())
    }

    /// Fits the mixture to rows with encoded labels and sample weights.
    pub(crate) fn fit_encoded(
        rows: &RowSource<'a>,
        classes: RowClasses<'_>,
        covariance: Covariance,
        shrinkage: Shrinkage,
    ) -> Result<Self, Error> {
        check_shrinkage(shrinkage)?;
        let ClassMeans { members, means, log_weights } = ClassMeans::of(rows, classes);
        let covariances = match covariance {
            Covariance::Tied => fit_tied(rows, classes, &means, shrinkage)?,
            _ => {
                let fit = SeparateFit::new(rows, classes, &members, &means, covariance, shrinkage);
                ClassCovariances::Separate { whiteners: fit.whiteners(0..means.len())?, members }
            }
        };
        Ok(Self::new(rows, means, log_weights, covariances, classes.weights))
    }

    fn new(
        rows: &RowSource<'a>,
        means: Vec<Vec<f64>>,
        log_weights: Vec<f64>,
        covariances: ClassCovariances,
        weights: Option<&[f64]>,
    ) -> Self {
        // Rows that are not needed after the fit are dropped, because they may be a copy that uses memory.
        let rows = if covariances.need_rows() { rows.clone() } else { RowSource::empty(rows.dim()) };
        Self { rows, means, log_weights, covariances, weights: weights.map(<[f64]>::to_vec) }
    }

    /// The same mixture with a copy of the rows, if it needs them.
    pub(crate) fn into_static(self) -> ClassGaussians<'static> {
        let Self { rows, means, log_weights, covariances, weights } = self;
        ClassGaussians { rows: rows.into_static(), means, log_weights, covariances, weights }
    }

    /// `ln p̂(x)` of each query.
    ///
    /// # Errors
    /// A dimension mismatch between queries and training rows.
    pub fn log_density(&self, queries: &Embeddings<'_>) -> Result<Vec<f64>, Error> {
        let mut log_densities = vec![f64::NEG_INFINITY; queries.len()];
        self.add_density(queries, &mut log_densities)?;
        Ok(log_densities)
    }

    /// Replaces the log density `l` of each query by `ln(e^l + p̂(x))`.
    ///
    /// # Errors
    /// A dimension mismatch between queries and training rows.
    ///
    /// # Panics
    /// If there is not one log density per query.
    #[doc(hidden)]
    pub fn add_density(&self, queries: &Embeddings<'_>, log_densities: &mut [f64]) -> Result<(), Error> {
        let constants: Vec<f64> = (0..self.means.len()).map(|class| self.log_constant(class)).collect();
        self.each_query(queries, log_densities, |log_density, sq_distances| {
            let terms = constants.iter().zip(sq_distances).map(|(constant, sq)| constant - 0.5 * sq);
            terms.fold(log_density, log_add)
        })
    }

    /// The squared Mahalanobis distance of each query to the nearest class, `min_c (x − μ_c)ᵀ Σ_c⁻¹ (x − μ_c)`.
    ///
    /// # Errors
    /// A dimension mismatch between queries and training rows.
    pub fn nearest_sq_distance(&self, queries: &Embeddings<'_>) -> Result<Vec<f64>, Error> {
        let mut nearest = vec![f64::INFINITY; queries.len()];
        self.each_query(queries, &mut nearest, |nearest, sq_distances| {
            sq_distances.iter().copied().fold(nearest, f64::min)
        })?;
        Ok(nearest)
    }

    /// `ln Σ_c π_c e^(−D_c/2)` of each query, with the squared Mahalanobis distances `D_c`. This is the log density
    /// without the constants of the Gaussians.
    pub(crate) fn log_mixture(&self, queries: &Embeddings<'_>) -> Result<Vec<f64>, Error> {
        let mut mixed = vec![0.0; queries.len()];
        self.each_query(queries, &mut mixed, |_, sq_distances| self.mixed(sq_distances.iter().copied()))?;
        Ok(mixed)
    }

    pub(super) fn mixed(&self, sq_distances: impl Iterator<Item = f64>) -> f64 {
        let terms = self.log_weights.iter().zip(sq_distances).map(|(weight, sq)| weight - 0.5 * sq);
        terms.fold(f64::NEG_INFINITY, log_add)
    }

    /// Replaces the value of each query by the result of `update` for this value and the squared distances of the query to the classes.
    fn each_query(
        &self,
        queries: &Embeddings<'_>,
        values: &mut [f64],
        update: impl Fn(f64, &[f64]) -> f64 + Sync,
    ) -> Result<(), Error> {
        let dim = self.rows.dim();
        if queries.dim() != dim {
            let (got, expected) = (queries.dim(), dim);
            return Err(nuq_neighbors::Error::DimensionMismatch { got, expected }.into());
        }
        assert_eq!(values.len(), queries.len(), "there is one value per query");
        let here = Checkpoint::current();
        let blocks = queries.as_slice().par_chunks(QUERIES * dim).zip(values.par_chunks_mut(QUERIES));
        blocks.for_each(|(block, values)| {
            let sq_distances = here.enter(|| self.sq_distances(block));
            for (value, sq_distances) in values.iter_mut().zip(sq_distances.chunks(self.means.len())) {
                *value = update(*value, sq_distances);
            }
        });
        Ok(())
    }

    /// The squared distances of a block of queries to all classes, query after query.
    pub(super) fn sq_distances(&self, block: &[f32]) -> Vec<f64> {
        let classes = self.means.len();
        if block.len() == self.rows.dim() {
            // A matrix product with a single column is rounded differently. The result of a query must not depend on
            // the number of queries, so a single query is computed twice.
            let mut of_two = self.sq_distances(&[block, block].concat());
            of_two.truncate(classes);
            return of_two;
        }
        let mut sq_distances = vec![0.0; block.len() / self.rows.dim() * classes];
        let weights = self.weights.as_deref();
        match &self.covariances {
            ClassCovariances::Separate { whiteners, members } => {
                for (class, whitener) in whiteners.iter().enumerate() {
                    checkpoint();
                    let mean = &self.means[class];
                    let rows = ClassRows { rows: &self.rows, ids: &members[class], mean, weights };
                    let whitened = whitener.whiten(offsets(block, mean), &rows);
                    let of_class = sq_distances.iter_mut().skip(class).step_by(classes);
                    of_class.zip(whitened.col_iter()).for_each(|(sq, column)| *sq = column.squared_norm_l2());
                }
            }
            // Whitening is linear. So all class distances follow from the whitened query and the whitened means.
            ClassCovariances::Tied { whitener, whitened_means, class_of_row } => {
                let rows = AllRows { rows: &self.rows, class_of_row, means: &self.means, weights };
                let whitened = whitener.whiten(offsets(block, &self.means[0]), &rows);
                for (of_query, query) in sq_distances.chunks_mut(classes).zip(columns(&whitened)) {
                    checkpoint();
                    for (sq, mean) in of_query.iter_mut().zip(columns(whitened_means)) {
                        *sq = sq_distance(query, mean);
                    }
                }
            }
        }
        sq_distances
    }

    /// `ln π_c N(μ_c; μ_c, Σ_c)`.
    pub(super) fn log_constant(&self, class: usize) -> f64 {
        let dim = self.rows.dim() as f64;
        let log_det = self.covariances.whitener(class).log_det();
        self.log_weights[class] - 0.5 * (dim * (2.0 * std::f64::consts::PI).ln() + log_det)
    }

    /// The number of columns.
    #[must_use]
    pub fn dim(&self) -> usize {
        self.rows.dim()
    }

    /// The number of stored `f64` values of the class means and covariances, which are most of the memory besides the
    /// training rows. Class and sample weights and determinants are not counted.
    #[must_use]
    pub fn n_values(&self) -> usize {
        self.covariances.n_values() + self.means.len() * self.rows.dim()
    }
}

/// The classes of the labels, one label per row, and the class of each row.
fn encode<'l, L>(embeddings: &Embeddings<'_>, labels: &'l [L]) -> Result<(Classes, Vec<u32>), Error>
where
    Label: From<&'l L>,
{
    check_lengths(("labels", labels.len()), ("training rows", embeddings.len()))?;
    if embeddings.is_empty() {
        return Err(nuq_neighbors::Error::Empty.into());
    }
    Ok(Classes::encode(labels))
}

/// The error of a fit without a model. The remedy in [`Error::NoSpread`] is a parameter of a model, which these Gaussians do not have.
fn without_parameter(error: Error) -> Error {
    match error {
        Error::NoSpread { rows, .. } => no_class_covariance(rows),
        other => other,
    }
}

/// The columns of a matrix.
pub(super) fn columns(matrix: &Mat<f64>) -> impl Iterator<Item = &[f64]> {
    (0..matrix.ncols()).map(|j| column(matrix, j))
}

/// A column of a matrix.
pub(super) fn column(matrix: &Mat<f64>, j: usize) -> &[f64] {
    matrix.col(j).try_as_col_major().expect("the columns of a matrix are contiguous").as_slice()
}

/// The queries minus a mean, one per column.
pub(super) fn offsets(block: &[f32], mean: &[f64]) -> Mat<f64> {
    let dim = mean.len();
    let mut offsets = Mat::zeros(dim, block.len() / dim);
    for (column, row) in offsets.col_iter_mut().zip(block.chunks_exact(dim)) {
        let column = column.try_as_col_major_mut().expect("a fresh matrix has contiguous columns");
        write_centered(row, mean, 1.0, column.as_slice_mut());
    }
    offsets
}

#[cfg(test)]
mod tests {
    use nuq_testkit::data::{clusters, normal};

    use super::*;

    #[test]
    fn parts_give_the_density_of_the_mixture_bit_for_bit() {
        let bits = |values: &[f64]| values.iter().map(|value| value.to_bits()).collect::<Vec<u64>>();
        // The classes have more rows than columns, fewer rows, or a single row.
        for (rows, dim) in [(900, 4), (300, 20), (52, 6)] {
            let ((x, y), queries) = (clusters(rows, dim, 50, 1.0, 1), normal(300, dim, 2));
            let shrinkage = Shrinkage::LedoitWolf;
            let whole = ClassGaussians::fit(&x, &y, Covariance::Full, shrinkage).unwrap();
            let (mut log_densities, mut n_values) = (vec![f64::NEG_INFINITY; 300], 0);
            ClassGaussians::fit_in_parts(&x, &y, shrinkage, |part| {
                n_values += part.n_values();
                part.add_density(&queries, &mut log_densities)
            })
            .unwrap();
            assert_eq!(bits(&log_densities), bits(&whole.log_density(&queries).unwrap()));
            assert_eq!(n_values, whole.n_values());
        }
    }
}
