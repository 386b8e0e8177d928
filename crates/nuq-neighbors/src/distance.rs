//! The squared distance by which neighbors are ranked: direct differences, summed in `f64` in a fixed order.
//!
//! `‖x‖² + ‖y‖² − 2 x·y` is faster but suffers from cancellation; it is only used to select candidates. The direct
//! sum depends on the two rows alone, not on the block, thread, shard or instruction set: all platforms use eight
//! lanes and no fused multiply-add. The results of exact search are therefore equal bit for bit on all platforms.

const LANES: usize = 8;

/// The squared Euclidean distance `Σ_j (a_j − b_j)²`.
///
/// # Panics
/// When the rows have different lengths.
///
/// ```
/// assert_eq!(nuq_neighbors::sq_distance(&[0.0, 3.0], &[4.0, 0.0]), 25.0);
/// ```
#[must_use]
pub fn sq_distance(a: &[f32], b: &[f32]) -> f64 {
    assert_eq!(a.len(), b.len(), "both rows have the same dimension");
    if a.len() < LANES {
        return sq_distance_short(a, b);
    }
    #[cfg(target_arch = "x86_64")]
    {
        if is_x86_feature_detected!("avx512f") {
            // SAFETY: the processor supports AVX-512F, the only requirement of the function.
            return unsafe { sq_distance_avx512(a, b) };
        }
        if is_x86_feature_detected!("avx2") {
            // SAFETY: the processor supports AVX2, the only requirement of the function.
            return unsafe { sq_distance_avx2(a, b) };
        }
    }
    sq_distance_lanes(a, b)
}

/// The scaled squared distance `Σ_j ((a_j − b_j) / s_j)²`.
///
/// # Panics
/// When the lengths differ.
pub fn scaled_sq_distance(a: &[f32], b: &[f32], scale: &[f64]) -> f64 {
    assert!(a.len() == b.len() && a.len() == scale.len(), "rows and scale have the same dimension");
    let mut sums = [0f64; LANES];
    for (j, ((x, y), s)) in a.iter().zip(b).zip(scale).enumerate() {
        let difference = (f64::from(*x) - f64::from(*y)) / s;
        sums[j % LANES] += difference * difference;
    }
    add_lanes(&sums)
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
fn sq_distance_avx512(a: &[f32], b: &[f32]) -> f64 {
    sq_distance_lanes(a, b)
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn sq_distance_avx2(a: &[f32], b: &[f32]) -> f64 {
    sq_distance_lanes(a, b)
}

#[inline(always)]
fn sq_distance_lanes(a: &[f32], b: &[f32]) -> f64 {
    let (a_chunks, a_rest) = a.as_chunks::<LANES>();
    let (b_chunks, b_rest) = b.as_chunks::<LANES>();
    let mut sums = [0f64; LANES];
    for (x, y) in a_chunks.iter().zip(b_chunks) {
        add_squares(&mut sums, x, y);
    }
    for (sum, (x, y)) in sums.iter_mut().zip(a_rest.iter().zip(b_rest)) {
        let difference = f64::from(*x) - f64::from(*y);
        *sum += difference * difference;
    }
    add_lanes(&sums)
}

/// As [`sq_distance_lanes`], for rows that have fewer columns than lanes. There is one function for each number of columns, so that
/// the sums are kept in registers.
fn sq_distance_short(a: &[f32], b: &[f32]) -> f64 {
    fn of<const N: usize>(a: &[f32], b: &[f32]) -> f64 {
        let mut sums = [0f64; LANES];
        for j in 0..N {
            let difference = f64::from(a[j]) - f64::from(b[j]);
            sums[j] += difference * difference;
        }
        add_lanes(&sums)
    }
    match a.len() {
        0 => 0.0,
        1 => of::<1>(a, b),
        2 => of::<2>(a, b),
        3 => of::<3>(a, b),
        4 => of::<4>(a, b),
        5 => of::<5>(a, b),
        6 => of::<6>(a, b),
        _ => of::<7>(a, b),
    }
}

#[inline(always)]
fn add_squares(sums: &mut [f64; LANES], x: &[f32; LANES], y: &[f32; LANES]) {
    for lane in 0..LANES {
        let difference = f64::from(x[lane]) - f64::from(y[lane]);
        sums[lane] += difference * difference;
    }
}

fn add_lanes(s: &[f64; LANES]) -> f64 {
    ((s[0] + s[4]) + (s[2] + s[6])) + ((s[1] + s[5]) + (s[3] + s[7]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SeededRng;

    #[test]
    fn all_instruction_sets_give_the_same_bits() {
        let mut rng = SeededRng::new(1);
        for dim in (1..=9).chain([64, 513]) {
            let mut draw = || (0..dim).map(|_| rng.normal() as f32).collect::<Vec<_>>();
            let (a, b) = (draw(), draw());
            assert_eq!(sq_distance(&a, &b).to_bits(), sq_distance_lanes(&a, &b).to_bits());
            let unit = vec![1.0; dim];
            assert_eq!(sq_distance(&a, &b).to_bits(), scaled_sq_distance(&a, &b, &unit).to_bits());
        }
    }

    #[test]
    fn extreme_values_neither_overflow_nor_underflow() {
        assert_eq!(sq_distance(&[3e38], &[-3e38]), (2.0 * f64::from(3e38f32)).powi(2));
        assert!(sq_distance(&[1e-45], &[0.0]) > 0.0);
    }
}
