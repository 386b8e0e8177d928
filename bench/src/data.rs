//! Synthetic embeddings: clustered data of low intrinsic dimension. A latent point near the center of its class is mapped linearly
//! into d dimensions, and noise is added.

use nuq_neighbors::{Embeddings, SeededRng};
use rayon::prelude::*;

const LATENT: usize = 32;

/// Generator of data sets. The same seed gives the same classes.
pub(crate) struct Source {
    dim: usize,
    classes: usize,
    latent: usize,
    /// The linear map into the columns: one row of `dim` values per latent dimension.
    map: Vec<f32>,
    /// The center of each class: `latent` values per class.
    centers: Vec<f32>,
    spread: f32,
    /// Width of the interval around zero from which the noise of each value is drawn uniformly.
    noise_range: f32,
}

impl Source {
    /// A generator with 32 latent dimensions.
    pub(crate) fn new(dim: usize, classes: usize, seed: u64) -> Self {
        Self::with_latent(LATENT, dim, classes, seed)
    }

    pub(crate) fn with_latent(latent: usize, dim: usize, classes: usize, seed: u64) -> Self {
        let mut rng = SeededRng::new(seed);
        let mut normals = |n: usize| (0..n).map(|_| rng.normal() as f32).collect::<Vec<f32>>();
        let map = normals(latent * dim).iter().map(|v| v / (latent as f32).sqrt()).collect();
        let centers = normals(classes * latent);
        Self { dim, classes, latent, map, centers, spread: 0.7, noise_range: 0.3 }
    }

    /// Standard deviation of points around their center. The centers have a standard deviation of 1 in each latent dimension.
    pub(crate) fn spread(mut self, spread: f32) -> Self {
        self.spread = spread;
        self
    }

    /// Standard deviation of the noise in each column.
    pub(crate) fn noise(mut self, noise: f32) -> Self {
        self.noise_range = noise * 12f32.sqrt();
        self
    }

    /// The number of columns.
    pub(crate) fn dim(&self) -> usize {
        self.dim
    }

    /// Draws `rows` embeddings with labels.
    pub(crate) fn draw(&self, rows: usize, seed: u64) -> (Embeddings<'static>, Vec<i64>) {
        let mut values = vec![0f32; rows * self.dim];
        values.par_chunks_mut(self.dim).enumerate().for_each(|(i, row)| {
            let mut rng = SeededRng::new(seed.wrapping_mul(0x9E37_79B9).wrapping_add(i as u64));
            let center = &self.centers[i % self.classes * self.latent..][..self.latent];
            for (c, map) in center.iter().zip(self.map.chunks_exact(self.dim)) {
                let z = c + self.spread * rng.normal() as f32;
                row.iter_mut().zip(map).for_each(|(x, m)| *x += z * m);
            }
            row.iter_mut().for_each(|x| *x += self.noise_range * (rng.uniform() as f32 - 0.5));
        });
        let labels = (0..rows).map(|i| (i % self.classes) as i64).collect();
        (Embeddings::new(values, self.dim).expect("finite draws"), labels)
    }
}

/// Independent standard normal values.
pub(crate) fn normal(rows: usize, dim: usize, seed: u64) -> Embeddings<'static> {
    drawn(rows, dim, seed, SeededRng::normal)
}

/// Independent values between 0 and 1.
pub(crate) fn uniform(rows: usize, dim: usize, seed: u64) -> Embeddings<'static> {
    drawn(rows, dim, seed, SeededRng::uniform)
}

fn drawn(rows: usize, dim: usize, seed: u64, draw: fn(&mut SeededRng) -> f64) -> Embeddings<'static> {
    let mut rng = SeededRng::new(seed);
    let values = (0..rows * dim).map(|_| draw(&mut rng) as f32).collect();
    Embeddings::new(values, dim).expect("finite draws")
}
