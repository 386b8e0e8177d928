//! Synthetic embeddings: clustered data of low intrinsic dimension. A 32-dimensional latent point near the center of its class is
//! mapped linearly into d dimensions, and noise is added.

use nuq_neighbors::{Embeddings, SeededRng};
use rayon::prelude::*;

const LATENT: usize = 32;

/// Generator of data sets. The same seed gives the same classes.
pub(crate) struct Source {
    dim: usize,
    classes: usize,
    map: Vec<f32>,
    centers: Vec<f32>,
    spread: f32,
}

impl Source {
    pub(crate) fn new(dim: usize, classes: usize, seed: u64) -> Self {
        let mut rng = SeededRng::new(seed);
        let mut normals = |n: usize| (0..n).map(|_| rng.normal() as f32).collect::<Vec<f32>>();
        let map = normals(LATENT * dim).iter().map(|v| v / (LATENT as f32).sqrt()).collect();
        Self { dim, classes, map, centers: normals(classes * LATENT), spread: 0.7 }
    }

    /// Standard deviation of points around their center. The centers have a standard deviation of 1 in each latent dimension.
    pub(crate) fn spread(mut self, spread: f32) -> Self {
        self.spread = spread;
        self
    }

    /// Draws `rows` embeddings with labels.
    pub(crate) fn draw(&self, rows: usize, seed: u64) -> (Embeddings<'static>, Vec<i64>) {
        let mut values = vec![0f32; rows * self.dim];
        values.par_chunks_mut(self.dim).enumerate().for_each(|(i, row)| {
            let mut rng = SeededRng::new(seed.wrapping_mul(0x9E37_79B9).wrapping_add(i as u64));
            let center = &self.centers[i % self.classes * LATENT..][..LATENT];
            for (c, map) in center.iter().zip(self.map.chunks_exact(self.dim)) {
                let z = c + self.spread * rng.normal() as f32;
                row.iter_mut().zip(map).for_each(|(x, m)| *x += z * m);
            }
            row.iter_mut().for_each(|x| *x += 0.3 * (rng.uniform() as f32 - 0.5));
        });
        let labels = (0..rows).map(|i| (i % self.classes) as i64).collect();
        (Embeddings::new(values, self.dim).expect("finite draws"), labels)
    }
}
