//! The last layer of SNGP (Liu et al. 2020) on frozen embeddings: a Gaussian process with random features and a Laplace
//! approximation of its posterior.
//!
//! `β` are the weights of a softmax regression on random features `φ`. The posterior precision `Σ⁻¹` is shared by all classes.
//! With the precision `r` of the prior, and the features `φ_i` and class probabilities `p_ic` of training row `i`:
//!
//! ```text
//! Σ⁻¹ = r I + Σ_i p̂_i (1 − p̂_i) φ_i φ_iᵀ,    p̂_i = max_c p_ic
//! ```
//!
//! The logits `βᵀ φ(x)` are divided by `√(1 + (π/8) φᵀ Σ φ)`, the mean-field approximation. The spectral normalization of SNGP
//! concerns the training of the network and is not part of this layer.

use faer::linalg::matmul::matmul;
use faer::linalg::triangular_solve::solve_lower_triangular_in_place;
use faer::{Accum, Mat, MatRef, Par, Side};
use nuq_neighbors::cancel::ParallelCheckpoints;
use nuq_neighbors::{Embeddings, SeededRng};
use rayon::prelude::*;

use super::parts::damaged;
use super::random_features::{BLOCK, RandomFeatures, median_distance};
use super::scorer::check_columns;
use super::softmax::{argmax, complement, log_sum_exp, softmax};
use super::softmax_regression::{SoftmaxRegression, max_prob_variances, weighted_gram};
use super::{BaselineParts, Batch, Input, Scorer};
use crate::Error;
use crate::error::{length_mismatch, no_spread, out_of_range};
use crate::evaluate::MethodId;
use nuq::{Classes, Label};

/// Score of the mean-field logits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SngpReduction {
    /// One minus the largest probability, `1 − max_c p_c`.
    #[default]
    MaxProb,
    /// The Dempster-Shafer metric `K / (K + Σ_c exp(z_c))` of `K` classes.
    DempsterShafer,
}

nuq_neighbors::choices!(SngpReduction, "reduction", { MaxProb => "max_prob", DempsterShafer => "dempster_shafer" });

/// Parameters of [`Sngp::fit`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SngpParams {
    /// Number of random features, at least one.
    pub features: usize,
    /// Length scale `ℓ` of the kernel, in [1e-100, 1e100]; `None` selects the median pairwise distance of training rows.
    pub length_scale: Option<f64>,
    /// Precision `r` of the prior of the weights, in [1e-12, 1e12].
    pub ridge: f64,
    /// Seed of the random features.
    pub seed: u64,
    /// Score of the mean-field logits.
    pub reduction: SngpReduction,
}

impl Default for SngpParams {
    fn default() -> Self {
        Self { features: 1024, length_scale: None, ridge: 1.0, seed: 0, reduction: SngpReduction::default() }
    }
}

/// Gaussian process with random features as the last layer.
///
/// ```
/// use nuq::Embeddings;
/// use nuq_eval::baselines::{Batch, Scorer, Sngp, SngpParams};
///
/// let train = Embeddings::from_rows(&[[0.0, 0.1], [0.1, 0.0], [0.1, 0.1], [2.0, 2.1], [2.1, 2.0], [2.1, 2.1]])?;
/// let sngp = Sngp::fit(&train, &["cat", "cat", "cat", "dog", "dog", "dog"], SngpParams::default())?;
/// let queries = Embeddings::from_rows(&[[2.0, 2.0], [40.0, -90.0]])?;
/// assert_eq!(sngp.predict(&queries)?[0], "dog");
/// let scores = sngp.score(&Batch { embeddings: Some(&queries), ..Batch::default() })?;
/// assert!(scores[1] > scores[0]);
/// # Ok::<(), nuq_eval::Error>(())
/// ```
pub struct Sngp {
    features: RandomFeatures,
    /// `β`, one column per class.
    weights: Mat<f64>,
    /// The Cholesky factor of `Σ⁻¹`.
    precision_factor: Mat<f64>,
    classes: Classes,
    params: SngpParams,
}

/// Largest number of training rows whose features are kept in memory. With more rows, a seeded sample is used, and the weights of its
/// rows are increased so that they represent all rows.
const MAX_ROWS: usize = 50_000;

impl Sngp {
    /// Fits the layer to training rows of at least two classes.
    ///
    /// # Errors
    /// No rows, a single class, unequal numbers of rows and labels, parameters out of their range, or, if no length
    /// scale is given, rows that are all equal in the sample from which it is computed.
    pub fn fit<'l, L>(rows: &Embeddings<'_>, labels: &'l [L], params: SngpParams) -> Result<Self, Error>
    where
        Label: From<&'l L>,
    {
        params.check()?;
        let (classes, class_of_row) = check_training("SNGP", rows, labels)?;
        let length_scale = match params.length_scale {
            Some(length_scale) => length_scale,
            None => median_distance(rows, params.seed)?,
        };
        let features = RandomFeatures::draw(rows, params.features, length_scale, params.seed);
        let sample = SeededRng::new(params.seed).sample(rows.len(), MAX_ROWS);
        let sample_classes: Vec<u32> = sample.iter().map(|&row| class_of_row[row as usize]).collect();
        let phi = if sample.len() < rows.len() {
            features.transform(&rows.gather(&sample))
        } else {
            features.transform(rows)
        };
        let phi = MatRef::from_column_major_slice(&phi, features.len(), sample.len());
        let row_weight = rows.len() as f64 / sample.len() as f64;
        let no_factor = || no_spread("the last layer of SNGP", rows.len());
        let weights = SoftmaxRegression::fit(phi, &sample_classes, classes.len(), row_weight, params.ridge);
        let weights = weights.ok_or_else(no_factor)?;
        let variances: Vec<f64> =
            max_prob_variances(phi, &weights).iter().map(|variance| row_weight * variance).collect();
        let precision =
            weighted_gram(phi, &variances, params.ridge).llt(Side::Lower).map_err(|_| no_factor())?;
        let precision_factor = precision.L().to_owned();
        Ok(Self { features, weights, precision_factor, classes, params })
    }

    pub(super) fn from_parts(parts: &mut BaselineParts) -> Result<Self, Error> {
        let params = SngpParams {
            features: parts.count("features")?,
            length_scale: parts.optional("length_scale", BaselineParts::number)?,
            ridge: parts.number("ridge")?,
            seed: parts.integer("seed")?,
            reduction: parts.choice("reduction")?,
        };
        params.check()?;
        let classes = parts.classes()?;
        let center = parts.vector("center")?;
        let frequencies = parts.matrix_of_shape("frequencies", params.features, center.len())?;
        let phases = parts.finite_of_shape("phases", &[params.features])?;
        let weights = parts.matrix_of_shape("weights", params.features, classes.len())?;
        let precision_factor = parts.matrix_of_shape("precision_factor", params.features, params.features)?;
        if (0..params.features).any(|j| precision_factor[(j, j)] <= 0.0) {
            return Err(damaged("precision_factor", "a value of the diagonal is not positive"));
        }
        let features = RandomFeatures::from_arrays(center, frequencies, phases);
        Ok(Self { features, weights, precision_factor, classes, params })
    }

    /// The mean-field logits of each row: one column per class, in the order of the sorted labels.
    ///
    /// # Errors
    /// Rows with another number of columns than the training rows.
    pub fn logits(&self, rows: &Embeddings<'_>) -> Result<Embeddings<'static>, Error> {
        let values = self.map_logits(rows, |z| z.iter().map(|z| *z as f32).collect::<Vec<f32>>())?;
        Ok(Embeddings::new(values.concat(), self.classes.len())?)
    }

    /// The most probable label of each row.
    ///
    /// # Errors
    /// Rows with another number of columns than the training rows.
    pub fn predict(&self, rows: &Embeddings<'_>) -> Result<Vec<&Label>, Error> {
        self.map_logits(rows, |z| self.classes.label(argmax(z)))
    }

    /// Maps the mean-field logits of each row to one value.
    fn map_logits<T: Send>(
        &self,
        rows: &Embeddings<'_>,
        function: impl Fn(&[f64]) -> T + Sync,
    ) -> Result<Vec<T>, Error> {
        check_columns(rows, self.features.dim())?;
        let map_block = |block: &[f32]| {
            let mut phi = self.features.transform_block(block);
            let mut z: Mat<f64> = Mat::zeros(self.classes.len(), BLOCK);
            matmul(&mut z, Accum::Replace, self.weights.transpose(), &phi, 1.0, Par::Seq);
            // φᵀ Σ φ = ‖L⁻¹ φ‖² with Σ⁻¹ = L Lᵀ.
            solve_lower_triangular_in_place(self.precision_factor.as_ref(), phi.as_mut(), Par::Seq);
            let variances = phi.col_iter().map(|column| column.iter().map(|v| v * v).sum::<f64>());
            let values = z.col_iter().zip(variances).map(|(z, variance)| {
                let divisor = (1.0 + std::f64::consts::FRAC_PI_8 * variance).sqrt();
                function(&z.iter().map(|z| z / divisor).collect::<Vec<f64>>())
            });
            values.take(block.len() / rows.dim()).collect::<Vec<T>>()
        };
        Ok(rows
            .as_slice()
            .par_chunks(BLOCK * rows.dim())
            .with_checkpoints()
            .flat_map_iter(map_block)
            .collect())
    }
}

impl SngpParams {
    fn check(&self) -> Result<(), Error> {
        match self.length_scale {
            _ if self.features == 0 => Err(out_of_range("features", 0.0, "at least one is needed")),
            _ if !(1e-12..=1e12).contains(&self.ridge) => {
                Err(out_of_range("ridge", self.ridge, "it must lie in [1e-12, 1e12]"))
            }
            Some(scale) if !(1e-100..=1e100).contains(&scale) => {
                Err(out_of_range("length_scale", scale, "it must lie in [1e-100, 1e100]"))
            }
            _ => Ok(()),
        }
    }
}

/// Encodes the labels. No rows, unequal lengths and a single class are errors.
pub(super) fn check_training<'l, L>(
    what: &'static str,
    rows: &Embeddings<'_>,
    labels: &'l [L],
) -> Result<(Classes, Vec<u32>), Error>
where
    Label: From<&'l L>,
{
    if rows.is_empty() {
        return Err(nuq_neighbors::Error::Empty.into());
    }
    if labels.len() != rows.len() {
        return Err(length_mismatch("labels", labels.len(), "training rows", rows.len()));
    }
    let (classes, class_of_row) = Classes::encode(labels);
    if classes.len() < 2 { Err(Error::OneClass { what }) } else { Ok((classes, class_of_row)) }
}

impl Scorer for Sngp {
    fn name(&self) -> String {
        match self.params.reduction {
            SngpReduction::MaxProb => "SNGP".to_owned(),
            SngpReduction::DempsterShafer => "SNGP, Dempster-Shafer".to_owned(),
        }
    }

    fn inputs(&self) -> &'static [Input] {
        &[Input::Embeddings]
    }

    fn score(&self, batch: &Batch<'_>) -> Result<Vec<f64>, Error> {
        let rows = batch.need_embeddings(self)?;
        let reduction = self.params.reduction;
        self.map_logits(rows, |z| match reduction {
            SngpReduction::MaxProb => {
                let p = softmax(z);
                complement(&p, argmax(&p))
            }
            SngpReduction::DempsterShafer => 1.0 / (1.0 + (log_sum_exp(z) - (z.len() as f64).ln()).exp()),
        })
    }

    fn bytes(&self) -> u64 {
        let numbers = self.weights.nrows() * self.weights.ncols() + self.precision_factor.nrows().pow(2);
        self.features.bytes() + 8 * numbers as u64
    }

    fn parts(&self) -> Option<BaselineParts> {
        let SngpParams { features, length_scale, ridge, seed, reduction } = self.params;
        let parts = BaselineParts::new(MethodId::Sngp).labels(&self.classes);
        let parts = parts.param("features", features).param("length_scale", length_scale);
        let parts = parts.param("ridge", ridge).param("seed", seed).param("reduction", reduction.name());
        let (frequencies, phases, center) = self.features.parts();
        let parts = parts.array("frequencies", frequencies).array("phases", phases.to_vec());
        let parts = parts.array("center", center.to_vec()).array("weights", &self.weights);
        Some(parts.array("precision_factor", &self.precision_factor))
    }
}

#[cfg(test)]
mod tests {
    use nuq_testkit::baselines;
    use nuq_testkit::data::{clusters, to_rows};

    use super::*;

    fn fitted(reduction: SngpReduction) -> (Sngp, Embeddings<'static>, Vec<i64>) {
        let (x, y) = clusters(150, 5, 3, 2.0, 1);
        let params = SngpParams { features: 40, ridge: 0.5, reduction, ..SngpParams::default() };
        (Sngp::fit(&x, &y, params).unwrap(), x, y)
    }

    /// The textbook implementation in `nuq-testkit`, with the weights of the fitted layer.
    fn oracle(sngp: &Sngp) -> baselines::Sngp {
        let (frequencies, phases, center) = sngp.features.parts();
        let column = |c: usize| sngp.weights.col(c).iter().copied().collect();
        baselines::Sngp {
            frequencies: frequencies.row_iter().map(|row| row.iter().copied().collect()).collect(),
            phases: phases.to_vec(),
            center: center.to_vec(),
            weights: (0..sngp.classes.len()).map(column).collect(),
            ridge: 0.5,
        }
    }

    #[test]
    fn scores_equal_their_equations() {
        let (max_prob, x, _) = fitted(SngpReduction::MaxProb);
        let (dempster, _, _) = fitted(SngpReduction::DempsterShafer);
        let oracle = oracle(&max_prob);
        let precision = oracle.precision(&to_rows(&x));
        let queries =
            Embeddings::new([x.row(3), &[9.0; 5], &[-1e3, 0.5, 0.0, 2.0, 1e3]].concat(), 5).unwrap();
        let batch = Batch { embeddings: Some(&queries), ..Batch::default() };
        let (max_probs, dempsters) = (max_prob.score(&batch).unwrap(), dempster.score(&batch).unwrap());
        for (i, q) in to_rows(&queries).iter().enumerate() {
            let z = oracle.logits(&precision, q);
            let pairs =
                [(max_probs[i], baselines::max_prob(&z)), (dempsters[i], baselines::dempster_shafer(&z))];
            for (ours, expected) in pairs {
                assert!(
                    (ours - expected).abs() < 1e-10 * expected,
                    "row {i}: {ours:e}, expected {expected:e}"
                );
            }
        }
    }

    #[test]
    fn the_gradient_vanishes_at_the_fitted_weights() {
        let (sngp, x, y) = fitted(SngpReduction::MaxProb);
        let oracle = oracle(&sngp);
        let phi: Vec<Vec<f64>> = to_rows(&x).iter().map(|row| oracle.features(row)).collect();
        let truth: Vec<usize> = y.iter().map(|class| *class as usize).collect();
        let (_, gradient) = baselines::softmax_loss(&phi, &truth, &oracle.weights, 0.5);
        let norm = gradient.iter().flatten().map(|g| g * g).sum::<f64>().sqrt();
        assert!(norm <= 1.01e-3 * 0.5, "{norm:e}");
    }

    #[test]
    fn a_fit_to_weighted_rows_equals_a_fit_to_repeated_rows() {
        let (x, y) = clusters(60, 3, 2, 1.0, 2);
        let features = RandomFeatures::draw(&x, 16, 2.0, 0);
        let class_of_row: Vec<u32> = y.iter().map(|class| *class as u32).collect();
        let features_twice = [features.transform(&x), features.transform(&x)].concat();
        let classes_twice = [&class_of_row[..], &class_of_row].concat();
        let phi = MatRef::from_column_major_slice(&features_twice, 16, 120);
        let repeated = SoftmaxRegression::fit(phi, &classes_twice, 2, 1.0, 1.0).unwrap();
        let weighted = SoftmaxRegression::fit(phi.subcols(0, 60), &class_of_row, 2, 2.0, 1.0).unwrap();
        assert!((repeated - weighted).norm_l2() < 2e-3);
    }
}
