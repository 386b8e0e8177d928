//! Criteria and results of bandwidth selection by leave-one-out.

use nuq_neighbors::choices;

use crate::leave_one_out::LeaveOneOut;

/// The criterion that selects a classifier's bandwidth.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Criterion {
    /// The mean log probability of the left-out labels. It gives the best aleatoric uncertainty.
    #[default]
    LogLikelihood,
    /// The share of left-out labels that are predicted correctly, as in the paper. On embeddings of a well-trained
    /// network this accuracy is nearly constant over several orders of magnitude of `h`. Therefore, among all `h` whose
    /// accuracy is within one standard error of the best, the one with the best log-likelihood is selected.
    Accuracy,
}

choices!(Criterion, "bandwidth", { LogLikelihood => "log_likelihood", Accuracy => "accuracy" });

/// The criterion that selects a regressor's bandwidth: the mean squared error of the left-out targets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SquaredError;

/// Scores bandwidths by leave-one-out and chooses the best of them.
pub(crate) trait Selector {
    type Score: Clone;

    /// The leave-one-out score of each bandwidth.
    fn scores(&self, left_out: &LeaveOneOut<'_>, grid: &[f64]) -> Vec<Self::Score>;

    /// The position of the best bandwidth in `points`, which is not empty. If several have the best score, the largest
    /// bandwidth is chosen. `rows` is the number of left-out rows.
    fn choose(&self, points: &[CurvePoint<Self::Score>], rows: usize) -> usize;
}

/// One bandwidth of the grid with its leave-one-out score.
#[derive(Debug, Clone, PartialEq)]
pub struct CurvePoint<S> {
    /// The bandwidth `h`.
    pub bandwidth: f64,
    /// Its score over all left-out rows.
    pub score: S,
}

/// The scores of all bandwidths of the grid.
#[derive(Debug, Clone, PartialEq)]
pub struct SelectionCurve<S> {
    /// The grid, by ascending bandwidth.
    pub points: Vec<CurvePoint<S>>,
    /// The position of the selected bandwidth in `points`.
    pub chosen: usize,
    /// The number of left-out training rows.
    pub rows: usize,
}

impl<S> SelectionCurve<S> {
    /// The selected bandwidth.
    #[must_use]
    pub fn bandwidth(&self) -> f64 {
        self.points[self.chosen].bandwidth
    }

    /// The same curve with other scores.
    pub(crate) fn map<T>(self, score: impl Fn(S) -> T) -> SelectionCurve<T> {
        let map = |point: CurvePoint<S>| CurvePoint { bandwidth: point.bandwidth, score: score(point.score) };
        let Self { points, chosen, rows } = self;
        SelectionCurve { points: points.into_iter().map(map).collect(), chosen, rows }
    }

    /// Whether the selected bandwidth is the smallest of the grid. The optimum may then lie below the grid.
    #[must_use]
    pub fn is_at_lower_edge(&self) -> bool {
        self.chosen == 0
    }

    /// Whether the selected bandwidth is the largest of the grid. With this bandwidth all neighbors have nearly equal
    /// weights, and a larger bandwidth would give the same predictions. It is selected if, for most training rows, all
    /// neighbors have the class of the row.
    #[must_use]
    pub fn is_at_upper_edge(&self) -> bool {
        self.chosen + 1 == self.points.len()
    }
}
