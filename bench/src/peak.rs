//! Peak rate of fused multiply-adds of the machine.

/// GFLOP/s of `f32` with the widest multiply-add of the processor, the best of three short runs on all threads of the pool; `None`
/// if the processor is not supported.
pub(crate) fn fma_gflops() -> Option<f64> {
    #[cfg(target_arch = "x86_64")]
    {
        if is_x86_feature_detected!("avx512f") {
            // SAFETY: the processor has AVX-512F, the only feature that the function requires.
            return Some(measure(16, |rounds| unsafe { multiply_add_avx512(rounds) }));
        }
        if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
            // SAFETY: the processor has AVX2 and FMA, the only features that the function requires.
            return Some(measure(8, |rounds| unsafe { multiply_add_avx2(rounds) }));
        }
    }
    None
}

/// Number of independent chains of multiply-adds, which hides their latency.
#[cfg(target_arch = "x86_64")]
const CHAINS: usize = 12;

#[cfg(target_arch = "x86_64")]
fn measure(width: usize, chains: impl Fn(usize) -> f32 + Sync) -> f64 {
    use std::hint::black_box;
    use std::time::Instant;
    const ROUNDS: usize = 40_000_000;
    let run = || {
        let start = Instant::now();
        rayon::broadcast(|_| black_box(chains(black_box(ROUNDS))));
        let operations = rayon::current_num_threads() * ROUNDS * CHAINS * width * 2;
        operations as f64 / start.elapsed().as_secs_f64() / 1e9
    };
    (0..3).map(|_| run()).fold(0.0, f64::max)
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
fn multiply_add_avx2(rounds: usize) -> f32 {
    use std::arch::x86_64::{_mm256_add_ps, _mm256_cvtss_f32, _mm256_fmadd_ps, _mm256_set1_ps};
    let mut sums = [_mm256_set1_ps(1.0); CHAINS];
    let (factor, term) = (_mm256_set1_ps(1.000_000_1), _mm256_set1_ps(1e-9));
    for _ in 0..rounds {
        for sum in &mut sums {
            *sum = _mm256_fmadd_ps(*sum, factor, term);
        }
    }
    _mm256_cvtss_f32(sums.into_iter().reduce(|a, b| _mm256_add_ps(a, b)).expect("CHAINS is not zero"))
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
fn multiply_add_avx512(rounds: usize) -> f32 {
    use std::arch::x86_64::{_mm512_add_ps, _mm512_cvtss_f32, _mm512_fmadd_ps, _mm512_set1_ps};
    let mut sums = [_mm512_set1_ps(1.0); CHAINS];
    let (factor, term) = (_mm512_set1_ps(1.000_000_1), _mm512_set1_ps(1e-9));
    for _ in 0..rounds {
        for sum in &mut sums {
            *sum = _mm512_fmadd_ps(*sum, factor, term);
        }
    }
    _mm512_cvtss_f32(sums.into_iter().reduce(|a, b| _mm512_add_ps(a, b)).expect("CHAINS is not zero"))
}
