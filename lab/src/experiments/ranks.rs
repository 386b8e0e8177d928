//! Normalized ranks.

/// The rank of each value, from 0 for the lowest to 1 for the highest. Equal values have the mean of their ranks.
pub(super) fn ranks(values: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|&a, &b| values[a].total_cmp(&values[b]));
    let mut ranks = vec![0.0; values.len()];
    let last = values.len().saturating_sub(1).max(1) as f64;
    let mut start = 0;
    for group in order.chunk_by(|&a, &b| values[a] == values[b]) {
        let mean = start as f64 + 0.5 * (group.len() - 1) as f64;
        group.iter().for_each(|&i| ranks[i] = mean / last);
        start += group.len();
    }
    ranks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_range_from_zero_to_one() {
        assert_eq!(ranks(&[3.0, 1.0, 2.0]), [1.0, 0.0, 0.5]);
        assert_eq!((ranks(&[7.0]), ranks(&[])), (vec![0.0], vec![]));
    }

    #[test]
    fn equal_values_share_a_rank() {
        assert_eq!(ranks(&[2.0, 1.0, 2.0, 2.0, 5.0]), [0.5, 0.0, 0.5, 0.5, 1.0]);
    }
}
