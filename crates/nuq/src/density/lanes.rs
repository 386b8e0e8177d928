//! Sums over pairs of values in eight independent lanes, which the compiler turns into vector instructions. The order of the
//! additions is fixed, so that results do not depend on the machine.

const LANES: usize = 8;

/// `‖a − b‖²`.
pub(super) fn sq_distance(a: &[f64], b: &[f64]) -> f64 {
    sum_by_lanes(a, b, |a, b| (a - b) * (a - b))
}

/// `‖a‖²`.
pub(super) fn sq_norm(a: &[f64]) -> f64 {
    sum_by_lanes(a, a, |a, b| a * b)
}

/// `‖a‖²` of single precision values.
pub(super) fn sq_norm_f32(a: &[f32]) -> f64 {
    sum_by_lanes(a, a, |a, b| f64::from(a) * f64::from(b))
}

#[inline]
fn sum_by_lanes<T: Copy>(a: &[T], b: &[T], term: impl Fn(T, T) -> f64) -> f64 {
    let ((a, a_rest), (b, b_rest)) = (a.as_chunks::<LANES>(), b.as_chunks::<LANES>());
    let mut sums = [0.0; LANES];
    for (a, b) in a.iter().zip(b) {
        for lane in 0..LANES {
            sums[lane] += term(a[lane], b[lane]);
        }
    }
    let rest: f64 = a_rest.iter().zip(b_rest).map(|(&a, &b)| term(a, b)).sum();
    sums.iter().sum::<f64>() + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_of_every_length_equal_direct_sums() {
        for n in 0..35 {
            let a: Vec<f64> = (0..n).map(|i| f64::from(i) - 3.0).collect();
            let b: Vec<f64> = (0..n).map(|i| 2.0 * f64::from(i)).collect();
            let f32s: Vec<f32> = a.iter().map(|&v| v as f32).collect();
            let norm: f64 = a.iter().map(|v| v * v).sum();
            assert_eq!(sq_distance(&a, &b), a.iter().zip(&b).map(|(a, b)| (a - b).powi(2)).sum::<f64>());
            assert_eq!((sq_norm(&a), sq_norm_f32(&f32s)), (norm, norm));
        }
    }
}
