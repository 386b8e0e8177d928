//! Class Gaussians by their definition, with full matrices and elementwise sums.

use std::f64::consts::PI;

use crate::oracle::log_sum_exp;

/// The shape of the covariances.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Shape {
    /// One matrix per class.
    Full,
    /// One matrix for all classes, computed from all rows around their class means.
    Tied,
    /// One diagonal per class.
    Diagonal,
}

/// Log density of each query. A `shrinkage` of `None` selects the shrinkage of Ledoit and Wolf.
pub fn log_density(
    x: &[Vec<f64>],
    y: &[usize],
    classes: usize,
    shape: Shape,
    shrinkage: Option<f64>,
    queries: &[Vec<f64>],
) -> Vec<f64> {
    let d = x[0].len();
    let members = |class: usize| -> Vec<&Vec<f64>> {
        x.iter().zip(y).filter(|(_, label)| **label == class).map(|(row, _)| row).collect()
    };
    let means: Vec<Vec<f64>> = (0..classes).map(|class| mean(&members(class))).collect();
    let centered: Vec<Vec<f64>> =
        x.iter().zip(y).map(|(row, &c)| (0..d).map(|j| row[j] - means[c][j]).collect()).collect();
    let mean_variance =
        |rows: &[Vec<f64>]| rows.iter().flatten().map(|v| v * v).sum::<f64>() / (x.len() * d) as f64;
    // The variance of a class whose rows are all equal.
    let pooled = match mean_variance(&centered) {
        0.0 => {
            let center = mean(&x.iter().collect::<Vec<_>>());
            mean_variance(
                &x.iter().map(|row| (0..d).map(|j| row[j] - center[j]).collect()).collect::<Vec<_>>(),
            )
        }
        within => within,
    };
    let covariance = |rows: &[Vec<f64>]| covariance(rows, shape == Shape::Diagonal, shrinkage, pooled);
    let factors: Vec<Vec<Vec<f64>>> = match shape {
        Shape::Tied => vec![cholesky(covariance(&centered))],
        _ => (0..classes)
            .map(|class| {
                let rows: Vec<Vec<f64>> =
                    centered.iter().zip(y).filter(|(_, c)| **c == class).map(|(r, _)| r.clone()).collect();
                cholesky(covariance(&rows))
            })
            .collect(),
    };
    let log_density = |q: &Vec<f64>| {
        let terms: Vec<f64> = (0..classes)
            .map(|class| {
                let factor = &factors[class.min(factors.len() - 1)];
                let u: Vec<f64> = (0..d).map(|j| q[j] - means[class][j]).collect();
                let solved = forward(factor, &u);
                let sq: f64 = solved.iter().map(|v| v * v).sum();
                let log_det: f64 = (0..d).map(|j| 2.0 * factor[j][j].ln()).sum();
                let weight = members(class).len() as f64 / x.len() as f64;
                weight.ln() - 0.5 * (d as f64 * (2.0 * PI).ln() + log_det + sq)
            })
            .collect();
        log_sum_exp(&terms)
    };
    queries.iter().map(log_density).collect()
}

/// The shrunk covariance of centered rows, or `fallback` times the identity if all rows are zero.
pub(crate) fn covariance(
    rows: &[Vec<f64>],
    diagonal: bool,
    shrinkage: Option<f64>,
    fallback: f64,
) -> Vec<Vec<f64>> {
    let d = rows[0].len();
    if rows.iter().flatten().all(|v| *v == 0.0) {
        return (0..d).map(|i| (0..d).map(|j| if i == j { fallback } else { 0.0 }).collect()).collect();
    }
    shrunk(rows, diagonal, shrinkage)
}

pub(crate) fn mean(rows: &[&Vec<f64>]) -> Vec<f64> {
    (0..rows[0].len()).map(|j| rows.iter().map(|r| r[j]).sum::<f64>() / rows.len() as f64).collect()
}

/// `(1 − ρ) S + ρ t I` with the covariance S and the mean t of its diagonal. ρ is `shrinkage`. If `shrinkage` is
/// `None`, ρ is the value of Ledoit and Wolf, computed as a ratio of two sums over matrix entries.
fn shrunk(rows: &[Vec<f64>], diagonal: bool, shrinkage: Option<f64>) -> Vec<Vec<f64>> {
    let (n, d) = (rows.len() as f64, rows[0].len());
    let is_used = |i: usize, j: usize| !diagonal || i == j;
    let mut s = vec![vec![0.0; d]; d];
    for row in rows {
        for i in 0..d {
            for j in (0..d).filter(|&j| is_used(i, j)) {
                s[i][j] += row[i] * row[j] / n;
            }
        }
    }
    let t = (0..d).map(|j| s[j][j]).sum::<f64>() / d as f64;
    let (mut noise, mut signal) = (0.0, 0.0);
    for i in 0..d {
        for j in (0..d).filter(|&j| is_used(i, j)) {
            signal += (s[i][j] - if i == j { t } else { 0.0 }).powi(2);
            noise += rows.iter().map(|r| (r[i] * r[j] - s[i][j]).powi(2)).sum::<f64>() / (n * n);
        }
    }
    let rho = shrinkage.unwrap_or(if signal > 0.0 { (noise / signal).clamp(1e-6, 1.0) } else { 1.0 });
    for (i, row) in s.iter_mut().enumerate() {
        row.iter_mut().for_each(|v| *v *= 1.0 - rho);
        row[i] += rho * t;
    }
    s
}

/// The lower Cholesky factor, row by row.
pub(crate) fn cholesky(mut a: Vec<Vec<f64>>) -> Vec<Vec<f64>> {
    for i in 0..a.len() {
        for j in 0..=i {
            let (head, tail) = a.split_at_mut(i);
            let other: &[f64] = if j < i { &head[j] } else { &tail[0].clone() };
            let dot: f64 = (0..j).map(|k| tail[0][k] * other[k]).sum();
            let rest = tail[0][j] - dot;
            tail[0][j] = if i == j { rest.sqrt() } else { rest / other[j] };
        }
    }
    a
}

/// Solves `L v = u` by forward substitution.
pub(crate) fn forward(l: &[Vec<f64>], u: &[f64]) -> Vec<f64> {
    let mut v: Vec<f64> = Vec::with_capacity(u.len());
    for i in 0..u.len() {
        let dot: f64 = (0..i).map(|k| l[i][k] * v[k]).sum();
        v.push((u[i] - dot) / l[i][i]);
    }
    v
}
