//! Linear algebra whose rounding does not depend on the number of threads, as the rounding of the operators of faer does.

use faer::diag::Diag;
use faer::dyn_stack::{MemBuffer, MemStack};
use faer::linalg::evd::{ComputeEigenvectors, self_adjoint_evd, self_adjoint_evd_scratch};
use faer::linalg::householder::{
    apply_block_householder_sequence_on_the_left_in_place_scratch as apply_scratch,
    apply_block_householder_sequence_on_the_left_in_place_with_conj as apply_householder,
};
use faer::linalg::matmul::matmul;
use faer::linalg::qr::no_pivoting::factor::{qr_in_place, qr_in_place_scratch, recommended_block_size};
use faer::{Accum, Conj, Mat, MatRef, Par};
use rayon::prelude::*;

use crate::cancel::ParallelCheckpoints;

/// Rows of a product that are computed by one thread.
const ROWS: usize = 256;

/// The product of two matrices.
pub(super) fn product(a: MatRef<'_, f64>, b: MatRef<'_, f64>) -> Mat<f64> {
    let of_block = |first: usize| {
        let rows = a.subrows(first, ROWS.min(a.nrows() - first));
        let mut product = Mat::zeros(rows.nrows(), b.ncols());
        matmul(&mut product, Accum::Replace, rows, b, 1.0, Par::Seq);
        product
    };
    let blocks: Vec<Mat<f64>> =
        (0..a.nrows()).into_par_iter().step_by(ROWS).with_checkpoints().map(of_block).collect();
    let mut product = Mat::zeros(a.nrows(), b.ncols());
    for (block, first) in blocks.iter().zip((0..a.nrows()).step_by(ROWS)) {
        product.subrows_mut(first, block.nrows()).copy_from(block);
    }
    product
}

/// Orthonormal columns that span the columns of a matrix with at least as many rows as columns: the factor Q of its QR decomposition.
pub(super) fn orthonormal(mut matrix: Mat<f64>) -> Mat<f64> {
    let (rows, columns) = (matrix.nrows(), matrix.ncols());
    let block = recommended_block_size::<f64>(rows, columns);
    let mut factors = Mat::zeros(block, columns);
    let scratch = qr_in_place_scratch::<f64>(rows, columns, block, Par::Seq, Default::default());
    let mut memory = MemBuffer::new(scratch);
    let stack = MemStack::new(&mut memory);
    qr_in_place(matrix.as_mut(), factors.as_mut(), Par::Seq, stack, Default::default());
    let mut q = Mat::identity(rows, columns);
    let mut memory = MemBuffer::new(apply_scratch::<f64>(rows, block, columns));
    let stack = MemStack::new(&mut memory);
    apply_householder(matrix.as_ref(), factors.as_ref(), Conj::No, q.as_mut(), Par::Seq, stack);
    q
}

/// The eigenvectors of a symmetric matrix, in ascending order of the eigenvalues; `None` if the algorithm does not converge.
pub(super) fn eigenvectors(matrix: &Mat<f64>) -> Option<Mat<f64>> {
    let n = matrix.nrows();
    let (mut values, mut vectors) = (Diag::zeros(n), Mat::zeros(n, n));
    let scratch = self_adjoint_evd_scratch::<f64>(n, ComputeEigenvectors::Yes, Par::Seq, Default::default());
    let mut memory = MemBuffer::new(scratch);
    let stack = MemStack::new(&mut memory);
    let into = Some(vectors.as_mut());
    self_adjoint_evd(matrix.as_ref(), values.as_mut(), into, Par::Seq, stack, Default::default()).ok()?;
    Some(vectors)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SeededRng;

    #[test]
    fn factors_are_orthonormal_and_span_the_columns() {
        let mut rng = SeededRng::new(1);
        let matrix = Mat::from_fn(600, 7, |_, _| rng.normal());
        let q = orthonormal(matrix.clone());
        let gram = product(q.transpose(), q.as_ref());
        assert!((gram - Mat::<f64>::identity(7, 7)).norm_l2() < 1e-12);
        let within = product(q.as_ref(), product(q.transpose(), matrix.as_ref()).as_ref());
        assert!((within - matrix).norm_l2() < 1e-12);
    }

    #[test]
    fn eigenvectors_diagonalize_and_are_in_ascending_order() {
        let mut rng = SeededRng::new(2);
        let root = Mat::from_fn(9, 6, |_, _| rng.normal());
        let matrix = product(root.transpose(), root.as_ref());
        let vectors = eigenvectors(&matrix).unwrap();
        let diagonal = product(vectors.transpose(), product(matrix.as_ref(), vectors.as_ref()).as_ref());
        for i in 0..6 {
            for j in 0..6 {
                assert!(i == j || diagonal[(i, j)].abs() < 1e-12);
            }
            assert!(i == 0 || diagonal[(i - 1, i - 1)] <= diagonal[(i, i)]);
        }
    }
}
