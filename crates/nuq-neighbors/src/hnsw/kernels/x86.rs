//! Kernels for AVX2 and AVX-512.

use std::arch::x86_64::{
    __m256, __m512, _mm_loadu_si128, _mm256_abs_epi8, _mm256_add_epi32, _mm256_add_ps, _mm256_cvtph_ps,
    _mm256_fmadd_ps, _mm256_load_si256, _mm256_loadu_ps, _mm256_loadu_si256, _mm256_madd_epi16,
    _mm256_maddubs_epi16, _mm256_set1_epi16, _mm256_setzero_ps, _mm256_setzero_si256, _mm256_storeu_ps,
    _mm256_storeu_si256, _mm256_sub_epi8, _mm256_sub_ps, _mm512_abs_epi8, _mm512_add_epi32, _mm512_add_ps,
    _mm512_cvtph_ps, _mm512_dpbusd_epi32, _mm512_fmadd_ps, _mm512_load_si512, _mm512_loadu_ps,
    _mm512_maskz_loadu_ps, _mm512_reduce_add_epi32, _mm512_reduce_add_ps, _mm512_setzero_ps,
    _mm512_setzero_si512, _mm512_sub_epi8, _mm512_sub_ps,
};

use super::portable::float_distance;
use crate::hnsw::vectors::{CodeBlock, Half};
use crate::stored_rows::widened;

kernel!(
    #[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
    codes_vnni,
    CodeBlock,
    code_distance_vnni
);
kernel!(
    #[target_feature(enable = "avx2")]
    codes_avx2,
    CodeBlock,
    code_distance_avx2
);
kernel!(
    #[target_feature(enable = "avx512f")]
    halves_avx512,
    Half,
    half_distance_avx512
);
kernel!(
    #[target_feature(enable = "avx2,fma,f16c")]
    halves_avx2,
    Half,
    half_distance_avx2
);
kernel!(
    #[target_feature(enable = "avx512f")]
    floats_avx512,
    f32,
    float_distance_avx512
);
kernel!(
    #[target_feature(enable = "avx2,fma")]
    floats_avx2,
    f32,
    float_distance_avx2
);

/// Differences of 7-bit codes fit a signed byte. Their absolute values fit both a signed and an unsigned byte, the
/// two operand types of the instruction `vpdpbusd`.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
pub(super) fn code_distance_vnni(a: &[CodeBlock], b: &[CodeBlock]) -> f32 {
    assert_eq!(a.len(), b.len(), "both rows have the same length");
    let mut sums = [_mm512_setzero_si512(); 2];
    for (i, (x, y)) in a.iter().zip(b).enumerate() {
        // SAFETY: a block has 64 bytes and an alignment of 64.
        let (x, y) =
            unsafe { (_mm512_load_si512(x.0.as_ptr().cast()), _mm512_load_si512(y.0.as_ptr().cast())) };
        let difference = _mm512_abs_epi8(_mm512_sub_epi8(x, y));
        sums[i % 2] = _mm512_dpbusd_epi32(sums[i % 2], difference, difference);
    }
    _mm512_reduce_add_epi32(_mm512_add_epi32(sums[0], sums[1])) as f32
}

#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn code_distance_avx2(a: &[CodeBlock], b: &[CodeBlock]) -> f32 {
    assert_eq!(a.len(), b.len(), "both rows have the same length");
    let ones = _mm256_set1_epi16(1);
    let mut sums = [_mm256_setzero_si256(); 2];
    for (x, y) in a.iter().zip(b) {
        for (half, sum) in sums.iter_mut().enumerate() {
            // SAFETY: a block consists of two aligned halves of 32 bytes.
            let (x, y) = unsafe {
                (
                    _mm256_load_si256(x.0.as_ptr().add(32 * half).cast()),
                    _mm256_load_si256(y.0.as_ptr().add(32 * half).cast()),
                )
            };
            let difference = _mm256_abs_epi8(_mm256_sub_epi8(x, y));
            // The sum of two squares of at most 127² each fits a signed 16-bit integer.
            let pairs = _mm256_maddubs_epi16(difference, difference);
            *sum = _mm256_add_epi32(*sum, _mm256_madd_epi16(pairs, ones));
        }
    }
    let mut lanes = [0i32; 8];
    // SAFETY: the array has space for the eight integers.
    unsafe { _mm256_storeu_si256(lanes.as_mut_ptr().cast(), _mm256_add_epi32(sums[0], sums[1])) };
    lanes.iter().sum::<i32>() as f32
}

#[inline]
#[target_feature(enable = "avx512f")]
pub(super) fn half_distance_avx512(a: &[Half], b: &[Half]) -> f32 {
    assert_eq!(a.len(), b.len(), "both rows have the same length");
    let (a_chunks, a_rest) = a.as_chunks::<32>();
    let (b_chunks, b_rest) = b.as_chunks::<32>();
    let mut sums = [_mm512_setzero_ps(); 2];
    for (x, y) in a_chunks.iter().zip(b_chunks) {
        for (i, sum) in sums.iter_mut().enumerate() {
            // SAFETY: the 16 half-precision numbers from index `16 * i` are within the chunk of 32.
            let (x, y) = unsafe {
                (
                    _mm512_cvtph_ps(_mm256_loadu_si256(x.as_ptr().add(16 * i).cast())),
                    _mm512_cvtph_ps(_mm256_loadu_si256(y.as_ptr().add(16 * i).cast())),
                )
            };
            *sum = add_square_512(*sum, x, y);
        }
    }
    _mm512_reduce_add_ps(_mm512_add_ps(sums[0], sums[1])) + half_rest(a_rest, b_rest)
}

#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
pub(super) fn half_distance_avx2(a: &[Half], b: &[Half]) -> f32 {
    assert_eq!(a.len(), b.len(), "both rows have the same length");
    let (a_chunks, a_rest) = a.as_chunks::<16>();
    let (b_chunks, b_rest) = b.as_chunks::<16>();
    let mut sums = [_mm256_setzero_ps(); 2];
    for (x, y) in a_chunks.iter().zip(b_chunks) {
        for (i, sum) in sums.iter_mut().enumerate() {
            // SAFETY: the 8 half-precision numbers from index `8 * i` are within the chunk of 16.
            let (x, y) = unsafe {
                (
                    _mm256_cvtph_ps(_mm_loadu_si128(x.as_ptr().add(8 * i).cast())),
                    _mm256_cvtph_ps(_mm_loadu_si128(y.as_ptr().add(8 * i).cast())),
                )
            };
            *sum = add_square_256(*sum, x, y);
        }
    }
    total_256(_mm256_add_ps(sums[0], sums[1])) + half_rest(a_rest, b_rest)
}

/// The distance of the halves that remain after the last whole chunk.
fn half_rest(a: &[Half], b: &[Half]) -> f32 {
    if a.is_empty() { 0.0 } else { float_distance(&widened(a), &widened(b)) }
}

#[inline]
#[target_feature(enable = "avx512f")]
pub(super) fn float_distance_avx512(a: &[f32], b: &[f32]) -> f32 {
    assert_eq!(a.len(), b.len(), "both rows have the same length");
    let (a_chunks, a_rest) = a.as_chunks::<64>();
    let (b_chunks, b_rest) = b.as_chunks::<64>();
    let mut sums = [_mm512_setzero_ps(); 4];
    for (x, y) in a_chunks.iter().zip(b_chunks) {
        for (i, sum) in sums.iter_mut().enumerate() {
            // SAFETY: the 16 floats from index `16 * i` are within the chunk of 64.
            let (x, y) =
                unsafe { (_mm512_loadu_ps(x.as_ptr().add(16 * i)), _mm512_loadu_ps(y.as_ptr().add(16 * i))) };
            *sum = add_square_512(*sum, x, y);
        }
    }
    for (i, (x, y)) in a_rest.chunks(16).zip(b_rest.chunks(16)).enumerate() {
        let mask = ((1u32 << x.len()) - 1) as u16;
        // SAFETY: both rows have the same length, so both chunks have x.len() floats; the mask selects only these.
        let (x, y) =
            unsafe { (_mm512_maskz_loadu_ps(mask, x.as_ptr()), _mm512_maskz_loadu_ps(mask, y.as_ptr())) };
        sums[i] = add_square_512(sums[i], x, y);
    }
    _mm512_reduce_add_ps(_mm512_add_ps(_mm512_add_ps(sums[0], sums[1]), _mm512_add_ps(sums[2], sums[3])))
}

#[inline]
#[target_feature(enable = "avx2,fma")]
pub(super) fn float_distance_avx2(a: &[f32], b: &[f32]) -> f32 {
    assert_eq!(a.len(), b.len(), "both rows have the same length");
    let (a_chunks, a_rest) = a.as_chunks::<32>();
    let (b_chunks, b_rest) = b.as_chunks::<32>();
    let mut sums = [_mm256_setzero_ps(); 4];
    for (x, y) in a_chunks.iter().zip(b_chunks) {
        for (i, sum) in sums.iter_mut().enumerate() {
            // SAFETY: the 8 floats from index `8 * i` are within the chunk of 32.
            let (x, y) =
                unsafe { (_mm256_loadu_ps(x.as_ptr().add(8 * i)), _mm256_loadu_ps(y.as_ptr().add(8 * i))) };
            *sum = add_square_256(*sum, x, y);
        }
    }
    let sum = _mm256_add_ps(_mm256_add_ps(sums[0], sums[1]), _mm256_add_ps(sums[2], sums[3]));
    total_256(sum) + float_distance(a_rest, b_rest)
}

#[inline]
#[target_feature(enable = "avx512f")]
fn add_square_512(sum: __m512, x: __m512, y: __m512) -> __m512 {
    let difference = _mm512_sub_ps(x, y);
    _mm512_fmadd_ps(difference, difference, sum)
}

#[inline]
#[target_feature(enable = "avx2,fma")]
fn add_square_256(sum: __m256, x: __m256, y: __m256) -> __m256 {
    let difference = _mm256_sub_ps(x, y);
    _mm256_fmadd_ps(difference, difference, sum)
}

#[inline]
#[target_feature(enable = "avx2")]
fn total_256(sum: __m256) -> f32 {
    let mut lanes = [0f32; 8];
    // SAFETY: the array has space for the eight floats.
    unsafe { _mm256_storeu_ps(lanes.as_mut_ptr(), sum) };
    lanes.iter().sum()
}
