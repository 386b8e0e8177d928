//! The inner loops: squared distances of one row to several, as fast as the processor allows.
//!
//! One call measures a whole list, so that choosing the instruction set costs once a list and the next rows are fetched
//! while one is measured. Distances of codes are sums of integers, the same on every processor.

use super::vectors::{CodeBlock, DistanceKernel, Half};

/// How many rows ahead of the one being measured are fetched.
pub(super) const AHEAD: usize = 8;

/// Defines a kernel from the distance of two rows: the loop over the list is compiled for the same instructions, with the
/// distance inlined into it.
macro_rules! kernel {
    ($(#[$with:meta])* $name:ident, $form:ty, $distance:path) => {
        $(#[$with])*
        pub(super) fn $name(query: &[$form], rows: &[$form], ids: &[u32], distances: &mut [f32]) {
            let row = |id: u32| &rows[id as usize * query.len()..][..query.len()];
            for (i, (&id, distance)) in ids.iter().zip(distances).enumerate() {
                if let Some(&next) = ids.get(i + super::AHEAD) {
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

/// Distances of codes.
pub(super) fn code_kernel() -> DistanceKernel<CodeBlock> {
    #[cfg(target_arch = "x86_64")]
    {
        if is_x86_feature_detected!("avx512bw") && is_x86_feature_detected!("avx512vnni") {
            // SAFETY: the processor has AVX-512F, BW and VNNI, which is all that the function asks for.
            return |q, rows, ids, out| unsafe { x86::codes_vnni(q, rows, ids, out) };
        }
        if is_x86_feature_detected!("avx2") {
            // SAFETY: the processor has AVX2, which is all that the function asks for.
            return |q, rows, ids, out| unsafe { x86::codes_avx2(q, rows, ids, out) };
        }
    }
    #[cfg(target_arch = "aarch64")]
    return neon::codes;
    #[cfg(not(target_arch = "aarch64"))]
    portable::codes
}

/// Distances of halves.
pub(super) fn half_kernel() -> DistanceKernel<Half> {
    #[cfg(target_arch = "x86_64")]
    {
        if is_x86_feature_detected!("avx512f") {
            // SAFETY: the processor has AVX-512F, which is all that the function asks for.
            return |q, rows, ids, out| unsafe { x86::halves_avx512(q, rows, ids, out) };
        }
        if is_x86_feature_detected!("avx2")
            && is_x86_feature_detected!("fma")
            && is_x86_feature_detected!("f16c")
        {
            // SAFETY: the processor has AVX2, FMA and F16C, which is all that the function asks for.
            return |q, rows, ids, out| unsafe { x86::halves_avx2(q, rows, ids, out) };
        }
    }
    portable::halves
}

/// Distances of floats.
pub(super) fn float_kernel() -> DistanceKernel<f32> {
    #[cfg(target_arch = "x86_64")]
    {
        if is_x86_feature_detected!("avx512f") {
            // SAFETY: the processor has AVX-512F, which is all that the function asks for.
            return |q, rows, ids, out| unsafe { x86::floats_avx512(q, rows, ids, out) };
        }
        if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
            // SAFETY: the processor has AVX2 and FMA, which is all that the function asks for.
            return |q, rows, ids, out| unsafe { x86::floats_avx2(q, rows, ids, out) };
        }
    }
    #[cfg(target_arch = "aarch64")]
    return neon::floats;
    #[cfg(not(target_arch = "aarch64"))]
    portable::floats
}

/// Asks for the first half kilobyte of a row before it is needed; the processor fetches the rest itself.
#[inline(always)]
pub(super) fn prefetch<T>(row: &[T]) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        for byte in (0..size_of_val(row).min(512)).step_by(64) {
            // SAFETY: a prefetch of an address inside a slice reads nothing that the program can see.
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

    /// Leaves of one form, by name: the chosen one, the portable one, and those of narrower instruction sets.
    fn all<T>(
        chosen: DistanceKernel<T>,
        portable: DistanceKernel<T>,
        narrower: Option<DistanceKernel<T>>,
    ) -> Vec<(&'static str, DistanceKernel<T>)> {
        let mut leaves = vec![("chosen", chosen), ("portable", portable)];
        leaves.extend(narrower.map(|kernel| ("avx2", kernel)));
        leaves
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
                // SAFETY: called only where the processor has AVX2, FMA and F16C.
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
    fn leaves_of_floats_and_halves_agree_with_the_direct_sum() {
        let mut rng = SeededRng::new(3);
        for dim in [1, 7, 8, 15, 16, 31, 32, 33, 50, 64, 100, 512, 777] {
            let mut draw = |n: usize| (0..n * dim).map(|_| rng.normal() as f32).collect::<Vec<_>>();
            let (query, rows) = (draw(1), draw(5));
            for (name, kernel) in all(float_kernel(), portable::floats, avx2!(floats_avx2)) {
                for (i, found) in measure(kernel, &query, &rows).into_iter().enumerate() {
                    let exact = sq_distance(&query, &rows[i * dim..][..dim]);
                    assert!((f64::from(found) - exact).abs() <= 1e-6 * dim as f64 * exact, "{name} d={dim}");
                }
            }
            let (query, rows) = (halves(&query).unwrap(), halves(&rows).unwrap());
            let decode = crate::rows::widened;
            for (name, kernel) in all(half_kernel(), portable::halves, avx2!(halves_avx2)) {
                for (i, found) in measure(kernel, &query, &rows).into_iter().enumerate() {
                    let exact = sq_distance(&decode(&query), &decode(&rows[i * dim..][..dim]));
                    assert!((f64::from(found) - exact).abs() <= 1e-6 * dim as f64 * exact, "{name} d={dim}");
                }
            }
        }
    }

    #[test]
    fn leaves_of_codes_agree_exactly() {
        let mut rng = SeededRng::new(4);
        for lines in [1, 2, 3, 8] {
            let mut draw =
                |n: usize| (0..n).map(|_| CodeBlock(std::array::from_fn(|_| rng.below(128) as u8))).collect();
            let (mut query, rows): (Vec<CodeBlock>, Vec<CodeBlock>) = (draw(lines), draw(6 * lines));
            // The largest differences there are.
            query[0].0 = std::array::from_fn(|i| if rows[0].0[i] < 64 { 127 } else { 0 });
            let exact: Vec<f32> = rows
                .chunks(lines)
                .map(|row| {
                    let both = query.iter().zip(row).flat_map(|(a, b)| a.0.into_iter().zip(b.0));
                    both.map(|(a, b)| (i32::from(a) - i32::from(b)).pow(2)).sum::<i32>() as f32
                })
                .collect();
            for (name, kernel) in all(code_kernel(), portable::codes, avx2!(codes_avx2)) {
                assert_eq!(measure(kernel, &query, &rows), exact, "{name} {lines} lines");
            }
        }
    }
}
