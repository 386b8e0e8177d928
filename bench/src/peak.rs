//! What the machine can do at most: fused multiply-adds on every thread.

use std::hint::black_box;
use std::time::Instant;

/// Billions of `f32` operations a second, the best of three short runs on all threads of the pool. `None` where the
/// processor's widest multiply-add is not known here.
pub(crate) fn fma_gflops() -> Option<f64> {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
        const ROUNDS: usize = 40_000_000;
        let threads = rayon::current_num_threads();
        let run = || {
            let start = Instant::now();
            rayon::broadcast(|_| {
                // SAFETY: the processor has AVX2 and FMA, which is all that the function asks for.
                black_box(unsafe { multiply_add(black_box(ROUNDS)) })
            });
            (threads * ROUNDS * CHAINS * 16) as f64 / start.elapsed().as_secs_f64() / 1e9
        };
        return Some((0..3).map(|_| run()).fold(0.0, f64::max));
    }
    None
}

/// Independent chains of 8-wide multiply-adds: enough to hide the latency of each.
#[cfg(target_arch = "x86_64")]
const CHAINS: usize = 12;

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
fn multiply_add(rounds: usize) -> f32 {
    use std::arch::x86_64::{_mm256_add_ps, _mm256_cvtss_f32, _mm256_fmadd_ps, _mm256_set1_ps};
    let mut sums = [_mm256_set1_ps(1.0); CHAINS];
    let (factor, term) = (_mm256_set1_ps(1.000_000_1), _mm256_set1_ps(1e-9));
    for _ in 0..rounds {
        for sum in &mut sums {
            *sum = _mm256_fmadd_ps(*sum, factor, term);
        }
    }
    _mm256_cvtss_f32(sums.into_iter().reduce(|a, b| _mm256_add_ps(a, b)).expect("some chains"))
}
