//! Leave-one-out selection of a classifier's bandwidth.

use crate::bandwidth::{Criterion, CurvePoint, SelectionCurve};
use crate::leave_one_out::LeaveOneOut;
use crate::posterior::{Prior, Scratch};
use crate::weights::Weights;

/// The leave-one-out score of a bandwidth of a classifier.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ClassificationScore {
    /// The share of left-out labels that are predicted correctly.
    pub accuracy: f64,
    /// The mean log probability of the left-out labels. Without a prior, a row without a neighbor of its class has
    /// probability zero at every `h`; the mean excludes such rows, the same rows for every `h`.
    pub log_likelihood: f64,
}

/// Scores every `h` of the grid and selects the best by `criterion`; among equal scores the largest `h`.
pub(super) fn select(
    table: &LeaveOneOut<'_>,
    criterion: Criterion,
    grid: &[f64],
    prior: &Prior,
    of_row: &[u32],
) -> SelectionCurve<ClassificationScore> {
    let rows = table.rows.len();
    let score = |scratch: &mut Scratch, i: usize, weights: &Weights| {
        let class = of_row[table.rows[i] as usize];
        let classes = || table.neighbors.ids(i).iter().map(|&id| of_row[id as usize]);
        let is_correct = prior.summarize(classes(), weights, scratch).class == class;
        let log_probability = prior.log_probability(class, classes(), weights, scratch);
        let is_finite = log_probability > f64::NEG_INFINITY;
        let [correct, counted] = [is_correct, is_finite].map(|yes| f64::from(u8::from(yes)));
        [correct, if is_finite { log_probability } else { 0.0 }, counted]
    };
    let points: Vec<CurvePoint<ClassificationScore>> = grid
        .iter()
        .zip(table.sums(grid, score))
        .map(|(&bandwidth, [correct, log_probability, counted])| CurvePoint {
            bandwidth,
            score: ClassificationScore {
                accuracy: correct / rows as f64,
                log_likelihood: log_probability / counted.max(1.0),
            },
        })
        .collect();
    let best_accuracy = points.iter().map(|point| point.score.accuracy).fold(0.0, f64::max);
    let standard_error = (best_accuracy * (1.0 - best_accuracy) / rows as f64).sqrt();
    let eligible = |score: &ClassificationScore| match criterion {
        Criterion::LogLikelihood => true,
        Criterion::Accuracy => score.accuracy >= best_accuracy - standard_error,
    };
    let mut chosen = None;
    let mut best = f64::NEG_INFINITY;
    for (i, point) in points.iter().enumerate() {
        if eligible(&point.score) && (chosen.is_none() || point.score.log_likelihood >= best) {
            (chosen, best) = (Some(i), point.score.log_likelihood);
        }
    }
    SelectionCurve { points, chosen: chosen.expect("the bandwidth with the best accuracy is eligible"), rows }
}
