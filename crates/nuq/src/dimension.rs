//! How many dimensions the data really have.
//!
//! Embeddings lie near a surface of few dimensions $m$. The maximum-likelihood estimate of Levina and Bickel
//! (2004), with the harmonic mean over points of MacKay and Ghahramani (2005), reads $m$ off the growth of
//! neighbor distances $T_1 \le \dots \le T_k$:
//!
//! $$\hat m^{-1} = \frac{1}{n (k-1)} \sum_{i=1}^{n} \sum_{j=1}^{k-1} \ln \frac{T_k(x_i)}{T_j(x_i)}$$

use nuq_neighbors::{Neighbors, choices};

/// Which $d$ stands in the constants $R(k)^d$, $h^d$ and $(2\pi)^{d/2}$.
///
/// It shifts $\ln U_e$ by a constant, so no ranking changes; it decides what the total uncertainty, the reject
/// rule and the numbers people read mean. Product kernels and Gaussian class densities live in all coordinates
/// and use [`Ambient`](Dimension::Ambient) whatever is set here; a fitted model says which number it used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Dimension {
    /// The dimension estimated from the data, at most the number of columns.
    #[default]
    Intrinsic,
    /// The number of columns, as the paper has it.
    Ambient,
}

choices!(Dimension, "dimension", { Intrinsic => "intrinsic", Ambient => "ambient" });

/// The estimate from a leave-one-out table, at most `ambient`. Duplicates (zero distances) say nothing about
/// growth and are passed over; where nothing is left, the answer is `ambient`.
pub(crate) fn intrinsic_dimension(neighbors: &Neighbors, ambient: usize) -> f64 {
    let (mut sum, mut terms) = (0.0, 0u64);
    for i in 0..neighbors.len() {
        let sq = neighbors.sq_distances(i);
        let Some((&last, nearer)) = sq.split_last() else { continue };
        for &nearer in nearer.iter().filter(|&&sq| sq > 0.0) {
            sum += 0.5 * (last.ln() - nearer.ln());
            terms += 1;
        }
    }
    if sum > 0.0 { (terms as f64 / sum).min(ambient as f64) } else { ambient as f64 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nuq_neighbors::{Embeddings, ExactIndex, NeighborIndex, SeededRng};

    #[test]
    fn a_plane_in_fifty_dimensions_has_two() {
        let mut rng = SeededRng::new(4);
        let axes: Vec<f32> = (0..100).map(|_| rng.normal() as f32).collect();
        let mut values = Vec::new();
        for _ in 0..2000 {
            let (u, v) = (rng.uniform() as f32, rng.uniform() as f32);
            values.extend((0..50).map(|j| u * axes[j] + v * axes[50 + j]));
        }
        let x = Embeddings::new(values, 50).unwrap();
        let ids: Vec<u32> = (0..2000).collect();
        let table = ExactIndex::new(&x).unwrap().leave_one_out(&ids, 20).unwrap();
        let m = intrinsic_dimension(&table, 50);
        assert!((m - 2.0).abs() < 0.15, "{m}");
    }

    #[test]
    fn equal_distances_fall_back_to_the_columns() {
        let table = Neighbors::new(2, vec![0, 1], vec![1.0, 1.0]).unwrap();
        assert_eq!(intrinsic_dimension(&table, 7), 7.0);
    }

    #[test]
    fn by_hand() {
        // One point, T = (1, e): 1/m = ln(e/1) / 1.
        let table = Neighbors::new(2, vec![0, 1], vec![1.0, 1f64.exp().powi(2)]).unwrap();
        assert!((intrinsic_dimension(&table, 7) - 1.0).abs() < 1e-15);
    }
}
