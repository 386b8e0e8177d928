//! Squared distances in `f32`, as fast as the processor allows: what a graph search spends its time on.
//!
//! They only steer the walk; what is returned is measured again in `f64`. The widest instruction set is chosen once,
//! when an index is made.

/// A squared distance of two rows of one length.
pub(super) type Distance = fn(&[f32], &[f32]) -> f32;

/// The fastest distance on this processor.
pub(super) fn fastest() -> Distance {
    #[cfg(target_arch = "x86_64")]
    {
        if is_x86_feature_detected!("avx512f") {
            // SAFETY: the processor has AVX-512F, which is all that the function asks for.
            return |a, b| unsafe { x86::avx512(a, b) };
        }
        if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
            // SAFETY: the processor has AVX2 and FMA, which is all that the function asks for.
            return |a, b| unsafe { x86::avx2(a, b) };
        }
    }
    portable
}

/// Sixteen running sums, which any compiler turns into the vectors of its target (NEON among them).
pub(super) fn portable(a: &[f32], b: &[f32]) -> f32 {
    let (a_chunks, a_rest) = a.as_chunks::<16>();
    let (b_chunks, b_rest) = b.as_chunks::<16>();
    let mut sums = [0f32; 16];
    for (x, y) in a_chunks.iter().zip(b_chunks) {
        for lane in 0..16 {
            let difference = x[lane] - y[lane];
            sums[lane] += difference * difference;
        }
    }
    let rest: f32 = a_rest.iter().zip(b_rest).map(|(x, y)| (x - y) * (x - y)).sum();
    sums.iter().sum::<f32>() + rest
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::{
        _mm256_add_ps, _mm256_fmadd_ps, _mm256_loadu_ps, _mm256_setzero_ps, _mm256_storeu_ps, _mm256_sub_ps,
        _mm512_add_ps, _mm512_fmadd_ps, _mm512_loadu_ps, _mm512_reduce_add_ps, _mm512_setzero_ps,
        _mm512_sub_ps,
    };

    #[target_feature(enable = "avx512f")]
    pub(super) fn avx512(a: &[f32], b: &[f32]) -> f32 {
        let (a_chunks, a_rest) = a.as_chunks::<64>();
        let (b_chunks, b_rest) = b.as_chunks::<64>();
        let mut sums = [_mm512_setzero_ps(); 4];
        for (x, y) in a_chunks.iter().zip(b_chunks) {
            for (i, sum) in sums.iter_mut().enumerate() {
                // SAFETY: sixteen floats from 16 i on lie within the chunks of 64.
                let (x, y) = unsafe {
                    (_mm512_loadu_ps(x.as_ptr().add(16 * i)), _mm512_loadu_ps(y.as_ptr().add(16 * i)))
                };
                let difference = _mm512_sub_ps(x, y);
                *sum = _mm512_fmadd_ps(difference, difference, *sum);
            }
        }
        let sum = _mm512_add_ps(_mm512_add_ps(sums[0], sums[1]), _mm512_add_ps(sums[2], sums[3]));
        _mm512_reduce_add_ps(sum) + super::portable(a_rest, b_rest)
    }

    #[target_feature(enable = "avx2,fma")]
    pub(super) fn avx2(a: &[f32], b: &[f32]) -> f32 {
        let (a_chunks, a_rest) = a.as_chunks::<32>();
        let (b_chunks, b_rest) = b.as_chunks::<32>();
        let mut sums = [_mm256_setzero_ps(); 4];
        for (x, y) in a_chunks.iter().zip(b_chunks) {
            for (i, sum) in sums.iter_mut().enumerate() {
                // SAFETY: eight floats from 8 i on lie within the chunks of 32.
                let (x, y) = unsafe {
                    (_mm256_loadu_ps(x.as_ptr().add(8 * i)), _mm256_loadu_ps(y.as_ptr().add(8 * i)))
                };
                let difference = _mm256_sub_ps(x, y);
                *sum = _mm256_fmadd_ps(difference, difference, *sum);
            }
        }
        let sum = _mm256_add_ps(_mm256_add_ps(sums[0], sums[1]), _mm256_add_ps(sums[2], sums[3]));
        let mut lanes = [0f32; 8];
        // SAFETY: the array holds the eight floats that are stored.
        unsafe { _mm256_storeu_ps(lanes.as_mut_ptr(), sum) };
        lanes.iter().sum::<f32>() + super::portable(a_rest, b_rest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{SeededRng, sq_distance};

    #[test]
    fn every_leaf_agrees_with_the_direct_sum() {
        let mut leaves: Vec<(&str, Distance)> = vec![("portable", portable), ("fastest", fastest())];
        #[cfg(target_arch = "x86_64")]
        if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
            // SAFETY: the processor has AVX2 and FMA.
            leaves.push(("avx2", |a, b| unsafe { x86::avx2(a, b) }));
        }
        let mut rng = SeededRng::new(3);
        for dim in [1, 15, 16, 31, 32, 33, 64, 100, 512, 777] {
            let mut draw = || (0..dim).map(|_| rng.normal() as f32).collect::<Vec<_>>();
            let (a, b) = (draw(), draw());
            let exact = sq_distance(&a, &b);
            for (name, leaf) in &leaves {
                let error = (f64::from(leaf(&a, &b)) - exact).abs();
                assert!(error <= 1e-6 * dim as f64 * exact, "{name} d={dim}: {error}");
            }
        }
    }
}
