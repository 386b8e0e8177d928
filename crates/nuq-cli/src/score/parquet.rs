//! Scores as the columns of a parquet file; neighbors are columns of lists.

use std::io::{self, Write};

use nuq::Label;
use nuq_io::{ParquetColumn, ParquetWriter};

use super::columns::{Columns, Neighbor, Truth, TruthKind, boolean, integer};
use crate::column::{Column, set_text};

/// Whether this build can write parquet files.
pub(super) const IS_AVAILABLE: bool = true;

/// A parquet file that is written row group by row group.
#[derive(Default)]
pub(super) struct Groups(ParquetWriter);

impl Groups {
    /// Adds the rows of a block.
    pub(super) fn append(&mut self, block: &Columns, to: &mut dyn Write) -> io::Result<()> {
        let plain =
            block.columns.iter().map(|(name, column)| (name.as_ref(), cells(column, block.truth_kind)));
        let neighbors = block.neighbors.iter().flat_map(|rows| neighbors(rows, block.truth_kind));
        self.0.append(plain.chain(neighbors).collect(), to)
    }

    /// Writes the last row group and the footer.
    pub(super) fn finish(self, to: &mut dyn Write) -> io::Result<()> {
        self.0.finish(to)
    }
}

fn cells(column: &Column, kind: TruthKind) -> ParquetColumn {
    match column {
        Column::Integers(values) => ParquetColumn::Integers(values.clone()),
        Column::Numbers(values) => ParquetColumn::Numbers(values.clone()),
        Column::Booleans(values) => ParquetColumn::Booleans(values.clone()),
        Column::Labels(values) if kind == TruthKind::Booleans => {
            ParquetColumn::Booleans(values.iter().map(|v| v.as_ref().and_then(boolean)).collect())
        }
        Column::Strings(values) => ParquetColumn::Strings(values.clone()),
        Column::Sets(values) => {
            ParquetColumn::Strings(values.iter().map(|set| set.as_deref().map(set_text)).collect())
        }
        Column::Labels(values) if kind == TruthKind::Integers => {
            ParquetColumn::Integers(values.iter().map(|v| v.as_ref().and_then(integer)).collect())
        }
        Column::Labels(values) => {
            ParquetColumn::Strings(values.iter().map(|v| v.as_ref().map(Label::to_string)).collect())
        }
    }
}

/// Ids, distances, and labels or targets; a skipped row has empty cells.
fn neighbors(rows: &[Vec<Neighbor>], kind: TruthKind) -> [(&'static str, ParquetColumn); 3] {
    let truths = match kind {
        TruthKind::Integers => {
            ("neighbor_labels", ParquetColumn::IntegerLists(lists(rows, |n| label(n).and_then(integer))))
        }
        TruthKind::Booleans => {
            ("neighbor_labels", ParquetColumn::BooleanLists(lists(rows, |n| label(n).and_then(boolean))))
        }
        TruthKind::Strings => {
            ("neighbor_labels", ParquetColumn::StringLists(lists(rows, |n| label(n).map(Label::to_string))))
        }
        TruthKind::Targets => ("neighbor_targets", ParquetColumn::NumberLists(lists(rows, target))),
    };
    [
        ("neighbor_ids", ParquetColumn::IntegerLists(lists(rows, |n| Some(i64::from(n.id))))),
        ("neighbor_distances", ParquetColumn::NumberLists(lists(rows, |n| Some(n.distance)))),
        truths,
    ]
}

/// A list for each row that has neighbors.
fn lists<T>(rows: &[Vec<Neighbor>], of: impl Fn(&Neighbor) -> Option<T>) -> Vec<Option<Vec<T>>> {
    rows.iter().map(|row| (!row.is_empty()).then(|| row.iter().filter_map(&of).collect())).collect()
}

fn label(neighbor: &Neighbor) -> Option<&Label> {
    match &neighbor.truth {
        Truth::Label(label) => Some(label),
        Truth::Target(_) => None,
    }
}

fn target(neighbor: &Neighbor) -> Option<f64> {
    match neighbor.truth {
        Truth::Label(_) => None,
        Truth::Target(target) => Some(target),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn boolean_labels_of_neighbors_are_lists_of_booleans() {
        let neighbor = |value| Neighbor { id: 0, distance: 0.0, truth: Truth::Label(Label::Bool(value)) };
        let rows = [vec![neighbor(true), neighbor(false)], vec![]];
        let [.., (name, column)] = neighbors(&rows, TruthKind::Booleans);
        assert_eq!(name, "neighbor_labels");
        assert_eq!(format!("{column:?}"), "BooleanLists([Some([true, false]), None])");
    }
}
