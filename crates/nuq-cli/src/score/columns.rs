//! The results of a block as columns.

use std::borrow::Cow;

use nuq::calibrate::{IntervalRule, Measure, PredictionSets, ScoreThreshold, SetRule, Threshold};
use nuq::{Decision, Estimates, Label, Neighbors, NuqClassifier, NuqRegressor, Predictions, RejectRule};
use nuq_io::KeptColumn;

use crate::column::Column;

/// The optional columns.
#[derive(Default)]
pub(super) struct Layout {
    pub(super) rule: Option<Rule>,
    /// Prediction sets of a classifier.
    pub(super) sets: Option<SetRule>,
    /// Prediction intervals of a regressor.
    pub(super) intervals: Option<IntervalRule>,
    /// Number of nearest training rows per row.
    pub(super) neighbors: usize,
    /// Whether npz files, which have no empty cells, get an array that marks the scored rows.
    pub(super) has_scored_flags: bool,
}

/// A decision rule.
pub(super) enum Rule {
    Cost(RejectRule),
    Threshold(Threshold),
}

/// The results of one block: named columns of equal length, and the nearest training rows of each row.
pub(super) struct Columns {
    pub(super) rows: usize,
    pub(super) columns: Vec<(Cow<'static, str>, Column)>,
    /// The neighbors of each row.
    pub(super) neighbors: Option<Vec<Vec<Neighbor>>>,
    /// Largest number of neighbors of a row.
    pub(super) per_row: usize,
    pub(super) truth_kind: TruthKind,
    /// Whether each row was scored, if the layout has these flags.
    pub(super) scored: Option<Vec<bool>>,
    skipped: usize,
}

/// The type of the training labels or targets; the same in every block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TruthKind {
    /// Labels that are booleans.
    Booleans,
    /// Labels that all fit into 64-bit integers.
    Integers,
    /// Other labels, which are written as strings.
    Strings,
    Targets,
}

pub(super) struct Neighbor {
    pub(super) id: u32,
    pub(super) distance: f64,
    pub(super) truth: Truth,
}

/// The label or target of a training row.
pub(super) enum Truth {
    Label(Label),
    Target(f64),
}

impl Columns {
    pub(super) fn of_classifier(
        model: &NuqClassifier<'_>,
        predictions: &Predictions<'_>,
        sets: Option<&PredictionSets>,
        layout: &Layout,
        block: &BlockRows<'_>,
    ) -> Self {
        let numbers = |of: &dyn Fn(usize) -> f64| Column::Numbers(block.scatter(of));
        let mut columns = vec![
            ("row", block.numbers()),
            ("label", Column::Labels(block.scatter(|i| predictions.label(i).clone()))),
            ("probability", numbers(&|i| predictions[i].probability)),
            ("aleatoric", numbers(&|i| predictions[i].aleatoric)),
            ("epistemic", numbers(&|i| predictions[i].epistemic())),
            ("total", numbers(&|i| predictions[i].total())),
            ("log_epistemic", numbers(&|i| predictions[i].log_epistemic)),
            ("log_total", numbers(&|i| predictions[i].log_total)),
            ("log_density", numbers(&|i| predictions[i].log_density)),
        ];
        let mut accepted = None;
        if let Some(rule) = &layout.rule {
            let classes = model.classes().len();
            let decide = |i: usize| match rule {
                Rule::Cost(rule) => rule.decide(&predictions[i], classes),
                Rule::Threshold(threshold) => threshold.decide(&predictions[i]),
            };
            let accept: Vec<bool> = (0..predictions.len()).map(|i| decide(i) == Decision::Accept).collect();
            columns.push(("accept", Column::Booleans(block.scatter(|i| accept[i]))));
            accepted = Some(accept);
        }
        if let Some(sets) = sets {
            // A row that is rejected for its epistemic uncertainty or density is unlike the training rows: its set is empty. A row that
            // another rule rejects keeps its set: it may lie between two known classes.
            let detects_unknown = match &layout.rule {
                Some(Rule::Threshold(threshold)) => {
                    matches!(threshold.measure, Measure::Epistemic | Measure::Density)
                }
                _ => false,
            };
            let is_known = |i: usize| {
                !detects_unknown || accepted.as_ref().is_none_or(|accepted: &Vec<bool>| accepted[i])
            };
            let set = |i: usize| -> Vec<Label> {
                let included = model.classes().labels().iter().zip(sets.row(i)).filter(|(_, is_in)| **is_in);
                included.filter(|_| is_known(i)).map(|(label, _)| label.clone()).collect()
            };
            columns.push(("set", Column::Sets(block.scatter(set))));
        }
        let truth = |id: u32| {
            let class = model.training_classes()[id as usize];
            Truth::Label(model.classes().label(class as usize).clone())
        };
        let neighbors = nearest(predictions.neighbors(), layout.neighbors, block, truth);
        let labels = model.classes().labels();
        let truth_kind = if labels.iter().all(|label| boolean(label).is_some()) {
            TruthKind::Booleans
        } else if labels.iter().all(|label| integer(label).is_some()) {
            TruthKind::Integers
        } else {
            TruthKind::Strings
        };
        Self::new(columns, neighbors, truth_kind, layout, block)
    }

    pub(super) fn of_regressor(
        model: &NuqRegressor<'_>,
        estimates: &Estimates,
        layout: &Layout,
        block: &BlockRows<'_>,
    ) -> Self {
        let numbers = |of: &dyn Fn(usize) -> f64| Column::Numbers(block.scatter(of));
        let mut columns = vec![
            ("row", block.numbers()),
            ("mean", numbers(&|i| estimates[i].mean)),
            ("aleatoric", numbers(&|i| estimates[i].aleatoric())),
            ("epistemic", numbers(&|i| estimates[i].epistemic())),
            ("total", numbers(&|i| estimates[i].total())),
            ("log_aleatoric", numbers(&|i| estimates[i].log_aleatoric)),
            ("log_epistemic", numbers(&|i| estimates[i].log_epistemic)),
            ("log_total", numbers(&|i| estimates[i].log_total)),
            ("log_density", numbers(&|i| estimates[i].log_density)),
        ];
        if let Some(Rule::Threshold(threshold)) = &layout.rule {
            let accept = |i: usize| threshold.decide_estimate(&estimates[i]) == Decision::Accept;
            columns.push(("accept", Column::Booleans(block.scatter(accept))));
        }
        if let Some(rule) = &layout.intervals {
            columns.push(("low", numbers(&|i| rule.interval(&estimates[i]).0)));
            columns.push(("high", numbers(&|i| rule.interval(&estimates[i]).1)));
        }
        let truth = |id: u32| Truth::Target(model.target(id));
        let neighbors = nearest(estimates.neighbors(), layout.neighbors, block, truth);
        Self::new(columns, neighbors, TruthKind::Targets, layout, block)
    }

    /// The scores of a baseline and the decisions of a threshold.
    pub(super) fn of_baseline(
        scores: &[f64],
        threshold: Option<&ScoreThreshold>,
        layout: &Layout,
        block: &BlockRows<'_>,
    ) -> Self {
        let mut columns =
            vec![("row", block.numbers()), ("score", Column::Numbers(block.scatter(|i| scores[i])))];
        if let Some(threshold) = threshold {
            let accept = |i: usize| threshold.decide(scores[i]) == Decision::Accept;
            columns.push(("accept", Column::Booleans(block.scatter(accept))));
        }
        Self::new(columns, None, TruthKind::Strings, layout, block)
    }

    fn new(
        columns: Vec<(&'static str, Column)>,
        neighbors: Option<Vec<Vec<Neighbor>>>,
        truth_kind: TruthKind,
        layout: &Layout,
        block: &BlockRows<'_>,
    ) -> Self {
        let skipped = block.count - block.scored.len();
        let scored =
            layout.has_scored_flags.then(|| block.scatter(|_| ()).iter().map(Option::is_some).collect());
        let (rows, per_row) = (block.count, layout.neighbors);
        let columns = columns.into_iter().map(|(name, column)| (Cow::Borrowed(name), column)).collect();
        Self { rows, columns, neighbors, per_row, truth_kind, scored, skipped }
    }

    /// Inserts the kept columns, which are copied from the input, after the row numbers. The error is the first kept name that a column of
    /// the results already has, or that is reserved: `scored`, `neighbors`, and names that start with `neighbor_`.
    pub(super) fn insert_kept(&mut self, names: &[String], kept: Vec<KeptColumn>) -> Result<(), String> {
        let is_taken = |name: &&String| {
            self.columns.iter().any(|(other, _)| other == *name)
                || ["scored", "neighbors"].contains(&name.as_str())
                || name.starts_with("neighbor_")
        };
        if let Some(name) = names.iter().find(is_taken) {
            return Err(name.clone());
        }
        let kept = names.iter().zip(kept).map(|(name, column)| (Cow::Owned(name.clone()), column.into()));
        self.columns.splice(1..1, kept);
        Ok(())
    }

    pub(super) fn skipped(&self) -> usize {
        self.skipped
    }

    pub(super) fn rejected(&self) -> usize {
        let flags = self.columns.iter().find_map(|(name, column)| match column {
            Column::Booleans(flags) if name == "accept" => Some(flags),
            _ => None,
        });
        flags.map_or(0, |flags| flags.iter().filter(|flag| **flag == Some(false)).count())
    }
}

/// The label as a 64-bit integer, if it is one.
pub(super) fn integer(label: &Label) -> Option<i64> {
    match label {
        Label::Int(value) => i64::try_from(*value).ok(),
        Label::Bool(_) | Label::Text(_) => None,
    }
}

/// The label as a boolean, if it is one.
pub(super) fn boolean(label: &Label) -> Option<bool> {
    match label {
        Label::Bool(value) => Some(*value),
        Label::Int(_) | Label::Text(_) => None,
    }
}

/// The rows of a block, and the positions of those that were scored.
pub(super) struct BlockRows<'b> {
    /// Number of the block's first row in the file.
    pub(super) first: usize,
    pub(super) count: usize,
    /// Positions in the block of the scored rows, in increasing order.
    pub(super) scored: &'b [usize],
}

impl BlockRows<'_> {
    /// The row numbers in the file.
    fn numbers(&self) -> Column {
        Column::Integers((self.first..self.first + self.count).map(|row| Some(row as i64)).collect())
    }

    /// Puts the value of each scored row at its position in the block. `of(i)` is the value of the i-th scored row.
    fn scatter<T>(&self, of: impl Fn(usize) -> T) -> Vec<Option<T>> {
        let mut column: Vec<Option<T>> = (0..self.count).map(|_| None).collect();
        for (i, &row) in self.scored.iter().enumerate() {
            column[row] = Some(of(i));
        }
        column
    }
}

fn nearest(
    neighbors: &Neighbors,
    most: usize,
    block: &BlockRows<'_>,
    truth: impl Fn(u32) -> Truth,
) -> Option<Vec<Vec<Neighbor>>> {
    let of_query = |i: usize| -> Vec<Neighbor> {
        let pairs = neighbors.ids(i).iter().zip(neighbors.sq_distances(i)).take(most);
        pairs.map(|(&id, &sq)| Neighbor { id, distance: sq.sqrt(), truth: truth(id) }).collect()
    };
    (most > 0).then(|| block.scatter(of_query).into_iter().map(Option::unwrap_or_default).collect())
}
