//! The bound on the rounding error of scores.
//!
//! Rows and queries are rescaled in `f64` to b and a: centered, scaled by a power of two, divided by the scale of each
//! column. The score `s = ½‖b‖² − a·b` orders rows like their distances, because `‖a − b‖² = ‖a‖² + 2s`. The device
//! stores b as `b̂ = w_b c_b` with a power of two w_b and c_b in `f16`, and measures `r_b = ‖b − b̂‖` and `n_b = ‖b‖`; likewise
//! `â = w_a c_a`, r_a and n_a. Let d be the number of coordinates of c_a and c_b, p the computed product `c_a·c_b`, and h the
//! rounded ½‖b‖². Then
//!
//! ```text
//! |s − (h − w_a w_b p)| ≤ (n_a + r_a) r_b + r_a n_b       rounding of rows and queries to halves
//!                       + γ n_a n_b                       rounding of p, and of h − w_a w_b p
//!                       + 2⁻²¹ n_b²                       rounding of h, and of h − w_a w_b p
//!                       + (d + 8) 2⁻⁵² (n_a² + n_b²)      rounding of distances in f64 (and of a and b)
//!                       + w_a w_b (2⁻¹¹ |p| + 2⁻²⁵)       storage of p in f16
//! ```
//!
//! The first line is the inequality of Cauchy and Schwarz for `a·b − â·b̂ = (a − â)·b̂ + a·(b − b̂)`, with
//! `‖b̂‖ ≤ n_b + r_b`. Products of halves are exact in `f32`. Tensor cores add groups of at least four products to an
//! accumulator. They align all terms of a group to the largest one and may truncate each to 24 bits. Each of the at most
//! `1.25 d` terms, accumulators included, therefore adds an error of at most `2⁻²³ Σ_j |â_j b̂_j| ≤ 2⁻²³ ‖â‖ ‖b̂‖`, in any
//! order and also if the sum is split. γ is the sum `1.25 d 2⁻²³` of these errors, plus `2⁻²⁰` for the
//! rounding of h − w_a w_b p. The fourth line is the error bound of the exact index on the CPU. Coordinates of
//! c_a and c_b are at most 1 in absolute value. Therefore p is within the range of `f16` for up to [`MAX_DIM`] columns.

/// The largest number of columns. With at most this number, the absolute value of p is at most 2¹⁵, which is within the range of `f16`.
pub(crate) const MAX_DIM: usize = 1 << 15;

/// The factors of the error bound for rows of `width` halves.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Bound {
    /// γ, the factor of `n_a n_b`.
    pub(crate) gamma: f32,
    /// The factor of `n_a²`.
    pub(crate) distance: f32,
    /// The sum of the factors of `n_b²`.
    pub(crate) square: f32,
}

impl Bound {
    pub(crate) fn new(width: usize) -> Self {
        let d = width as f64;
        // The factor 1.003 is needed because ‖â‖ ‖b̂‖ can slightly exceed n_a n_b, and because the bound itself is rounded.
        let gamma = 1.003 * (1.25 * d * 2f64.powi(-23) + 2f64.powi(-20));
        let distance = 1.01 * (d + 8.0) * f64::EPSILON;
        let square = 2f64.powi(-21) + distance;
        Self { gamma: gamma as f32, distance: distance as f32, square: square as f32 }
    }
}
