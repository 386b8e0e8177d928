//! Random numbers for one purpose each.

use nuq_neighbors::SeededRng;

/// The random numbers of a purpose (first weights, the points of the moons, …) under a seed, the `index`-th of their kind. Those of another
/// purpose, seed or index have nothing to do with them: data and weights of one seed must not be the same draws.
pub(crate) fn stream(purpose: &str, seed: u64, index: usize) -> SeededRng {
    // Seeds of SplitMix64 that differ by a multiple of its increment share their numbers; a round of it for each part keeps them apart.
    let words = purpose.bytes().map(u64::from).chain([seed, index as u64]);
    SeededRng::new(words.fold(0, |state, word| SeededRng::new(state ^ word).next_u64()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_differ_in_purpose_seed_and_index() {
        let first = |purpose, seed, index| stream(purpose, seed, index).next_u64();
        assert_eq!(first("weights", 1, 2), first("weights", 1, 2));
        let others = [first("moons", 1, 2), first("weights", 2, 1), first("weights", 1, 3), first("", 1, 2)];
        assert!(others.iter().all(|&other| other != first("weights", 1, 2)));
    }
}
