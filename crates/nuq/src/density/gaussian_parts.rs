//! A mixture of class Gaussians as plain arrays, as a file stores it.
//!
//! A covariance that was estimated from fewer rows than columns is stored with these rows, because they are needed to
//! apply it. The rows of other covariances are not needed after the fit.

use nuq_neighbors::Embeddings;

use super::ClassGaussians;
use super::centered_rows::AllRows;
use super::class_covariances::{ClassCovariances, whitened_means};
use super::whitener::{Unreadable, Whitener};
use crate::Error;
use crate::row_source::RowSource;

/// The arrays of [`ClassGaussians`]. There is one covariance per class, or one for all classes.
#[derive(Debug, Clone, PartialEq)]
pub struct GaussianParts {
    /// The number of columns, `d`.
    pub dim: usize,
    /// Class means, `d` values each.
    pub means: Vec<f64>,
    /// `ln π_c` of each class.
    pub log_weights: Vec<f64>,
    /// Whether all classes share one covariance.
    pub is_tied: bool,
    /// The form of each covariance: 0 for variances, 1 for a `d × d` factor, 2 for an `n × n` factor if the covariance
    /// was estimated from `n < d` rows.
    pub forms: Vec<u32>,
    /// The values of all covariances, one after the other. Form 0: `d` variances. Form 1: the lower triangle of the Cholesky
    /// factor of the covariance, column by column. Form 2: `a`, `b`, then the lower triangle of the Cholesky factor of
    /// `aI + bXXᵀ`, column by column, where the rows of `X` are the `n` training rows minus their class means, times the square
    /// roots of their sample weights.
    pub factors: Vec<f64>,
    /// The shrinkage `ρ` of each covariance.
    pub shrinkages: Vec<f64>,
    /// The training rows of covariances of form 2, `d` values each.
    pub rows: Vec<f32>,
    /// The class of each of these rows.
    pub class_of_row: Vec<u32>,
    /// The sample weight of each of these rows; `None` if all are 1.
    pub row_weights: Option<Vec<f64>>,
}

impl ClassGaussians<'_> {
    /// The bytes of the arrays of [`parts`](Self::parts). `None` if these arrays would contain training rows.
    pub(crate) fn bytes_without_rows(&self) -> Option<usize> {
        if self.covariances.need_rows() {
            return None;
        }
        let whiteners = self.covariances.whiteners();
        let factors: usize = whiteners.iter().map(Whitener::n_written).sum();
        let (means, log_weights) = (self.means.len() * self.rows.dim(), self.log_weights.len());
        let (forms, shrinkages) = (whiteners.len(), whiteners.len());
        let floats = means + log_weights + factors + shrinkages;
        Some(floats * size_of::<f64>() + forms * size_of::<u32>())
    }

    /// The mixture as plain arrays.
    #[must_use]
    pub fn parts(&self) -> GaussianParts {
        let dim = self.rows.dim();
        let (whiteners, class_of_row): (Vec<&Whitener>, Vec<u32>) = match &self.covariances {
            ClassCovariances::Tied { whitener, class_of_row, .. } => (vec![whitener], class_of_row.clone()),
            ClassCovariances::Separate { whiteners, members } => {
                let mut class_of_row = vec![0; members.iter().map(Vec::len).sum()];
                for (class, ids) in members.iter().enumerate() {
                    ids.iter().for_each(|&id| class_of_row[id as usize] = class as u32);
                }
                (whiteners.iter().collect(), class_of_row)
            }
        };
        let is_tied = matches!(self.covariances, ClassCovariances::Tied { .. });
        let needs_rows = |class: u32| whiteners[if is_tied { 0 } else { class as usize }].needs_rows();
        let ids: Vec<u32> =
            (0..class_of_row.len() as u32).filter(|&id| needs_rows(class_of_row[id as usize])).collect();
        let (mut forms, mut factors) = (vec![], vec![]);
        for whitener in &whiteners {
            forms.push(whitener.write(&mut factors));
        }
        GaussianParts {
            dim,
            means: self.means.concat(),
            log_weights: self.log_weights.clone(),
            is_tied,
            forms,
            factors,
            shrinkages: whiteners.iter().map(|whitener| whitener.shrinkage()).collect(),
            rows: self.rows.gather(&ids),
            row_weights: self.weights.as_ref().map(|of| ids.iter().map(|&id| of[id as usize]).collect()),
            class_of_row: ids.iter().map(|&id| class_of_row[id as usize]).collect(),
        }
    }
}

impl ClassGaussians<'static> {
    /// Restores a mixture. Its densities and distances equal those of the original mixture bit for bit.
    ///
    /// # Errors
    /// [`nuq_neighbors::Error::Damaged`] with the name of an array that has a wrong length or an impossible value.
    pub fn from_parts(parts: GaussianParts) -> Result<Self, Error> {
        let GaussianParts {
            dim,
            means,
            log_weights,
            is_tied,
            forms,
            factors,
            shrinkages,
            rows,
            class_of_row,
            row_weights,
        } = parts;
        let classes = log_weights.len();
        check(dim > 0 && classes > 0 && Some(means.len()) == dim.checked_mul(classes), "means", LENGTH)?;
        check(means.iter().all(|v| v.is_finite()), "means", FINITE)?;
        check(
            log_weights.iter().all(|v| v.is_finite() && *v <= 0.0),
            "log_weights",
            "a logarithm is not in (-∞, 0]",
        )?;
        let covariances = if is_tied { 1 } else { classes };
        check(forms.len() == covariances, "forms", LENGTH)?;
        check(shrinkages.len() == covariances, "shrinkages", LENGTH)?;
        check(
            shrinkages.iter().all(|rho| (0.0..=1.0).contains(rho)),
            "shrinkages",
            "a value is not in [0, 1]",
        )?;
        check(factors.iter().all(|v| v.is_finite()), "factors", FINITE)?;
        check(
            class_of_row.iter().all(|&class| (class as usize) < classes),
            "class_of_row",
            "a class number is not below the number of classes",
        )?;
        check(Some(rows.len()) == dim.checked_mul(class_of_row.len()), "rows", LENGTH)?;
        if let Some(weights) = &row_weights {
            check(weights.len() == class_of_row.len(), "row_weights", LENGTH)?;
            check(
                weights.iter().all(|w| w.is_finite() && *w > 0.0),
                "row_weights",
                "a value is not positive",
            )?;
        }
        let rows = RowSource::Matrix(Embeddings::new(rows, dim)?);
        let mut members = vec![Vec::new(); classes];
        for (row, &class) in class_of_row.iter().enumerate() {
            members[class as usize].push(row as u32);
        }
        let mut rest = &factors[..];
        let mut whiteners = Vec::with_capacity(covariances);
        for (at, (&form, &rho)) in forms.iter().zip(&shrinkages).enumerate() {
            let n = if is_tied { class_of_row.len() } else { members[at].len() };
            let whitener = Whitener::read(form, &mut rest, (dim, n), rho);
            whiteners.push(whitener.map_err(|problem| match problem {
                Unreadable::UnknownForm => {
                    damaged("forms", "a value is not 0, 1 or, with fewer rows than columns, 2")
                }
                Unreadable::TooFewValues => damaged("factors", "it has too few values"),
                Unreadable::NotPositiveDefinite => {
                    damaged("factors", "a covariance is not positive definite")
                }
            })?);
        }
        check(rest.is_empty(), "factors", LENGTH)?;
        let means: Vec<Vec<f64>> = means.chunks(dim).map(<[f64]>::to_vec).collect();
        let covariances = if is_tied {
            let whitener = whiteners.remove(0);
            let weights = row_weights.as_deref();
            let centered = AllRows { rows: &rows, class_of_row: &class_of_row, means: &means, weights };
            let whitened_means = whitened_means(&whitener, &centered);
            ClassCovariances::Tied { whitener, whitened_means, class_of_row }
        } else {
            ClassCovariances::Separate { whiteners, members }
        };
        Ok(Self { rows, means, log_weights, covariances, weights: row_weights })
    }
}

const LENGTH: &str = "it has a wrong length";
const FINITE: &str = "a value is not finite";

fn check(holds: bool, section: &str, problem: &str) -> Result<(), Error> {
    if holds { Ok(()) } else { Err(damaged(section, problem)) }
}

fn damaged(section: &str, problem: &str) -> Error {
    nuq_neighbors::Error::Damaged { section: section.to_owned(), problem: problem.to_owned() }.into()
}

#[cfg(test)]
mod tests {
    use nuq_testkit::data::{clusters, normal};

    use super::*;
    use crate::{Covariance, Shrinkage};

    fn bits(model: &ClassGaussians<'_>, queries: &Embeddings<'_>) -> Vec<u64> {
        let densities = model.log_density(queries).unwrap();
        let distances = model.nearest_sq_distance(queries).unwrap();
        densities.into_iter().chain(distances).map(f64::to_bits).collect()
    }

    #[test]
    fn a_restored_mixture_has_the_same_densities() {
        // Class 0 has fewer rows than columns, class 1 more, class 2 a single row.
        let x = normal(60, 9, 1);
        let labels: Vec<i64> = (0..60).map(|i| if i < 7 { 0 } else { 1 + i64::from(i == 30) }).collect();
        let (few, classes_of_few) = clusters(12, 20, 3, 1.0, 2);
        for (x, labels) in [(x, labels), (few, classes_of_few)] {
            let queries = normal(300, x.dim(), 3);
            for covariance in [Covariance::Full, Covariance::Tied, Covariance::Diagonal] {
                let model = ClassGaussians::fit(&x, &labels, covariance, Shrinkage::LedoitWolf).unwrap();
                let parts = model.parts();
                let restored = ClassGaussians::from_parts(parts.clone()).unwrap();
                assert_eq!(bits(&restored, &queries), bits(&model, &queries), "{covariance}");
                assert_eq!(restored.parts(), parts);
            }
        }
    }

    #[test]
    fn rows_are_kept_only_for_covariances_of_fewer_rows_than_columns() {
        let (x, y) = clusters(12, 20, 3, 1.0, 2);
        let rows =
            |covariance| ClassGaussians::fit(&x, &y, covariance, Shrinkage::LedoitWolf).unwrap().rows.len();
        assert_eq!([Covariance::Full, Covariance::Tied, Covariance::Diagonal].map(rows), [12, 12, 0]);
        let (x, y) = clusters(300, 20, 3, 1.0, 2);
        for covariance in [Covariance::Full, Covariance::Tied, Covariance::Diagonal] {
            let model = ClassGaussians::fit(&x, &y, covariance, Shrinkage::LedoitWolf).unwrap();
            assert_eq!(model.rows.len(), 0, "{covariance}");
        }
    }

    #[test]
    fn the_bytes_without_rows_are_those_of_the_stored_arrays() {
        let fit = |rows: usize, covariance| {
            let (x, y) = clusters(rows, 20, 3, 1.0, 2);
            ClassGaussians::fit(&x, &y, covariance, Shrinkage::LedoitWolf).unwrap()
        };
        for covariance in [Covariance::Full, Covariance::Tied, Covariance::Diagonal] {
            let model = fit(300, covariance);
            let GaussianParts { means, log_weights, forms, factors, shrinkages, .. } = model.parts();
            let floats: usize = [means, log_weights, factors, shrinkages].iter().map(Vec::len).sum();
            assert_eq!(model.bytes_without_rows(), Some(8 * floats + 4 * forms.len()), "{covariance}");
        }
        assert_eq!(fit(12, Covariance::Full).bytes_without_rows(), None);
    }

    #[test]
    fn impossible_parts_are_errors() {
        let (x, y) = clusters(12, 20, 3, 1.0, 2);
        let model = ClassGaussians::fit(&x, &y, Covariance::Full, Shrinkage::LedoitWolf).unwrap();
        type Change = fn(&mut GaussianParts);
        let changes: [(&str, Change); 12] = [
            ("means", |p| p.dim = 0),
            ("means", |p| p.means[3] = f64::NAN),
            ("means", |p| p.means.truncate(59)),
            ("log_weights", |p| p.log_weights[0] = 0.1),
            ("forms", |p| p.forms.truncate(2)),
            ("forms", |p| p.forms[1] = 3),
            ("factors", |p| p.forms[1] = 1),
            ("factors", |p| p.factors[0] = -1.0),
            ("factors", |p| p.factors.push(1.0)),
            ("shrinkages", |p| p.shrinkages[2] = 1.5),
            ("class_of_row", |p| p.class_of_row[0] = 3),
            ("rows", |p| p.rows.truncate(239)),
        ];
        for (i, (array, change)) in changes.into_iter().enumerate() {
            let mut parts = model.parts();
            change(&mut parts);
            let error = ClassGaussians::from_parts(parts).err().map(|error| error.to_string());
            let expected = format!("section `{array}` is damaged");
            assert!(
                error.as_ref().is_some_and(|error| error.starts_with(&expected)),
                "change {i}: {error:?}"
            );
        }
    }

    #[test]
    fn missing_values_invalid_values_and_unknown_forms_have_different_messages() {
        let (few, classes_of_few) = clusters(12, 20, 3, 1.0, 2);
        let (many, classes_of_many) = clusters(300, 20, 3, 1.0, 2);
        for (x, y, covariance, form) in [
            (&many, &classes_of_many, Covariance::Diagonal, 0),
            (&many, &classes_of_many, Covariance::Full, 1),
            (&few, &classes_of_few, Covariance::Full, 2),
        ] {
            let parts = ClassGaussians::fit(x, y, covariance, Shrinkage::LedoitWolf).unwrap().parts();
            assert_eq!(parts.forms, [form; 3]);
            let error_after = |change: fn(&mut GaussianParts)| {
                let mut parts = parts.clone();
                change(&mut parts);
                ClassGaussians::from_parts(parts).err().map(|error| error.to_string()).unwrap_or_default()
            };
            let factors = "section `factors` is damaged: ";
            let truncated = error_after(|parts| parts.factors.truncate(parts.factors.len() - 1));
            assert_eq!(truncated, format!("{factors}it has too few values"), "form {form}");
            let negative = error_after(|parts| parts.factors[0] = -1.0);
            assert_eq!(negative, format!("{factors}a covariance is not positive definite"), "form {form}");
            let unknown = error_after(|parts| parts.forms[0] = 3);
            assert!(unknown.starts_with("section `forms` is damaged: a value is not 0, 1 or"), "{unknown}");
        }
    }
}
