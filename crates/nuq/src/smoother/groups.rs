//! The groups of training rows to which Gaussian densities are fitted.

use std::borrow::Cow;

use crate::Classes;

/// The group of each training row.
#[derive(Clone, Copy)]
pub enum Groups<'g> {
    /// One group per class. `class_of_row` is the class number of each id.
    ByClass { classes: &'g Classes, class_of_row: &'g [u32] },
    /// All rows are one group.
    Single,
}

impl Groups<'_> {
    /// The groups with their numbers of rows, given the number of all rows.
    pub(crate) fn classes(&self, rows: usize) -> Cow<'_, Classes> {
        match self {
            Groups::ByClass { classes, .. } => Cow::Borrowed(classes),
            Groups::Single => Cow::Owned(Classes::single(rows)),
        }
    }

    /// The group number of each of these ids.
    pub(crate) fn of_ids(&self, ids: impl Iterator<Item = u32>) -> Vec<u32> {
        match self {
            Groups::ByClass { class_of_row, .. } => ids.map(|id| class_of_row[id as usize]).collect(),
            Groups::Single => ids.map(|_| 0).collect(),
        }
    }
}
