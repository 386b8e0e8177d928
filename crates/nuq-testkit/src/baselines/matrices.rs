//! Linear algebra of small matrices by elimination and rotations.

/// Solves `A X = B` by elimination with the largest pivot of each column.
pub(super) fn solve(mut a: Vec<Vec<f64>>, mut b: Vec<Vec<f64>>) -> Vec<Vec<f64>> {
    let n = a.len();
    for k in 0..n {
        let pivot = (k..n).max_by(|&i, &j| a[i][k].abs().total_cmp(&a[j][k].abs())).expect("k < n");
        a.swap(k, pivot);
        b.swap(k, pivot);
        for i in (0..n).filter(|&i| i != k) {
            let factor = a[i][k] / a[k][k];
            let (row, right) = (a[k].clone(), b[k].clone());
            a[i].iter_mut().zip(row).for_each(|(v, p)| *v -= factor * p);
            b[i].iter_mut().zip(right).for_each(|(v, p)| *v -= factor * p);
        }
    }
    for k in 0..n {
        let pivot = a[k][k];
        b[k].iter_mut().for_each(|v| *v /= pivot);
    }
    b
}

/// `uᵀ v`.
pub(super) fn dot(u: &[f64], v: &[f64]) -> f64 {
    u.iter().zip(v).map(|(a, b)| a * b).sum()
}

/// `‖v‖`.
pub(super) fn norm(v: &[f64]) -> f64 {
    dot(v, v).sqrt()
}

/// Rotates pairs of rows until all are orthogonal (Hestenes 1958). The result is `σ_i v_iᵀ`, the singular values and
/// right singular vectors of the matrix. The first `carried` columns are rotated too, but do not determine the angles.
pub(super) fn orthogonal_rows(mut rows: Vec<Vec<f64>>, carried: usize) -> Vec<Vec<f64>> {
    let scale: f64 = rows.iter().map(|row| norm(&row[carried..]).powi(2)).sum();
    let mut is_rotated = true;
    while is_rotated {
        is_rotated = false;
        for i in 1..rows.len() {
            for j in 0..i {
                let (head, tail) = rows.split_at_mut(i);
                is_rotated |= rotate(&mut head[j], &mut tail[0], carried, 1e-28 * scale);
            }
        }
    }
    rows
}

/// Rotates two rows so that they are orthogonal. Does nothing and returns `false` if they already are orthogonal up to
/// rounding, or if the squared norm of one row is at most `negligible`.
fn rotate(a: &mut [f64], b: &mut [f64], carried: usize, negligible: f64) -> bool {
    let (u, v) = (&a[carried..], &b[carried..]);
    let (uu, vv, uv) = (dot(u, u), dot(v, v), dot(u, v));
    if uu <= negligible || vv <= negligible || uv.abs() <= 1e-13 * (uu * vv).sqrt() {
        return false;
    }
    let (sin, cos) = (0.5 * (2.0 * uv).atan2(uu - vv)).sin_cos();
    for (x, y) in a.iter_mut().zip(b) {
        (*x, *y) = (cos * *x + sin * *y, cos * *y - sin * *x);
    }
    true
}
