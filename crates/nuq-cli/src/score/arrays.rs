//! Scores as the arrays of an npz file. The arrays are extended block by block and written at the end.
//!
//! An array has no empty cells. Rows that contain a NaN or an infinity are skipped rows (`--on-bad-rows skip`); kept columns are columns
//! of the input that are copied to the output. A missing result of a skipped row, or an empty cell of a kept column, is NaN in an array
//! of numbers, 0 in an array of integers, false in an array of booleans, an empty string in an array of strings, and -1 for the id of a
//! neighbor. Skipped rows keep their row numbers and the values of kept columns. The array `scored` is false for skipped rows.

use std::io::{self, Write};

use nuq::Label;
use nuq_io::{NpzArray, write_npz};

use super::columns::{Columns, Neighbor, Truth, TruthKind, boolean, integer};
use crate::column::{Column, set_text};

/// Arrays by name.
#[derive(Default)]
pub(super) struct Arrays(Vec<Array>);

struct Array {
    name: String,
    values: Values,
    /// Number of values per row; `None` for a one-dimensional array.
    width: Option<usize>,
}

enum Values {
    Integers(Vec<i64>),
    Numbers(Vec<f64>),
    Strings(Vec<String>),
    Booleans(Vec<bool>),
}

impl Arrays {
    /// Adds the rows of a block.
    pub(super) fn append(&mut self, block: &Columns) {
        for (name, column) in &block.columns {
            self.extend(name, values(column, block.truth_kind), None);
        }
        if let Some(scored) = &block.scored {
            self.extend("scored", Values::Booleans(scored.clone()), None);
        }
        if block.neighbors.is_some() {
            self.append_neighbors(block);
        }
    }

    fn append_neighbors(&mut self, block: &Columns) {
        let width = Some(block.per_row);
        let ids = each(block, |n| i64::from(n.id), || -1);
        self.extend("neighbor_ids", Values::Integers(ids), width);
        let distances = each(block, |n| n.distance, || f64::NAN);
        self.extend("neighbor_distances", Values::Numbers(distances), width);
        let label = |neighbor: &Neighbor| match &neighbor.truth {
            Truth::Label(label) => Some(label.clone()),
            Truth::Target(_) => None,
        };
        let target = |neighbor: &Neighbor| match neighbor.truth {
            Truth::Label(_) => f64::NAN,
            Truth::Target(target) => target,
        };
        let (name, truths) = match block.truth_kind {
            TruthKind::Targets => ("neighbor_targets", Values::Numbers(each(block, target, || f64::NAN))),
            kind => ("neighbor_labels", labels(each(block, label, || None).iter(), kind)),
        };
        self.extend(name, truths, width);
    }

    fn extend(&mut self, name: &str, values: Values, width: Option<usize>) {
        let Some(array) = self.0.iter_mut().find(|array| array.name == name) else {
            self.0.push(Array { name: name.to_owned(), values, width });
            return;
        };
        match (&mut array.values, values) {
            (Values::Integers(all), Values::Integers(more)) => all.extend(more),
            (Values::Numbers(all), Values::Numbers(more)) => all.extend(more),
            (Values::Strings(all), Values::Strings(more)) => all.extend(more),
            (Values::Booleans(all), Values::Booleans(more)) => all.extend(more),
            _ => unreachable!("a column has the same type in every block"),
        }
    }

    /// Writes the npz file.
    pub(super) fn write(&self, writer: &mut dyn Write) -> io::Result<()> {
        write_npz(writer, &self.0.iter().map(Array::to_write).collect::<Vec<NpzArray<'_>>>())
    }
}

impl Array {
    fn to_write(&self) -> NpzArray<'_> {
        match &self.values {
            Values::Integers(values) => NpzArray::integers(&self.name, values, self.width),
            Values::Numbers(values) => NpzArray::numbers(&self.name, values, self.width),
            Values::Strings(values) => NpzArray::strings(&self.name, values, self.width),
            Values::Booleans(values) => NpzArray::booleans(&self.name, values, self.width),
        }
    }
}

fn values(column: &Column, kind: TruthKind) -> Values {
    match column {
        Column::Integers(values) => Values::Integers(values.iter().map(|v| v.unwrap_or_default()).collect()),
        Column::Numbers(values) => Values::Numbers(values.iter().map(|v| v.unwrap_or(f64::NAN)).collect()),
        Column::Labels(values) => labels(values.iter(), kind),
        Column::Sets(values) => {
            Values::Strings(values.iter().map(|set| set.as_deref().map_or(String::new(), set_text)).collect())
        }
        Column::Strings(values) => {
            Values::Strings(values.iter().map(|v| v.clone().unwrap_or_default()).collect())
        }
        Column::Booleans(values) => Values::Booleans(values.iter().map(|v| v.unwrap_or_default()).collect()),
    }
}

fn labels<'l>(labels: impl Iterator<Item = &'l Option<Label>>, kind: TruthKind) -> Values {
    match kind {
        TruthKind::Booleans => {
            Values::Booleans(labels.map(|v| v.as_ref().and_then(boolean).unwrap_or_default()).collect())
        }
        TruthKind::Integers => {
            Values::Integers(labels.map(|v| v.as_ref().and_then(integer).unwrap_or_default()).collect())
        }
        _ => Values::Strings(labels.map(|v| v.as_ref().map_or(String::new(), Label::to_string)).collect()),
    }
}

/// `per_row` values for each row: one per neighbor, and `missing()` for each neighbor that the row does not have.
fn each<T>(block: &Columns, of: impl Fn(&Neighbor) -> T, missing: impl Fn() -> T) -> Vec<T> {
    let rows = block.neighbors.iter().flatten();
    rows.flat_map(|row| (0..block.per_row).map(|i| row.get(i).map_or_else(&missing, &of))).collect()
}
