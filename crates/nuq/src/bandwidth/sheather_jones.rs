//! The improved Sheather-Jones bandwidth of Botev, Grotowski and Kroese (Annals of Statistics 38, 2010).
//!
//! The data have `N` distinct values. They are binned on a grid over an interval of length `R` and expanded in cosines
//! with coefficients `a_k`. Let `‖f⁽ˢ⁾‖²` be the squared norm of the s-th derivative of the density, smoothed by
//! diffusion for a time `t` (that is, with a Gaussian kernel of standard deviation `R √t`). The norm of order s = 7 is
//! estimated at time t. Then, for s = 6, …, 2, the norm of order s + 1 gives the time t_s at which the norm of order s is
//! estimated:
//!
//! ```text
//! ‖f⁽ˢ⁾‖² = π^(2s)/2 · Σ_{k≥1} k^(2s) a_k² e^(−k²π²t)
//! t_s     = ( (1 + 2^(−s−1/2))/3 · (2s−1)!! / (N √(π/2) ‖f⁽ˢ⁺¹⁾‖²) )^(2/(3+2s))
//! ```
//!
//! The norm of order 2 gives the optimal time `(2 N √π ‖f⁽²⁾‖²)^(−2/5)`. The optimal time is a function of `t`, and its
//! fixed point is computed by bisection. The bandwidth is `R √t` at this fixed point.

use std::f64::consts::PI;

use nuq_neighbors::cancel::checkpoint;

const BINS: usize = 1024;
/// The highest order `s` of the norms.
const STAGES: i32 = 7;

/// The bandwidth of one column. `None` if the column is empty or constant, or if the fixed point does not exist. The fixed
/// point may not exist if there are few points.
///
/// If the column is multiplied by a factor, the bandwidth is multiplied by the same factor.
#[must_use]
pub fn improved_sheather_jones(column: &[f64]) -> Option<f64> {
    let (low, high) = range(column)?;
    let border = 0.5 * (high - low);
    Some((high - low + 2.0 * border) * diffusion_time(column, low - border, high + border)?.sqrt())
}

/// The bandwidth that KDEpy 1.1 computes for the same column. The NUQ package of the paper's authors uses KDEpy.
///
/// It differs from [`improved_sheather_jones`] in two ways: the grid extends at least 6 beyond the data on both sides,
/// whatever the unit of measurement is, and the time is scaled by the range of the data instead of the range of the
/// grid. Therefore this bandwidth depends on the unit of measurement, and is about half as large or smaller. It is
/// provided to reproduce results of the NUQ package.
#[must_use]
pub fn improved_sheather_jones_kdepy(column: &[f64]) -> Option<f64> {
    let (low, high) = range(column)?;
    let border = (0.5 * (high - low)).max(6.0);
    Some((high - low) * diffusion_time(column, low - border, high + border)?.sqrt())
}

fn range(column: &[f64]) -> Option<(f64, f64)> {
    let low = column.iter().copied().fold(f64::INFINITY, f64::min);
    let high = column.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    (low < high).then_some((low, high))
}

/// The fixed point `t` on a grid from `start` to `end`, in units of the squared length of the grid.
fn diffusion_time(column: &[f64], start: f64, end: f64) -> Option<f64> {
    checkpoint();
    let mut distinct = column.to_vec();
    distinct.sort_unstable_by(f64::total_cmp);
    distinct.dedup();
    let points = distinct.len() as f64;
    let power = cosine_power(&bin(column, start, end));
    let excess = |t: f64| {
        checkpoint();
        t - optimal_time(&power, points, t)
    };
    // The search interval of Botev's code, doubled until it contains a root.
    let mut high = 1e-11 + 0.01 * (points.clamp(50.0, 1050.0) - 50.0) / 1000.0;
    while excess(high) <= 0.0 || excess(high).is_nan() {
        high *= 2.0;
        if high >= 1.0 {
            return None;
        }
    }
    let mut low = 0.0;
    while high - low > 1e-15 * high {
        let middle = 0.5 * (low + high);
        if middle <= low || middle >= high {
            break;
        }
        if excess(middle) > 0.0 { high = middle } else { low = middle }
    }
    (low > 0.0).then_some(high)
}

/// The share of the data at each grid point; each value is split between its two nearest grid points.
fn bin(column: &[f64], start: f64, end: f64) -> Vec<f64> {
    let step = (end - start) / (BINS - 1) as f64;
    let share = 1.0 / column.len() as f64;
    let mut bins = vec![0.0; BINS];
    for x in column {
        let at = (x - start) / step;
        let left = (at.floor() as usize).min(BINS - 2);
        let right_part = at - left as f64;
        bins[left] += share * (1.0 - right_part);
        bins[left + 1] += share * right_part;
    }
    bins
}

/// `a_k²` for `k = 1, 2, …` with `a_k = 2 Σ_i p_i cos(πk(2i+1)/2n)`. `bins` are the shares `p_i` at the `n` grid points.
fn cosine_power(bins: &[f64]) -> Vec<f64> {
    let n = bins.len();
    let cosines: Vec<f64> = (0..4 * n).map(|m| (PI * m as f64 / (2 * n) as f64).cos()).collect();
    let filled: Vec<(usize, f64)> = bins.iter().copied().enumerate().filter(|(_, p)| *p > 0.0).collect();
    let coefficient =
        |k: usize| filled.iter().map(|&(i, p)| 2.0 * p * cosines[k * (2 * i + 1) % (4 * n)]).sum::<f64>();
    (1..n).map(|k| coefficient(k).powi(2)).collect()
}

/// The optimal time for a density that is smoothed for time `t`.
fn optimal_time(power: &[f64], points: f64, t: f64) -> f64 {
    let sq_norm = |stage: i32, t: f64| {
        let term = |(k, a2): (usize, &f64)| {
            let k2 = ((k + 1) * (k + 1)) as f64;
            k2.powi(stage) * a2 * (-k2 * PI * PI * t).exp()
        };
        0.5 * PI.powi(2 * stage) * power.iter().enumerate().map(term).sum::<f64>()
    };
    let mut norm = sq_norm(STAGES, t);
    for stage in (2..STAGES).rev() {
        let s = f64::from(stage);
        let odd_product: f64 = (1..=stage).map(|i| f64::from(2 * i - 1)).product();
        let constant = (1.0 + 0.5f64.powf(s + 0.5)) / 3.0;
        let time =
            (2.0 * constant * odd_product / ((2.0 * PI).sqrt() * points * norm)).powf(2.0 / (3.0 + 2.0 * s));
        norm = sq_norm(stage, time);
    }
    (2.0 * points * PI.sqrt() * norm).powf(-0.4)
}

#[cfg(test)]
mod tests {
    use super::*;
    use nuq_neighbors::SeededRng;

    fn normal_sample(n: usize, unit: f64) -> Vec<f64> {
        let mut rng = SeededRng::new(2);
        (0..n).map(|_| unit * rng.normal()).collect()
    }

    #[test]
    fn the_bandwidth_of_a_normal_sample_is_near_the_optimum() {
        // The optimum for the normal density is (4/3n)^(1/5).
        let h = improved_sheather_jones(&normal_sample(4000, 1.0)).unwrap();
        let best = (4.0 / 12_000.0f64).powf(0.2);
        assert!((h / best - 1.0).abs() < 0.15, "{h} {best}");
    }

    #[test]
    fn the_bandwidth_scales_with_the_unit_of_measurement() {
        let h = improved_sheather_jones(&normal_sample(500, 1.0)).unwrap();
        for unit in [1e-6, 1e3] {
            let scaled = improved_sheather_jones(&normal_sample(500, unit)).unwrap() / unit;
            assert!((scaled / h - 1.0).abs() < 1e-9, "{unit}");
        }
    }

    #[test]
    fn two_modes_give_a_smaller_bandwidth_than_silverman() {
        let mut column = normal_sample(1000, 1.0);
        column.iter_mut().skip(500).for_each(|x| *x += 50.0);
        let h = improved_sheather_jones(&column).unwrap();
        assert!(h < 0.1 * crate::bandwidth::silverman(&column).unwrap());
    }

    #[test]
    fn constant_and_empty_columns_have_no_bandwidth() {
        assert_eq!(improved_sheather_jones(&[3.0; 10]), None);
        assert_eq!(improved_sheather_jones(&[]), None);
    }
}
