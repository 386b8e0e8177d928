//! Distance kernels: the squared distances of one row to a list of rows, with the SIMD instructions of the processor.
//!
//! One call measures a whole list: the kernel is selected once per list, and the next rows are prefetched while one is
//! measured. Distances of codes are sums of integers and equal on every processor.
//!
//! The distance functions require two rows of equal length. Each function asserts it, because some read as many
//! elements of the second row as the first row has, without a bounds check.

use super::vectors::{CodeBlock, DistanceKernel, Half};

/// The number of rows between the row that is prefetched and the row that is measured.
pub(super) const PREFETCH_DISTANCE: usize = 8;

/// Defines a kernel from the distance of two rows. The loop over the list is compiled with the same target features, so
/// that the distance is inlined into it.
macro_rules! kernel {
    ($(#[$feature:meta])* $name:ident, $element:ty, $distance:path) => {
        $(#[$feature])*
        pub(super) fn $name(query: &[$element], rows: &[$element], ids: &[u32], distances: &mut [f32]) {
            let row = |id: u32| &rows[id as usize * query.len()..][..query.len()];
            for (i, (&id, distance)) in ids.iter().zip(distances).enumerate() {
                if let Some(&next) = ids.get(i + super::PREFETCH_DISTANCE) {
                    super::prefetch(row(next));
                }
                *distance = $distance(query, row(id));
            }
        }
    };
}

#[cfg(target_arch = "aarch64")]
mod neon;
mod portable;
#[cfg(target_arch = "x86_64")]
mod x86;

/// The kernel for codes.
pub(super) fn code_kernel() -> DistanceKernel<CodeBlock> {
    #[cfg(target_arch = "x86_64")]
    {
        if is_x86_feature_detected!("avx512bw") && is_x86_feature_detected!("avx512vnni") {
            // SAFETY: the processor supports AVX-512F, BW and VNNI, the only requirements of the function.
            return |q, rows, ids, out| unsafe { x86::codes_vnni(q, rows, ids, out) };
        }
        if is_x86_feature_detected!("avx2") {
            // SAFETY: the processor supports AVX2, the only requirement of the function.
            return |q, rows, ids, out| unsafe { x86::codes_avx2(q, rows, ids, out) };
        }
    }
    #[cfg(target_arch = "aarch64")]
    return neon::codes;
    #[cfg(not(target_arch = "aarch64"))]
    portable::codes
}

/// The kernel for halves (`f16`).
pub(super) fn half_kernel() -> DistanceKernel<Half> {
    #[cfg(target_arch = "x86_64")]
    {
        if is_x86_feature_detected!("avx512f") {
            // SAFETY: the processor supports AVX-512F, the only requirement of the function.
            return |q, rows, ids, out| unsafe { x86::halves_avx512(q, rows, ids, out) };
        }
        if is_x86_feature_detected!("avx2")
            && is_x86_feature_detected!("fma")
            && is_x86_feature_detected!("f16c")
        {
            // SAFETY: the processor supports AVX2, FMA and F16C, the only requirements of the function.
            return |q, rows, ids, out| unsafe { x86::halves_avx2(q, rows, ids, out) };
        }
    }
    portable::halves
}

/// The kernel for floats.
pub(super) fn float_kernel() -> DistanceKernel<f32> {
    #[cfg(target_arch = "x86_64")]
    {
        if is_x86_feature_detected!("avx512f") {
            // SAFETY: the processor supports AVX-512F, the only requirement of the function.
            return |q, rows, ids, out| unsafe { x86::floats_avx512(q, rows, ids, out) };
        }
        if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
            // SAFETY: the processor supports AVX2 and FMA, the only requirements of the function.
            return |q, rows, ids, out| unsafe { x86::floats_avx2(q, rows, ids, out) };
        }
    }
    #[cfg(target_arch = "aarch64")]
    return neon::floats;
    #[cfg(not(target_arch = "aarch64"))]
    portable::floats
}

/// Calls the kernel for codes, for benchmarks.
pub fn code_distances(query: &[CodeBlock], rows: &[CodeBlock], ids: &[u32], distances: &mut [f32]) {
    code_kernel()(query, rows, ids, distances);
}

/// Calls the kernel for halves, for benchmarks.
pub fn half_distances(query: &[u16], rows: &[u16], ids: &[u32], distances: &mut [f32]) {
    half_kernel()(query, rows, ids, distances);
}

/// Calls the kernel for floats, for benchmarks.
pub fn float_distances(query: &[f32], rows: &[f32], ids: &[u32], distances: &mut [f32]) {
    float_kernel()(query, rows, ids, distances);
}

/// Prefetches the first 512 bytes of a row; the hardware prefetcher loads the rest.
#[inline(always)]
pub(crate) fn prefetch<T>(row: &[T]) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        for byte in (0..size_of_val(row).min(512)).step_by(64) {
            // SAFETY: the address is inside the slice, and a prefetch has no effect on program state.
            unsafe { _mm_prefetch(row.as_ptr().cast::<i8>().add(byte), _MM_HINT_T0) };
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = row;
}

#[cfg(test)]
mod tests {
    use super::super::vectors::halves;
    use super::*;
    use crate::{SeededRng, sq_distance};

    /// The kernels of one element type, by name: the selected kernel, the portable kernel and the kernel for AVX2.
    fn all<T>(
        selected: DistanceKernel<T>,
        portable: DistanceKernel<T>,
        avx2: Option<DistanceKernel<T>>,
    ) -> Vec<(&'static str, DistanceKernel<T>)> {
        let mut kernels = vec![("selected", selected), ("portable", portable)];
        kernels.extend(avx2.map(|kernel| ("avx2", kernel)));
        kernels
    }

    #[cfg(target_arch = "x86_64")]
    fn has_avx2() -> bool {
        is_x86_feature_detected!("avx2")
            && is_x86_feature_detected!("fma")
            && is_x86_feature_detected!("f16c")
    }

    macro_rules! avx2 {
        ($name:ident) => {{
            #[cfg(target_arch = "x86_64")]
            {
                // SAFETY: returned only when the processor supports AVX2, FMA and F16C.
                let kernel: DistanceKernel<_> = |q, rows, ids, out| unsafe { x86::$name(q, rows, ids, out) };
                has_avx2().then_some(kernel)
            }
            #[cfg(not(target_arch = "x86_64"))]
            None
        }};
    }

    fn measure<T>(kernel: DistanceKernel<T>, query: &[T], rows: &[T]) -> Vec<f32> {
        let ids: Vec<u32> = (0..(rows.len() / query.len()) as u32).rev().collect();
        let mut distances = vec![f32::NAN; ids.len()];
        kernel(query, rows, &ids, &mut distances);
        distances.reverse();
        distances
    }

    #[test]
    fn float_and_half_kernels_agree_with_the_direct_sum() {
        let mut rng = SeededRng::new(3);
        for dim in [1, 7, 8, 15, 16, 31, 32, 33, 50, 64, 100, 512, 777] {
            let mut draw = |n: usize| (0..n * dim).map(|_| rng.normal() as f32).collect::<Vec<_>>();
            let (query, rows) = (draw(1), draw(5));
            for (name, kernel) in all(float_kernel(), portable::floats, avx2!(floats_avx2)) {
                for (i, distance) in measure(kernel, &query, &rows).into_iter().enumerate() {
                    let exact = sq_distance(&query, &rows[i * dim..][..dim]);
                    assert!(
                        (f64::from(distance) - exact).abs() <= 1e-6 * dim as f64 * exact,
                        "{name} d={dim}"
                    );
                }
            }
            let (query, rows) = (halves(&query).unwrap(), halves(&rows).unwrap());
            let decode = crate::stored_rows::widened;
            for (name, kernel) in all(half_kernel(), portable::halves, avx2!(halves_avx2)) {
                for (i, distance) in measure(kernel, &query, &rows).into_iter().enumerate() {
                    let exact = sq_distance(&decode(&query), &decode(&rows[i * dim..][..dim]));
                    assert!(
                        (f64::from(distance) - exact).abs() <= 1e-6 * dim as f64 * exact,
                        "{name} d={dim}"
                    );
                }
            }
        }
    }

    #[test]
    fn code_kernels_equal_the_sum_of_integers_exactly() {
        let mut rng = SeededRng::new(4);
        for blocks in [1, 2, 3, 8] {
            let mut draw =
                |n: usize| (0..n).map(|_| CodeBlock(std::array::from_fn(|_| rng.below(128) as u8))).collect();
            let (mut query, rows): (Vec<CodeBlock>, Vec<CodeBlock>) = (draw(blocks), draw(6 * blocks));
            // The largest possible differences.
            query[0].0 = std::array::from_fn(|i| if rows[0].0[i] < 64 { 127 } else { 0 });
            let exact: Vec<f32> = rows
                .chunks(blocks)
                .map(|row| {
                    let pairs = query.iter().zip(row).flat_map(|(a, b)| a.0.into_iter().zip(b.0));
                    pairs.map(|(a, b)| (i32::from(a) - i32::from(b)).pow(2)).sum::<i32>() as f32
                })
                .collect();
            for (name, kernel) in all(code_kernel(), portable::codes, avx2!(codes_avx2)) {
                assert_eq!(measure(kernel, &query, &rows), exact, "{name} {blocks} blocks");
            }
        }
    }

    /// Asserts that a distance function panics when one row is shorter, in either order.
    fn assert_lengths_are_checked<T: Copy>(name: &str, element: T, distance: impl Fn(&[T], &[T]) -> f32) {
        for (a, b) in [(20, 19), (19, 20), (100, 64), (1, 0), (3, 70)] {
            let (a, b) = (vec![element; a], vec![element; b]);
            let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| distance(&a, &b)));
            assert!(result.is_err(), "{name}: lengths {} and {}", a.len(), b.len());
        }
    }

    #[test]
    fn rows_of_unequal_lengths_panic() {
        let code = CodeBlock([0; 64]);
        assert_lengths_are_checked("codes", code, portable::code_distance);
        assert_lengths_are_checked("halves", 0u16, portable::half_distance);
        assert_lengths_are_checked("floats", 0f32, portable::float_distance);
        #[cfg(target_arch = "aarch64")]
        {
            assert_lengths_are_checked("codes, NEON", code, neon::code_distance);
            assert_lengths_are_checked("floats, NEON", 0f32, neon::float_distance_neon);
        }
        #[cfg(target_arch = "x86_64")]
        if has_avx2() {
            // SAFETY: the processor supports AVX2, FMA and F16C.
            unsafe {
                assert_lengths_are_checked("codes, AVX2", code, |a, b| x86::code_distance_avx2(a, b));
                assert_lengths_are_checked("halves, AVX2", 0u16, |a, b| x86::half_distance_avx2(a, b));
                assert_lengths_are_checked("floats, AVX2", 0f32, |a, b| x86::float_distance_avx2(a, b));
            }
        }
        #[cfg(target_arch = "x86_64")]
        if is_x86_feature_detected!("avx512bw") && is_x86_feature_detected!("avx512vnni") {
            // SAFETY: the processor supports AVX-512F, BW and VNNI.
            unsafe {
                assert_lengths_are_checked("codes, VNNI", code, |a, b| x86::code_distance_vnni(a, b));
                assert_lengths_are_checked("halves, AVX-512", 0u16, |a, b| x86::half_distance_avx512(a, b));
                assert_lengths_are_checked("floats, AVX-512", 0f32, |a, b| x86::float_distance_avx512(a, b));
            }
        }
    }
}
