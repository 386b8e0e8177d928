//! Kernels for NEON, which is part of every 64-bit ARM target.

use std::arch::aarch64::{
    vabdq_u8, vaddq_f32, vaddq_u32, vaddvq_f32, vaddvq_u32, vdupq_n_f32, vdupq_n_u32, vfmaq_f32,
    vget_high_u8, vget_low_u8, vld1q_f32, vld1q_u8, vmull_u8, vpadalq_u16, vsubq_f32,
};

use super::portable::float_distance;
use crate::hnsw::vectors::CodeBlock;

kernel!(codes, CodeBlock, code_distance);
kernel!(floats, f32, float_distance_neon);

#[inline]
pub(super) fn code_distance(a: &[CodeBlock], b: &[CodeBlock]) -> f32 {
    assert_eq!(a.len(), b.len(), "both rows have the same length");
    // SAFETY: NEON is part of the target. A block has 64 bytes, and 16 i + 16 ≤ 64.
    unsafe {
        let mut sums = [vdupq_n_u32(0); 2];
        for (x, y) in a.iter().zip(b) {
            for i in 0..4 {
                let (x, y) = (vld1q_u8(x.0.as_ptr().add(16 * i)), vld1q_u8(y.0.as_ptr().add(16 * i)));
                let difference = vabdq_u8(x, y);
                sums[0] = vpadalq_u16(sums[0], vmull_u8(vget_low_u8(difference), vget_low_u8(difference)));
                sums[1] = vpadalq_u16(sums[1], vmull_u8(vget_high_u8(difference), vget_high_u8(difference)));
            }
        }
        vaddvq_u32(vaddq_u32(sums[0], sums[1])) as f32
    }
}

#[inline]
pub(super) fn float_distance_neon(a: &[f32], b: &[f32]) -> f32 {
    assert_eq!(a.len(), b.len(), "both rows have the same length");
    let (whole, len) = (a.len() / 16 * 16, a.len());
    // SAFETY: NEON is part of the target. Both rows have `len` floats, and j + 4 i + 4 ≤ whole ≤ len.
    let sum = unsafe {
        let mut sums = [vdupq_n_f32(0.0); 4];
        for j in (0..whole).step_by(16) {
            for (i, sum) in sums.iter_mut().enumerate() {
                let (x, y) = (vld1q_f32(a.as_ptr().add(j + 4 * i)), vld1q_f32(b.as_ptr().add(j + 4 * i)));
                let difference = vsubq_f32(x, y);
                *sum = vfmaq_f32(*sum, difference, difference);
            }
        }
        vaddvq_f32(vaddq_f32(vaddq_f32(sums[0], sums[1]), vaddq_f32(sums[2], sums[3])))
    };
    sum + float_distance(&a[whole..len], &b[whole..len])
}
