//! Seeded data with known structure.

use nuq_neighbors::{Embeddings, SeededRng};

/// `rows` standard normal rows of `dim` columns.
pub fn normal(rows: usize, dim: usize, seed: u64) -> Embeddings<'static> {
    let mut rng = SeededRng::new(seed);
    let values = (0..rows * dim).map(|_| rng.normal() as f32).collect();
    Embeddings::new(values, dim).expect("normal draws are finite")
}

/// One normal cluster of unit variance per class; row `i` has class `i % classes`. The centers are drawn from a normal
/// distribution with standard deviation `spread`.
pub fn clusters(
    rows: usize,
    dim: usize,
    classes: usize,
    spread: f64,
    seed: u64,
) -> (Embeddings<'static>, Vec<i64>) {
    let mut rng = SeededRng::new(seed);
    let centers: Vec<f64> = (0..classes * dim).map(|_| spread * rng.normal()).collect();
    let labels: Vec<i64> = (0..rows).map(|i| (i % classes) as i64).collect();
    let mut values = Vec::with_capacity(rows * dim);
    for &class in &labels {
        let center = &centers[class as usize * dim..][..dim];
        values.extend(center.iter().map(|c| (c + rng.normal()) as f32));
    }
    (Embeddings::new(values, dim).expect("normal draws are finite"), labels)
}

/// The rows as vectors of `f64`, the input of the oracle.
pub fn to_rows(embeddings: &Embeddings<'_>) -> Vec<Vec<f64>> {
    embeddings.rows().map(|row| row.iter().map(|&v| f64::from(v)).collect()).collect()
}

/// Two Gaussian classes whose means are two standard deviations apart. All rows lie in a subspace of dimension `latent`. The posterior is
/// known.
#[derive(Clone, Copy)]
pub struct TwoGaussians {
    /// The dimension of the subspace.
    pub latent: usize,
    /// The number of columns.
    pub dim: usize,
}

impl TwoGaussians {
    /// A sample of `n` rows with their labels and `P(y = 1 | x)`.
    pub fn sample(self, n: usize, seed: u64) -> (Embeddings<'static>, Vec<i64>, Vec<f64>) {
        let mut rng = SeededRng::new(seed);
        // A Householder reflection is orthogonal: distances do not change, and no column is constant.
        let mut axis: Vec<f64> = (0..self.dim).map(|j| ((j * j) as f64 + 1.0).sin()).collect();
        let length = axis.iter().map(|v| v * v).sum::<f64>().sqrt();
        axis.iter_mut().for_each(|v| *v /= length);
        let (mut values, mut labels, mut posterior) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..n {
            let label = i64::from(rng.uniform() < 0.5);
            let mut row: Vec<f64> =
                (0..self.dim).map(|j| if j < self.latent { rng.normal() } else { 0.0 }).collect();
            row[0] += if label == 1 { 1.0 } else { -1.0 };
            labels.push(label);
            posterior.push(1.0 / (1.0 + (-2.0 * row[0]).exp()));
            if self.dim > self.latent {
                let along: f64 = row.iter().zip(&axis).map(|(x, a)| x * a).sum();
                row.iter_mut().zip(&axis).for_each(|(x, a)| *x -= 2.0 * along * a);
            }
            values.extend(row.iter().map(|&x| x as f32));
        }
        (Embeddings::new(values, self.dim).expect("normal draws are finite"), labels, posterior)
    }
}

/// A binary problem in one dimension with a known posterior: three normal components, of which the middle one is class 1.
pub struct Mixture;

impl Mixture {
    /// Weight, mean, standard deviation and class of each component.
    const COMPONENTS: [(f64, f64, f64, i64); 3] =
        [(0.35, -2.0, 0.8, 0), (0.4, 0.0, 1.0, 1), (0.25, 2.2, 0.7, 0)];

    /// A sample of `n` points and labels.
    pub fn sample(n: usize, seed: u64) -> (Embeddings<'static>, Vec<i64>) {
        let mut rng = SeededRng::new(seed);
        let (mut values, mut labels) = (Vec::with_capacity(n), Vec::with_capacity(n));
        for _ in 0..n {
            let mut u = rng.uniform();
            let component = Self::COMPONENTS
                .iter()
                .find(|c| {
                    u -= c.0;
                    u < 0.0
                })
                .unwrap_or(&Self::COMPONENTS[2]);
            values.push((component.1 + component.2 * rng.normal()) as f32);
            labels.push(component.3);
        }
        (Embeddings::new(values, 1).expect("normal draws are finite"), labels)
    }

    /// The true probability of class 1 at `x`.
    pub fn eta(x: f64) -> f64 {
        let (mut ones, mut all) = (0.0, 0.0);
        for (weight, mean, deviation, class) in Self::COMPONENTS {
            let density = weight / deviation * (-0.5 * ((x - mean) / deviation).powi(2)).exp();
            all += density;
            ones += density * class as f64;
        }
        ones / all
    }
}
