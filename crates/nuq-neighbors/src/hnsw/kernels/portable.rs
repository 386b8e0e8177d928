//! Portable kernels: plain loops that the compiler vectorizes.

use half::f16;

use crate::hnsw::vectors::{CodeBlock, Half};

kernel!(codes, CodeBlock, code_distance);
kernel!(halves, Half, half_distance);
kernel!(floats, f32, float_distance);

#[inline]
pub(super) fn code_distance(a: &[CodeBlock], b: &[CodeBlock]) -> f32 {
    assert_eq!(a.len(), b.len(), "both rows have the same length");
    let mut sum = 0u32;
    for (x, y) in a.iter().zip(b) {
        sum += x.0.iter().zip(&y.0).map(|(x, y)| u32::from(x.abs_diff(*y)).pow(2)).sum::<u32>();
    }
    sum as f32
}

#[inline]
pub(super) fn half_distance(a: &[Half], b: &[Half]) -> f32 {
    assert_eq!(a.len(), b.len(), "both rows have the same length");
    let float = |&bits: &Half| f16::from_bits(bits).to_f32();
    a.iter().zip(b).map(|(x, y)| (float(x) - float(y)).powi(2)).sum()
}

/// Sixteen partial sums, one per lane, so that the compiler can vectorize the loop.
#[inline]
pub(super) fn float_distance(a: &[f32], b: &[f32]) -> f32 {
    assert_eq!(a.len(), b.len(), "both rows have the same length");
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
