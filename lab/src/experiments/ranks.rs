//! Places in an order.

/// Each value's place among all, from 0 for the lowest to 1 for the highest; equal values share the middle of their places.
pub(super) fn ranks(values: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|&a, &b| values[a].total_cmp(&values[b]));
    let mut ranks = vec![0.0; values.len()];
    let last = values.len().saturating_sub(1).max(1) as f64;
    let mut place = 0;
    for group in order.chunk_by(|&a, &b| values[a] == values[b]) {
        let middle = place as f64 + 0.5 * (group.len() - 1) as f64;
        group.iter().for_each(|&i| ranks[i] = middle / last);
        place += group.len();
    }
    ranks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_go_from_nought_to_one() {
        assert_eq!(ranks(&[3.0, 1.0, 2.0]), [1.0, 0.0, 0.5]);
        assert_eq!((ranks(&[7.0]), ranks(&[])), (vec![0.0], vec![]));
    }

    #[test]
    fn equal_values_share_a_rank() {
        assert_eq!(ranks(&[2.0, 1.0, 2.0, 2.0, 5.0]), [0.5, 0.0, 0.5, 0.5, 1.0]);
    }
}
