//! The seeded random number generator of the project: the same stream on every platform and in every release.

/// SplitMix64 (Steele, Lea and Flood 2014): a 64-bit state, from which each number is computed with three xor-shifts and two
/// multiplications.
///
/// Fitted models depend on rows that are sampled with this generator. The generator is part of this crate, so that the
/// same seed gives the same model after an upgrade of any dependency. Transcendental functions come from `libm`, because the
/// results of the standard library differ between platforms.
///
/// ```
/// use nuq_neighbors::SeededRng;
/// let mut rng = SeededRng::new(7);
/// let rows = rng.sample(1000, 3);
/// assert_eq!(rows, SeededRng::new(7).sample(1000, 3));
/// assert!(rows.windows(2).all(|w| w[0] < w[1]));
/// ```
#[derive(Debug, Clone)]
pub struct SeededRng {
    state: u64,
}

impl SeededRng {
    /// A generator with a stream that is determined by `seed`.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    /// The state. A generator with this seed continues the stream.
    #[must_use]
    pub fn state(&self) -> u64 {
        self.state
    }

    /// The next 64 random bits.
    pub fn next_u64(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// A uniform number in `[0, 1)`.
    pub fn uniform(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
    }

    /// A uniform integer in `0..bound`. The bias of the multiply-shift method is below `bound / 2⁶⁴`.
    pub fn below(&mut self, bound: usize) -> usize {
        ((u128::from(self.next_u64()) * bound as u128) >> 64) as usize
    }

    /// A standard normal number by the Box-Muller transform.
    pub fn normal(&mut self) -> f64 {
        let radius = (-2.0 * libm::log(1.0 - self.uniform())).sqrt();
        radius * libm::cos(std::f64::consts::TAU * self.uniform())
    }

    /// `count` distinct numbers of `0..n` in ascending order, or all of them when `count ≥ n`. Each subset is equally
    /// likely (selection sampling in one pass).
    pub fn sample(&mut self, n: usize, count: usize) -> Vec<u32> {
        let mut remaining = count.min(n);
        let mut chosen = Vec::with_capacity(remaining);
        for i in 0..n {
            if remaining > 0 && self.below(n - i) < remaining {
                chosen.push(i as u32);
                remaining -= 1;
            }
        }
        chosen
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn splitmix64_matches_the_reference_stream() {
        // The first outputs of Vigna's reference implementation for seed 1234567.
        let mut rng = SeededRng::new(1_234_567);
        let expected = [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423];
        assert_eq!(expected.map(|_| rng.next_u64()), expected);
    }

    #[test]
    fn normal_numbers_have_mean_0_and_variance_1() {
        let mut rng = SeededRng::new(0);
        let draws: Vec<f64> = (0..100_000).map(|_| rng.normal()).collect();
        let mean = draws.iter().sum::<f64>() / 1e5;
        let variance = draws.iter().map(|z| z * z).sum::<f64>() / 1e5;
        // The tolerances are five standard errors.
        assert!(mean.abs() < 5.0 / 1e5f64.sqrt(), "{mean}");
        assert!((variance - 1.0).abs() < 5.0 * (2.0 / 1e5f64).sqrt(), "{variance}");
    }

    /// The numbers are those of the same formula in Python. The numbers of `libm` are the same on every platform, bit for bit.
    #[test]
    fn normal_numbers_are_the_same_on_every_platform() {
        let mut rng = SeededRng::new(0);
        let expected =
            [-1.8839083333524405, 0.22760793546360525, -0.22143788059715477, 0.08341854419566393f64];
        assert_eq!(expected.map(|_| rng.normal().to_bits()), expected.map(f64::to_bits));
    }

    #[test]
    fn a_sample_has_the_requested_size_or_is_the_whole_population() {
        assert_eq!(SeededRng::new(3).sample(4, 9), [0, 1, 2, 3]);
        assert_eq!(SeededRng::new(3).sample(100, 10).len(), 10);
    }
}
