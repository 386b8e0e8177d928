//! Logits whose columns are in another order than the classes are reported.

use nuq::{Embeddings, Label, NuqClassifier};
use nuq_eval::evaluate::{ColumnOrder, Comparison, Rows};
use nuq_eval::metrics::Resampling;
use nuq_testkit::data;

const CLASSES: usize = 12;
const ROWS: usize = 240;

/// The reported order for logits that are largest in the column `column_of(class)`, with one error in ten rows.
fn reported(column_of: impl Fn(usize) -> usize) -> Option<ColumnOrder> {
    let rows = data::normal(ROWS, 3, 1);
    let labels: Vec<String> = (0..ROWS).map(|i| (i % CLASSES).to_string()).collect();
    let model = NuqClassifier::params().n_neighbors(5).bandwidth(1.0).fit(&rows, &labels).unwrap();
    let mut logits = vec![0f32; ROWS * CLASSES];
    for i in 0..ROWS {
        let class = if i % 10 == 0 { (i + 1) % CLASSES } else { i % CLASSES };
        logits[i * CLASSES + column_of(class)] = 5.0;
    }
    let logits = Embeddings::new(logits, CLASSES).unwrap();
    let test = data::normal(ROWS, 3, 2);
    let comparison = Comparison::new(Rows::new(&test).logits(&logits), &labels);
    comparison.resampling(Resampling { resamples: 100, seed: 0 }).run(&model).unwrap().column_order
}

#[test]
fn columns_in_numeric_order_of_digit_strings_are_reported() {
    let order = reported(|class| class).unwrap();
    let numeric: Vec<Label> = (0..CLASSES).map(|class| Label::from(class.to_string().as_str())).collect();
    assert_eq!(order.classes, numeric);
    // Only the columns of 0 and 1 are the same in both orders.
    assert!(order.given_accuracy < 0.3 && order.accuracy > 0.8, "{order:?}");
}

#[test]
fn columns_in_sorted_order_are_not_reported() {
    let mut sorted: Vec<String> = (0..CLASSES).map(|class| class.to_string()).collect();
    sorted.sort();
    let column_of = |class: usize| sorted.iter().position(|name| *name == class.to_string()).unwrap();
    assert_eq!(reported(column_of), None);
}

#[test]
fn uninformative_logits_are_not_reported() {
    assert_eq!(reported(|_| 0), None);
    assert_eq!(reported(|class| class / 6), None);
}
