//! Detects logits whose columns are in another order than the classes.
//!
//! Labels that are numbers written as text are sorted as text (`0`, `1`, `10`, `2`), while a network usually numbers
//! its classes. The logits then have the right shape and wrong columns.
//!
//! The class of each column is estimated from half of the rows. The resulting order is verified on the other half. It
//! is reported if two conditions are true there: its accuracy is higher than the accuracy of the given order, with
//! disjoint 95 % intervals, and it has at most half as many wrong predictions.

use std::collections::HashMap;

use nuq::Label;
use nuq::calibrate::binomial_interval;
use nuq_neighbors::Embeddings;

use super::argmax;

/// Another order of the columns of the logits that explains the labels much better than the order of the classes.
#[derive(Debug, Clone, PartialEq)]
pub struct ColumnOrder {
    /// The class that each column seems to belong to.
    pub classes: Vec<Label>,
    /// Accuracy of the network in this order, on half of the test rows.
    pub accuracy: f64,
    /// Accuracy of the network in the order of the sorted classes, on the same rows.
    pub given_accuracy: f64,
}

/// The order of the columns, if it clearly differs from the order of the sorted classes.
pub(super) fn suspected_order(
    logits: &Embeddings<'_>,
    labels: &[Label],
    classes: &[Label],
) -> Option<ColumnOrder> {
    let predicted: Vec<usize> = logits.rows().map(argmax).collect();
    let class_of = |label: &Label| classes.binary_search(label).ok();
    let truths: Vec<Option<usize>> = labels.iter().map(class_of).collect();
    let pairs = predicted.into_iter().zip(truths).enumerate();
    let (for_estimate, checked): (Vec<_>, Vec<_>) = pairs.partition(|(row, _)| is_for_estimate(*row));
    let known = for_estimate.into_iter().filter_map(|(_, (column, class))| Some((column, class?)));
    let order = estimate(known, classes.len());
    let correct = |class_of_column: &dyn Fn(usize) -> usize| {
        checked.iter().filter(|(_, (column, class))| Some(class_of_column(*column)) == *class).count()
    };
    let (given, reordered, rows) =
        (correct(&|column| column), correct(&|column| order[column]), checked.len());
    if rows == 0 {
        return None;
    }
    let (_, given_high) = binomial_interval(given, rows);
    let (reordered_low, _) = binomial_interval(reordered, rows);
    let is_clear = reordered_low > given_high && 2 * (rows - reordered) <= rows - given;
    is_clear.then(|| ColumnOrder {
        classes: order.iter().map(|&class| classes[class].clone()).collect(),
        accuracy: reordered as f64 / rows as f64,
        given_accuracy: given as f64 / rows as f64,
    })
}

/// Whether a row is in the half from which the order is estimated. A hash of the row number decides it, so that both
/// halves contain all classes even if the labels are periodic.
fn is_for_estimate(row: usize) -> bool {
    (row as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 63 == 0
}

/// The class of each column. Pairs of a predicted column and a true class are assigned in the order of decreasing
/// frequency. Columns without a pair keep their class unless another column has it; then they get one of the
/// remaining classes.
fn estimate(pairs: impl Iterator<Item = (usize, usize)>, n_classes: usize) -> Vec<usize> {
    let mut counts: HashMap<(usize, usize), usize> = HashMap::new();
    pairs.for_each(|pair| *counts.entry(pair).or_default() += 1);
    let mut counts: Vec<((usize, usize), usize)> = counts.into_iter().collect();
    counts.sort_unstable_by_key(|&(pair, count)| (std::cmp::Reverse(count), pair));
    let mut class_of: Vec<Option<usize>> = vec![None; n_classes];
    let mut is_taken = vec![false; n_classes];
    let own = (0..n_classes).map(|class| (class, class));
    for (column, class) in counts.into_iter().map(|(pair, _)| pair).chain(own) {
        if class_of[column].is_none() && !is_taken[class] {
            class_of[column] = Some(class);
            is_taken[class] = true;
        }
    }
    let mut free = (0..n_classes).filter(|&class| !is_taken[class]);
    let rest =
        |class: Option<usize>| class.or_else(|| free.next()).expect("there are as many classes as columns");
    class_of.into_iter().map(rest).collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    const CLASSES: usize = 12;
    const ROWS: usize = 240;

    /// The names of the classes in numeric order.
    fn numeric() -> Vec<Label> {
        (0..CLASSES).map(|class| Label::from(class.to_string().as_str())).collect()
    }

    /// The reported order for logits that are largest in the column `column_of(class)`, with one error in ten rows.
    fn reported(column_of: impl Fn(usize) -> usize) -> Option<ColumnOrder> {
        let mut logits = vec![0f32; ROWS * CLASSES];
        for i in 0..ROWS {
            let class = if i % 10 == 0 { (i + 1) % CLASSES } else { i % CLASSES };
            logits[i * CLASSES + column_of(class)] = 5.0;
        }
        let labels: Vec<Label> = (0..ROWS).map(|i| numeric()[i % CLASSES].clone()).collect();
        let mut sorted = numeric();
        sorted.sort();
        suspected_order(&Embeddings::new(logits, CLASSES).unwrap(), &labels, &sorted)
    }

    #[test]
    fn columns_in_numeric_order_of_digit_strings_are_reported() {
        let order = reported(|class| class).unwrap();
        assert_eq!(order.classes, numeric());
        // Only the columns of 0 and 1 are the same in both orders.
        assert!(order.given_accuracy < 0.3 && order.accuracy > 0.8, "{order:?}");
    }

    #[test]
    fn columns_in_sorted_order_are_not_reported() {
        let mut sorted = numeric();
        sorted.sort();
        let column_of = |class: usize| sorted.iter().position(|name| *name == numeric()[class]).unwrap();
        assert_eq!(reported(column_of), None);
    }

    #[test]
    fn uninformative_logits_are_not_reported() {
        assert_eq!(reported(|_| 0), None);
        assert_eq!(reported(|class| class / 6), None);
    }
}
