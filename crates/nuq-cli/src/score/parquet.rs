//! Scores as the columns of a parquet file, with what is told of neighbors as columns of lists.

use std::io::{self, Write};

use nuq::Label;
use nuq_io::{ParquetColumn, ParquetWriter};

use super::columns::{Answers, Column, Columns, Neighbor, Said, integer};

/// Whether parquet files can be written.
pub(super) const IS_THERE: bool = true;

/// A file that grows group by group.
#[derive(Default)]
pub(super) struct Groups(ParquetWriter);

impl Groups {
    /// Adds the rows of a block.
    pub(super) fn append(&mut self, block: &Columns, to: &mut dyn Write) -> io::Result<()> {
        let plain = block.columns.iter().map(|(name, column)| (*name, cells(column, block.answers)));
        self.0.append(plain.chain(neighbors(block)).collect(), to)
    }

    /// Writes what is left.
    pub(super) fn finish(self, to: &mut dyn Write) -> io::Result<()> {
        self.0.finish(to)
    }
}

fn cells(column: &Column, answers: Answers) -> ParquetColumn {
    match column {
        Column::Integers(values) => ParquetColumn::Integers(values.clone()),
        Column::Numbers(values) => ParquetColumn::Numbers(values.clone()),
        Column::Words(values) => {
            ParquetColumn::Strings(values.iter().map(|v| v.map(str::to_owned)).collect())
        }
        Column::Labels(values) if answers == Answers::Integers => {
            ParquetColumn::Integers(values.iter().map(|v| v.as_ref().and_then(integer)).collect())
        }
        Column::Labels(values) => {
            ParquetColumn::Strings(values.iter().map(|v| v.as_ref().map(Label::to_string)).collect())
        }
    }
}

/// Ids, distances, and labels or targets; empty where a row has no scores.
fn neighbors(block: &Columns) -> Vec<(&'static str, ParquetColumn)> {
    let Some(rows) = &block.neighbors else { return vec![] };
    let answers = match block.answers {
        Answers::Integers => {
            ("neighbor_labels", ParquetColumn::IntegerLists(lists(rows, |n| label(n).and_then(integer))))
        }
        Answers::Words => {
            ("neighbor_labels", ParquetColumn::StringLists(lists(rows, |n| label(n).map(Label::to_string))))
        }
        Answers::Targets => ("neighbor_targets", ParquetColumn::NumberLists(lists(rows, target))),
    };
    vec![
        ("neighbor_ids", ParquetColumn::IntegerLists(lists(rows, |n| Some(i64::from(n.id))))),
        ("neighbor_distances", ParquetColumn::NumberLists(lists(rows, |n| Some(n.distance)))),
        answers,
    ]
}

/// A list for each row that has neighbors.
fn lists<T>(rows: &[Vec<Neighbor>], of: impl Fn(&Neighbor) -> Option<T>) -> Vec<Option<Vec<T>>> {
    rows.iter().map(|row| (!row.is_empty()).then(|| row.iter().filter_map(&of).collect())).collect()
}

fn label(neighbor: &Neighbor) -> Option<&Label> {
    match &neighbor.said {
        Said::Label(label) => Some(label),
        Said::Target(_) => None,
    }
}

fn target(neighbor: &Neighbor) -> Option<f64> {
    match neighbor.said {
        Said::Label(_) => None,
        Said::Target(target) => Some(target),
    }
}
