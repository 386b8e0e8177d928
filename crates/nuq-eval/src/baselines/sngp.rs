//! SNGP's last layer (Liu et al. 2020) on frozen embeddings: a Gaussian process by random features, with Laplace's
//! approximation of its posterior.
//!
//! Weights $\beta$ of a softmax regression on random features $\phi$ have the posterior precision
//!
//! $$\Sigma^{-1} = r I + \sum_i \hat p_i (1 - \hat p_i)\, \phi_i \phi_i^\top, \qquad \hat p_i = \max_c p_{ic}$$
//!
//! shared by all classes, and logits $z = \beta^\top \phi(x)$ are damped by what it leaves open (the mean-field approximation):
//! $z / \sqrt{1 + \frac{\pi}{8} \phi^\top \Sigma \phi}$. The spectral normalization, SNGP's other half, belongs to the network and is
//! no business of its last layer.

use faer::linalg::matmul::matmul;
use faer::linalg::triangular_solve::solve_lower_triangular_in_place;
use faer::{Accum, Mat, MatRef, Par, Side};
use nuq_neighbors::{Embeddings, SeededRng};
use rayon::prelude::*;

use super::random_features::{BLOCK, RandomFeatures, median_distance};
use super::scorer::check_columns;
use super::softmax::{first_largest, log_sum_exp, others, softmax};
use super::softmax_regression::{SoftmaxRegression, spreads, weighted_gram};
use super::{Batch, Input, Scorer};
use crate::Error;
use crate::error::{length_mismatch, out_of_range};
use nuq::{Classes, Label};

/// What is read off the damped logits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SngpScore {
    /// $1 - \max_c p_c$.
    #[default]
    MaxProb,
    /// Dempster and Shafer's $K / (K + \sum_c e^{z_c})$ of $K$ classes.
    DempsterShafer,
}

/// How the layer is fitted.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SngpParams {
    /// The number of random features, $D$.
    pub features: usize,
    /// The length scale $\ell$ of the kernel; by default the median distance of training rows.
    pub length_scale: Option<f64>,
    /// The precision $r$ of the prior of the weights.
    pub ridge: f64,
    /// The seed of the features.
    pub seed: u64,
    /// What is read off the damped logits.
    pub score: SngpScore,
}

impl Default for SngpParams {
    fn default() -> Self {
        Self { features: 1024, length_scale: None, ridge: 1.0, seed: 0, score: SngpScore::default() }
    }
}

/// A Gaussian process by random features, as a last layer.
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
    /// $\beta$, a column per class.
    weights: Mat<f64>,
    /// Cholesky's factor of $\Sigma^{-1}$.
    precision: Mat<f64>,
    classes: Classes,
    score: SngpScore,
}

/// Of more training rows a seeded sample stands for all: their features would fill the memory.
const MOST_ROWS: usize = 50_000;

impl Sngp {
    /// Fits the layer to training rows of at least two classes.
    pub fn fit<'l, L>(rows: &Embeddings<'_>, labels: &'l [L], params: SngpParams) -> Result<Self, Error>
    where
        Label: From<&'l L>,
    {
        params.check()?;
        let (classes, of_row) = check_training("SNGP", rows, labels)?;
        let length_scale = match params.length_scale {
            Some(given) => given,
            None => median_distance(rows, params.seed)?,
        };
        let features = RandomFeatures::draw(rows, params.features, length_scale, params.seed);
        let sample = SeededRng::new(params.seed).sample(rows.len(), MOST_ROWS);
        let of_sample: Vec<u32> = sample.iter().map(|&row| of_row[row as usize]).collect();
        let phi =
            if sample.len() < rows.len() { features.of(&rows.gather(&sample)) } else { features.of(rows) };
        let phi = MatRef::from_column_major_slice(&phi, features.len(), sample.len());
        let times = rows.len() as f64 / sample.len() as f64;
        let no_factor = || Error::from(nuq::Error::NoSpread { rows: rows.len() });
        let weights = SoftmaxRegression::fit(phi, &of_sample, classes.len(), times, params.ridge);
        let weights = weights.ok_or_else(no_factor)?;
        let spread: Vec<f64> = spreads(phi, &weights).iter().map(|spread| times * spread).collect();
        let precision =
            weighted_gram(phi, &spread, params.ridge).llt(Side::Lower).map_err(|_| no_factor())?;
        Ok(Self { features, weights, precision: precision.L().to_owned(), classes, score: params.score })
    }

    /// The damped logits of each row: a column per class, in the order of the sorted labels.
    pub fn logits(&self, rows: &Embeddings<'_>) -> Result<Embeddings<'static>, Error> {
        let values = self.each_row(rows, |z| z.iter().map(|z| *z as f32).collect::<Vec<f32>>())?;
        Ok(Embeddings::new(values.concat(), self.classes.len())?)
    }

    /// The likeliest label of each row.
    pub fn predict(&self, rows: &Embeddings<'_>) -> Result<Vec<&Label>, Error> {
        self.each_row(rows, |z| self.classes.label(first_largest(z)))
    }

    /// What `read` finds in the damped logits of each row.
    fn each_row<T: Send>(
        &self,
        rows: &Embeddings<'_>,
        read: impl Fn(&[f64]) -> T + Sync,
    ) -> Result<Vec<T>, Error> {
        check_columns(rows, self.features.dim())?;
        let of_block = |block: &[f32]| {
            let mut phi = self.features.of_block(block);
            let mut z: Mat<f64> = Mat::zeros(self.classes.len(), BLOCK);
            matmul(&mut z, Accum::Replace, self.weights.transpose(), &phi, 1.0, Par::Seq);
            // φᵀ Σ φ = ‖L⁻¹ φ‖² with Σ⁻¹ = L Lᵀ.
            solve_lower_triangular_in_place(self.precision.as_ref(), phi.as_mut(), Par::Seq);
            let open = phi.col_iter().map(|column| column.iter().map(|v| v * v).sum::<f64>());
            let damped = z.col_iter().zip(open).map(|(z, open)| {
                let by = (1.0 + std::f64::consts::FRAC_PI_8 * open).sqrt();
                read(&z.iter().map(|z| z / by).collect::<Vec<f64>>())
            });
            damped.take(block.len() / rows.dim()).collect::<Vec<T>>()
        };
        Ok(rows.as_slice().par_chunks(BLOCK * rows.dim()).flat_map_iter(of_block).collect())
    }
}

impl SngpParams {
    fn check(&self) -> Result<(), Error> {
        let usable = |value: f64| (1e-100..=1e100).contains(&value);
        match self.length_scale {
            _ if self.features == 0 => Err(out_of_range("random features", 0.0, "at least one is needed")),
            _ if !(1e-12..=1e12).contains(&self.ridge) => {
                Err(out_of_range("ridge", self.ridge, "it must lie in [1e-12, 1e12]"))
            }
            Some(scale) if !usable(scale) => {
                Err(out_of_range("length scale", scale, "it must be positive and finite (1e-100 to 1e100)"))
            }
            _ => Ok(()),
        }
    }
}

/// Refuses training rows of which a head cannot learn to tell classes apart.
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
    let (classes, of_row) = Classes::encode(labels);
    if classes.len() < 2 { Err(Error::OneClass { what }) } else { Ok((classes, of_row)) }
}

impl Scorer for Sngp {
    fn name(&self) -> String {
        match self.score {
            SngpScore::MaxProb => "SNGP".to_owned(),
            SngpScore::DempsterShafer => "SNGP, Dempster-Shafer".to_owned(),
        }
    }

    fn inputs(&self) -> &'static [Input] {
        &[Input::Embeddings]
    }

    fn score(&self, batch: &Batch<'_>) -> Result<Vec<f64>, Error> {
        let rows = batch.need_embeddings(self)?;
        let score = self.score;
        self.each_row(rows, |z| match score {
            SngpScore::MaxProb => {
                let p = softmax(z);
                others(&p, first_largest(&p))
            }
            SngpScore::DempsterShafer => 1.0 / (1.0 + (log_sum_exp(z) - (z.len() as f64).ln()).exp()),
        })
    }

    fn bytes(&self) -> u64 {
        let numbers = self.weights.nrows() * self.weights.ncols() + self.precision.nrows().pow(2);
        self.features.bytes() + 8 * numbers as u64
    }
}

#[cfg(test)]
mod tests {
    use nuq_testkit::data::{clusters, to_rows};
    use nuq_testkit::rivals;

    use super::*;

    fn fitted(score: SngpScore) -> (Sngp, Embeddings<'static>, Vec<i64>) {
        let (x, y) = clusters(150, 5, 3, 2.0, 1);
        let params = SngpParams { features: 40, ridge: 0.5, score, ..SngpParams::default() };
        (Sngp::fit(&x, &y, params).unwrap(), x, y)
    }

    /// The oracle with what the layer learned.
    fn oracle(sngp: &Sngp) -> rivals::Sngp {
        let (frequencies, phases, center) = sngp.features.parts();
        let column = |c: usize| sngp.weights.col(c).iter().copied().collect();
        rivals::Sngp {
            frequencies: frequencies.row_iter().map(|row| row.iter().copied().collect()).collect(),
            phases: phases.to_vec(),
            center: center.to_vec(),
            weights: (0..sngp.classes.len()).map(column).collect(),
            ridge: 0.5,
        }
    }

    #[test]
    fn scores_are_their_equations() {
        let (max_prob, x, _) = fitted(SngpScore::MaxProb);
        let (dempster, _, _) = fitted(SngpScore::DempsterShafer);
        let oracle = oracle(&max_prob);
        let precision = oracle.precision(&to_rows(&x));
        let queries =
            Embeddings::new([x.row(3), &[9.0; 5], &[-1e3, 0.5, 0.0, 2.0, 1e3]].concat(), 5).unwrap();
        let batch = Batch { embeddings: Some(&queries), ..Batch::default() };
        let (p, shares) = (max_prob.score(&batch).unwrap(), dempster.score(&batch).unwrap());
        for (i, q) in to_rows(&queries).iter().enumerate() {
            let z = oracle.logits(&precision, q);
            for (ours, theirs) in [(p[i], rivals::max_prob(&z)), (shares[i], rivals::dempster_shafer(&z))] {
                assert!((ours - theirs).abs() < 1e-10 * theirs, "row {i}: {ours:e} and {theirs:e}");
            }
        }
    }

    #[test]
    fn weights_are_at_the_minimum() {
        let (sngp, x, y) = fitted(SngpScore::MaxProb);
        let oracle = oracle(&sngp);
        let phi: Vec<Vec<f64>> = to_rows(&x).iter().map(|row| oracle.features(row)).collect();
        let truth: Vec<usize> = y.iter().map(|class| *class as usize).collect();
        let (_, gradient) = rivals::softmax_loss(&phi, &truth, &oracle.weights, 0.5);
        let norm = gradient.iter().flatten().map(|g| g * g).sum::<f64>().sqrt();
        assert!(norm <= 1.01e-3 * 0.5, "{norm:e}");
    }

    #[test]
    fn a_sample_stands_for_all_rows_as_if_each_counted_as_often() {
        // Each row twice, or each row counted twice.
        let (x, y) = clusters(60, 3, 2, 1.0, 2);
        let features = RandomFeatures::draw(&x, 16, 2.0, 0);
        let of_row: Vec<u32> = y.iter().map(|class| *class as u32).collect();
        let twice = [features.of(&x), features.of(&x)].concat();
        let both = [&of_row[..], &of_row].concat();
        let phi = MatRef::from_column_major_slice(&twice, 16, 120);
        let whole = SoftmaxRegression::fit(phi, &both, 2, 1.0, 1.0).unwrap();
        let sample = SoftmaxRegression::fit(phi.subcols(0, 60), &of_row, 2, 2.0, 1.0).unwrap();
        assert!((whole - sample).norm_l2() < 2e-3);
    }
}
