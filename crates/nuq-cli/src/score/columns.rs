//! The scores of a block, column by column.

use nuq::calibrate::Threshold;
use nuq::{Decision, Estimates, Label, Neighbors, NuqClassifier, NuqRegressor, Predictions, RejectRule};

/// What is told of each row.
pub(super) struct Layout {
    pub(super) rule: Option<Rule>,
    pub(super) neighbors: usize,
    /// Whether arrays, which have no empty cells, say which rows have scores.
    pub(super) tells_scored: bool,
}

/// What accepts or rejects.
pub(super) enum Rule {
    Cost(RejectRule),
    Threshold(Threshold),
}

fn word(decision: Decision) -> &'static str {
    match decision {
        Decision::Accept => "accept",
        Decision::Reject => "reject",
    }
}

/// One column; a row without scores has `None`.
pub(super) enum Column {
    Integers(Vec<Option<i64>>),
    Numbers(Vec<Option<f64>>),
    Labels(Vec<Option<Label>>),
    Words(Vec<Option<&'static str>>),
}

/// Named columns of equal length, and the nearest training rows beside them.
pub(super) struct Columns {
    pub(super) rows: usize,
    pub(super) columns: Vec<(&'static str, Column)>,
    /// For each row its neighbors: id, distance, and label or target.
    pub(super) neighbors: Option<Vec<Vec<Neighbor>>>,
    pub(super) per_row: usize,
    /// What the neighbors say.
    pub(super) answers: Answers,
    /// For each row whether it has scores, where that is told.
    pub(super) scored: Option<Vec<bool>>,
    skipped: usize,
}

/// What the training rows of a model say: the same kind in every block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Answers {
    /// Labels, all of them integers that 64 bits hold.
    Integers,
    /// Labels, as words.
    Words,
    Targets,
}

pub(super) struct Neighbor {
    pub(super) id: u32,
    pub(super) distance: f64,
    pub(super) said: Said,
}

/// What a training row says.
pub(super) enum Said {
    Label(Label),
    Target(f64),
}

impl Columns {
    pub(super) fn of_classifier(
        model: &NuqClassifier<'_>,
        found: &Predictions<'_>,
        layout: &Layout,
        place: &Place<'_>,
    ) -> Self {
        let numbers = |of: &dyn Fn(usize) -> f64| Column::Numbers(place.put(of));
        let mut columns = vec![
            ("row", place.numbers()),
            ("label", Column::Labels(place.put(|i| found.label(i).clone()))),
            ("probability", numbers(&|i| found[i].probability)),
            ("aleatoric", numbers(&|i| found[i].aleatoric)),
            ("epistemic", numbers(&|i| found[i].epistemic())),
            ("total", numbers(&|i| found[i].total())),
            ("log_epistemic", numbers(&|i| found[i].log_epistemic)),
            ("log_density", numbers(&|i| found[i].log_density)),
        ];
        if let Some(rule) = &layout.rule {
            let classes = model.classes().len();
            let decide = |i: usize| match rule {
                Rule::Cost(rule) => rule.decide(&found[i], classes),
                Rule::Threshold(threshold) => threshold.decide(&found[i]),
            };
            columns.push(("decision", Column::Words(place.put(|i| word(decide(i))))));
        }
        let said = |id: u32| {
            let class = model.training_classes()[id as usize];
            Said::Label(model.classes().label(class as usize).clone())
        };
        let neighbors = nearest(found.neighbors(), layout.neighbors, place, said);
        let is_integer = |label: &Label| integer(label).is_some();
        let answers = match model.classes().labels().iter().all(is_integer) {
            true => Answers::Integers,
            false => Answers::Words,
        };
        Self::new(columns, neighbors, answers, layout, place)
    }

    pub(super) fn of_regressor(
        model: &NuqRegressor<'_>,
        found: &Estimates,
        layout: &Layout,
        place: &Place<'_>,
    ) -> Self {
        let numbers = |of: &dyn Fn(usize) -> f64| Column::Numbers(place.put(of));
        let mut columns = vec![
            ("row", place.numbers()),
            ("mean", numbers(&|i| found[i].mean)),
            ("aleatoric", numbers(&|i| found[i].aleatoric())),
            ("epistemic", numbers(&|i| found[i].epistemic())),
            ("total", numbers(&|i| found[i].total())),
            ("log_epistemic", numbers(&|i| found[i].log_epistemic)),
            ("log_density", numbers(&|i| found[i].log_density)),
        ];
        if let Some(Rule::Threshold(threshold)) = &layout.rule {
            let decide = |i: usize| word(threshold.decide_estimate(&found[i]));
            columns.push(("decision", Column::Words(place.put(decide))));
        }
        let said = |id: u32| Said::Target(model.target(id));
        let neighbors = nearest(found.neighbors(), layout.neighbors, place, said);
        Self::new(columns, neighbors, Answers::Targets, layout, place)
    }

    fn new(
        columns: Vec<(&'static str, Column)>,
        neighbors: Option<Vec<Vec<Neighbor>>>,
        answers: Answers,
        layout: &Layout,
        place: &Place<'_>,
    ) -> Self {
        let skipped = place.rows - place.scored.len();
        let scored = layout.tells_scored.then(|| place.put(|_| ()).iter().map(Option::is_some).collect());
        let (rows, per_row) = (place.rows, layout.neighbors);
        Self { rows, columns, neighbors, per_row, answers, scored, skipped }
    }

    pub(super) fn skipped(&self) -> usize {
        self.skipped
    }

    pub(super) fn rejected(&self) -> usize {
        let decisions = self.columns.iter().find_map(|(name, column)| match column {
            Column::Words(words) if *name == "decision" => Some(words),
            _ => None,
        });
        decisions.map_or(0, |words| words.iter().filter(|word| **word == Some("reject")).count())
    }
}

/// The label as an integer that arrays hold.
pub(super) fn integer(label: &Label) -> Option<i64> {
    match label {
        Label::Int(value) => i64::try_from(*value).ok(),
        Label::Text(_) => None,
    }
}

/// Where scored rows stand among all rows of a block, and the block in the file.
pub(super) struct Place<'p> {
    pub(super) first: usize,
    pub(super) rows: usize,
    pub(super) scored: &'p [usize],
}

impl Place<'_> {
    /// The numbers of the rows in the file.
    fn numbers(&self) -> Column {
        Column::Integers((self.first..self.first + self.rows).map(|row| Some(row as i64)).collect())
    }

    fn put<T>(&self, of: impl Fn(usize) -> T) -> Vec<Option<T>> {
        let mut column: Vec<Option<T>> = (0..self.rows).map(|_| None).collect();
        for (i, &row) in self.scored.iter().enumerate() {
            column[row] = Some(of(i));
        }
        column
    }
}

fn nearest(
    neighbors: &Neighbors,
    most: usize,
    place: &Place<'_>,
    said: impl Fn(u32) -> Said,
) -> Option<Vec<Vec<Neighbor>>> {
    let of_row = |i: usize| -> Vec<Neighbor> {
        let pairs = neighbors.ids(i).iter().zip(neighbors.sq_distances(i)).take(most);
        pairs.map(|(&id, &sq)| Neighbor { id, distance: sq.sqrt(), said: said(id) }).collect()
    };
    (most > 0).then(|| place.put(of_row).into_iter().map(Option::unwrap_or_default).collect())
}
