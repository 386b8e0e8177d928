//! Leave-one-out selection of a classifier's bandwidth.

use crate::bandwidth::leave_one_out::LeaveOneOut;
use crate::bandwidth::{Criterion, CurvePoint, SelectionCurve};
use crate::posterior::{Prior, Scratch};
use crate::weights::Weights;

/// How a bandwidth predicted the labels of left-out training points.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ClassificationScore {
    /// The share predicted right.
    pub accuracy: f64,
    /// The mean log probability of their labels. Without a prior, points with no neighbor of their own class
    /// have probability zero at every h; they are left out of this mean, the same points for every h.
    pub log_likelihood: f64,
}

/// Scores every h of the grid and takes the best by `criterion`; among equals the widest.
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
        let right = prior.summarize(classes(), weights, scratch).class == class;
        let log_probability = prior.log_probability(class, classes(), weights, scratch);
        let known = log_probability > f64::NEG_INFINITY;
        let [right, counted] = [right, known].map(|yes| f64::from(u8::from(yes)));
        [right, if known { log_probability } else { 0.0 }, counted]
    };
    let points: Vec<CurvePoint<ClassificationScore>> = grid
        .iter()
        .zip(table.sums(grid, score))
        .map(|(&bandwidth, [right, log_probability, counted])| CurvePoint {
            bandwidth,
            score: ClassificationScore {
                accuracy: right / rows as f64,
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
    SelectionCurve { points, chosen: chosen.expect("the best accuracy is eligible"), rows }
}
