//! Leave-one-out selection of a classifier's bandwidth.

use crate::bandwidth::{Criterion, CurvePoint, Selector};
use crate::leave_one_out::LeaveOneOut;
use crate::posterior::{Prior, Scratch};
use crate::weights::Weights;

/// The leave-one-out score of a bandwidth of a classifier.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ClassificationScore {
    /// The share of left-out labels that are predicted correctly, weighted by the sample weights.
    pub accuracy: f64,
    /// The mean log probability of the left-out labels, weighted by the sample weights. Without a prior, the label of a row
    /// has probability zero for every `h` if no neighbor has this label. The mean excludes such rows; they are the same for
    /// every `h`.
    pub log_likelihood: f64,
}

/// Selects the bandwidth by `criterion`.
pub(super) struct ClassificationSelector<'s> {
    pub(super) criterion: Criterion,
    pub(super) prior: &'s Prior,
    pub(super) class_of_row: &'s [u32],
}

impl Selector for ClassificationSelector<'_> {
    type Score = ClassificationScore;

    fn scores(&self, left_out: &LeaveOneOut<'_>, grid: &[f64]) -> Vec<ClassificationScore> {
        let Self { prior, class_of_row, .. } = *self;
        let total = left_out.total_weight();
        let score = |scratch: &mut Scratch, i: usize, weights: &Weights| {
            let class = class_of_row[left_out.rows[i] as usize];
            let classes = || left_out.neighbors.ids(i).iter().map(|&id| class_of_row[id as usize]);
            let is_correct = prior.summarize(classes(), weights, scratch).class == class;
            let log_probability = prior.log_probability(class, classes(), weights, scratch);
            let is_finite = log_probability > f64::NEG_INFINITY;
            let [correct, counted] = [is_correct, is_finite].map(|yes| f64::from(u8::from(yes)));
            [correct, if is_finite { log_probability } else { 0.0 }, counted]
        };
        let sums = left_out.sums(grid, score).into_iter();
        sums.map(|[correct, log_probability, counted]| ClassificationScore {
            accuracy: correct / total,
            log_likelihood: if counted > 0.0 { log_probability / counted } else { 0.0 },
        })
        .collect()
    }

    fn choose(&self, points: &[CurvePoint<ClassificationScore>], rows: usize) -> usize {
        let best_accuracy = points.iter().map(|point| point.score.accuracy).fold(0.0, f64::max);
        let standard_error = (best_accuracy * (1.0 - best_accuracy) / rows as f64).sqrt();
        let eligible = |score: &ClassificationScore| match self.criterion {
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
        chosen.expect("the bandwidth with the best accuracy is eligible")
    }
}
