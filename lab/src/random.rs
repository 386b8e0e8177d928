//! Independent random streams.

use nuq_neighbors::SeededRng;

/// Returns the random stream of a purpose (for example `"first weights"`), a seed and an index.
///
/// Streams that differ in any of the three are independent. Data and initial weights of one seed therefore use different draws.
pub(crate) fn random_stream(purpose: &str, seed: u64, index: usize) -> SeededRng {
    // `SeededRng` is SplitMix64: seeds that differ by a multiple of its increment give shifted copies of one sequence. To avoid this,
    // the bytes of the purpose, then the seed, then the index are mixed into the state, one generator step for each.
    let words = purpose.bytes().map(u64::from).chain([seed, index as u64]);
    SeededRng::new(words.fold(0, |state, word| SeededRng::new(state ^ word).next_u64()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_differ_in_purpose_seed_and_index() {
        let first = |purpose, seed, index| random_stream(purpose, seed, index).next_u64();
        assert_eq!(first("weights", 1, 2), first("weights", 1, 2));
        let others = [first("moons", 1, 2), first("weights", 2, 1), first("weights", 1, 3), first("", 1, 2)];
        assert!(others.iter().all(|&other| other != first("weights", 1, 2)));
    }
}
