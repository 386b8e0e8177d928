//! The intrinsic dimension of the data.
//!
//! Embeddings often lie near a surface of low dimension `m`. The maximum-likelihood estimate of Levina and Bickel
//! (2004), averaged over points by the harmonic mean as proposed by MacKay and Ghahramani (2005), is computed from
//! neighbor distances `T_1 ≤ … ≤ T_k`:
//!
//! ```text
//! 1/m = 1/(n (k−1)) Σ_{i=1..n} Σ_{j=1..k−1} ln T_k(x_i)/T_j(x_i)
//! ```

use nuq_neighbors::Neighbors;

/// The estimate from the neighbors of left-out rows, at most `ambient`, the number of columns. Zero distances (duplicates)
/// are skipped. The result is `ambient` if no distance remains, or if all distances of each row are equal.
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
    fn a_plane_in_fifty_columns_has_dimension_two() {
        let mut rng = SeededRng::new(4);
        let axes: Vec<f32> = (0..100).map(|_| rng.normal() as f32).collect();
        let mut values = Vec::new();
        for _ in 0..2000 {
            let (u, v) = (rng.uniform() as f32, rng.uniform() as f32);
            values.extend((0..50).map(|j| u * axes[j] + v * axes[50 + j]));
        }
        let x = Embeddings::new(values, 50).unwrap();
        let ids: Vec<u32> = (0..2000).collect();
        let neighbors = ExactIndex::new(&x).unwrap().leave_one_out(&ids, 20).unwrap();
        let m = intrinsic_dimension(&neighbors, 50);
        assert!((m - 2.0).abs() < 0.15, "{m}");
    }

    #[test]
    fn equal_distances_give_the_number_of_columns() {
        let neighbors = Neighbors::new(2, vec![0, 1], vec![1.0, 1.0]).unwrap();
        assert_eq!(intrinsic_dimension(&neighbors, 7), 7.0);
    }

    #[test]
    fn one_point_matches_a_manual_calculation() {
        // One point, T = (1, e): 1/m = ln(e/1) / 1.
        let neighbors = Neighbors::new(2, vec![0, 1], vec![1.0, 1f64.exp().powi(2)]).unwrap();
        assert!((intrinsic_dimension(&neighbors, 7) - 1.0).abs() < 1e-15);
    }
}
