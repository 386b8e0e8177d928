//! Scores as the arrays of an npz file, which grow block by block.
//!
//! An array has no empty cells. A row without scores has NaN for a number, 0 for an integer label, an empty string for any
//! other word and -1 for the id of a neighbor; the array `scored` tells such rows from others.

use std::io::{self, Write};

use nuq::Label;
use nuq_io::{NpzArray, write_npz};

use super::columns::{Answers, Column, Columns, Neighbor, Said, integer};

/// Arrays by name.
#[derive(Default)]
pub(super) struct Arrays(Vec<Array>);

struct Array {
    name: String,
    values: Values,
    /// How many a row, where there are several.
    width: Option<usize>,
}

enum Values {
    Integers(Vec<i64>),
    Numbers(Vec<f64>),
    Words(Vec<String>),
    Flags(Vec<bool>),
}

impl Arrays {
    /// Adds the rows of a block.
    pub(super) fn append(&mut self, block: &Columns) {
        for (name, column) in &block.columns {
            self.extend(name, values(column, block.answers), None);
        }
        if let Some(scored) = &block.scored {
            self.extend("scored", Values::Flags(scored.clone()), None);
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
        let label = |neighbor: &Neighbor| match &neighbor.said {
            Said::Label(label) => Some(label.clone()),
            Said::Target(_) => None,
        };
        let target = |neighbor: &Neighbor| match neighbor.said {
            Said::Label(_) => f64::NAN,
            Said::Target(target) => target,
        };
        let (name, said) = match block.answers {
            Answers::Targets => ("neighbor_targets", Values::Numbers(each(block, target, || f64::NAN))),
            answers => ("neighbor_labels", labels(each(block, label, || None).iter(), answers)),
        };
        self.extend(name, said, width);
    }

    fn extend(&mut self, name: &str, values: Values, width: Option<usize>) {
        let Some(array) = self.0.iter_mut().find(|array| array.name == name) else {
            self.0.push(Array { name: name.to_owned(), values, width });
            return;
        };
        match (&mut array.values, values) {
            (Values::Integers(all), Values::Integers(more)) => all.extend(more),
            (Values::Numbers(all), Values::Numbers(more)) => all.extend(more),
            (Values::Words(all), Values::Words(more)) => all.extend(more),
            (Values::Flags(all), Values::Flags(more)) => all.extend(more),
            _ => unreachable!("a column keeps its kind"),
        }
    }

    /// Writes them all.
    pub(super) fn write(&self, writer: &mut dyn Write) -> io::Result<()> {
        write_npz(writer, &self.0.iter().map(Array::to_write).collect::<Vec<NpzArray<'_>>>())
    }
}

impl Array {
    fn to_write(&self) -> NpzArray<'_> {
        match &self.values {
            Values::Integers(values) => NpzArray::integers(&self.name, values, self.width),
            Values::Numbers(values) => NpzArray::numbers(&self.name, values, self.width),
            Values::Words(values) => NpzArray::strings(&self.name, values, self.width),
            Values::Flags(values) => NpzArray::booleans(&self.name, values),
        }
    }
}

fn values(column: &Column, answers: Answers) -> Values {
    match column {
        Column::Integers(values) => Values::Integers(values.iter().map(|v| v.unwrap_or_default()).collect()),
        Column::Numbers(values) => Values::Numbers(values.iter().map(|v| v.unwrap_or(f64::NAN)).collect()),
        Column::Labels(values) => labels(values.iter(), answers),
        Column::Words(values) => {
            Values::Words(values.iter().map(|v| v.unwrap_or_default().to_owned()).collect())
        }
    }
}

fn labels<'l>(labels: impl Iterator<Item = &'l Option<Label>>, answers: Answers) -> Values {
    match answers {
        Answers::Integers => {
            Values::Integers(labels.map(|v| v.as_ref().and_then(integer).unwrap_or_default()).collect())
        }
        _ => Values::Words(labels.map(|v| v.as_ref().map_or(String::new(), Label::to_string)).collect()),
    }
}

/// Something of each neighbor of each row, and something else where there are fewer.
fn each<T>(block: &Columns, of: impl Fn(&Neighbor) -> T, missing: impl Fn() -> T) -> Vec<T> {
    let rows = block.neighbors.iter().flatten();
    rows.flat_map(|row| (0..block.per_row).map(|i| row.get(i).map_or_else(&missing, &of))).collect()
}
