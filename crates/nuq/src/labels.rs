//! Class labels: booleans, integers or strings.

use std::collections::HashMap;
use std::fmt;

use crate::Error;

/// A class label.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Label {
    /// A boolean.
    Bool(bool),
    /// An integer. The type can represent every signed and unsigned integer of 64 bits.
    Int(i128),
    /// A string.
    Text(String),
}

impl fmt::Display for Label {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Label::Bool(value) => value.fmt(f),
            Label::Int(value) => value.fmt(f),
            Label::Text(value) => value.fmt(f),
        }
    }
}

impl Label {
    /// Texts that numpy, pandas, R and databases write for a missing value.
    pub const MISSING: [&str; 11] =
        ["", "nan", "NaN", "NAN", "NA", "<NA>", "N/A", "n/a", "null", "NULL", "None"];

    /// Whether the label is a text of [`MISSING`](Self::MISSING). Readers of files and the Python package reject such labels.
    ///
    /// ```
    /// use nuq::Label;
    /// assert!(Label::from("NA").is_missing() && !Label::from("nab").is_missing() && !Label::from(0).is_missing());
    /// ```
    #[must_use]
    pub fn is_missing(&self) -> bool {
        matches!(self, Label::Text(text) if Self::MISSING.contains(&text.as_str()))
    }
}

impl From<&Label> for Label {
    fn from(value: &Label) -> Self {
        value.clone()
    }
}

impl PartialEq<str> for Label {
    fn eq(&self, other: &str) -> bool {
        matches!(self, Label::Text(text) if text == other)
    }
}

impl PartialEq<i64> for Label {
    fn eq(&self, other: &i64) -> bool {
        *self == Label::Int(i128::from(*other))
    }
}

impl PartialEq<bool> for Label {
    fn eq(&self, other: &bool) -> bool {
        *self == Label::Bool(*other)
    }
}

impl From<bool> for Label {
    fn from(value: bool) -> Self {
        Label::Bool(value)
    }
}

impl From<&bool> for Label {
    fn from(value: &bool) -> Self {
        Label::Bool(*value)
    }
}

impl From<&str> for Label {
    fn from(value: &str) -> Self {
        Label::Text(value.to_owned())
    }
}

impl From<&String> for Label {
    fn from(value: &String) -> Self {
        Label::Text(value.clone())
    }
}

impl From<&&str> for Label {
    fn from(value: &&str) -> Self {
        Label::Text((*value).to_owned())
    }
}

macro_rules! label_from_integers {
    ($($int:ty),*) => {$(
        impl From<$int> for Label {
            fn from(value: $int) -> Self {
                Label::Int(value as i128)
            }
        }
        impl From<&$int> for Label {
            fn from(value: &$int) -> Self {
                Label::Int(*value as i128)
            }
        }
    )*};
}
label_from_integers!(i8, i16, i32, i64, isize, u8, u16, u32, u64, usize);

/// The classes of a training set: sorted labels with their numbers of rows.
///
/// ```
/// use nuq::Classes;
/// let (classes, rows) = Classes::encode(&["dog", "cat", "dog"]);
/// assert_eq!(classes.label(0), "cat");
/// assert_eq!(rows, [1, 0, 1]);
/// assert_eq!(classes.counts(), [1, 2]);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Classes {
    labels: Vec<Label>,
    counts: Vec<u64>,
}

impl Classes {
    /// Sorts the distinct labels (booleans: false first; integers by value; strings by code point) and returns the
    /// class number of each row.
    #[must_use]
    pub fn encode<'l, L>(labels: &'l [L]) -> (Self, Vec<u32>)
    where
        Label: From<&'l L>,
    {
        let mut number: HashMap<Label, u32> = HashMap::new();
        let mut distinct: Vec<Label> = Vec::new();
        let mut rows: Vec<u32> = labels
            .iter()
            .map(|label| {
                let label = Label::from(label);
                let next = distinct.len() as u32;
                *number.entry(label).or_insert_with_key(|label| {
                    distinct.push(label.clone());
                    next
                })
            })
            .collect();
        let mut order: Vec<u32> = (0..distinct.len() as u32).collect();
        order.sort_unstable_by(|&a, &b| distinct[a as usize].cmp(&distinct[b as usize]));
        let mut rank = vec![0u32; order.len()];
        order.iter().enumerate().for_each(|(new, &old)| rank[old as usize] = new as u32);
        rows.iter_mut().for_each(|class| *class = rank[*class as usize]);
        distinct.sort_unstable();
        let mut counts = vec![0u64; distinct.len()];
        rows.iter().for_each(|&class| counts[class as usize] += 1);
        (Self { labels: distinct, counts }, rows)
    }

    /// Whether the labels look like targets of a regression: all labels are integers, and there are more than 20
    /// distinct ones and more than one distinct label per three rows.
    #[must_use]
    pub fn look_like_targets(&self) -> bool {
        let rows: u64 = self.counts.iter().sum();
        let are_integers = self.labels.iter().all(|label| matches!(label, Label::Int(_)));
        are_integers && self.labels.len() > 20 && 3 * self.labels.len() as u64 > rows
    }

    /// Classes from stored labels and the class number of each row. `None` if the labels are not sorted and distinct, if a class
    /// has no rows, or if the class number of a row has no label.
    pub(crate) fn restored(labels: Vec<Label>, class_of_row: &[u32]) -> Option<Self> {
        if !labels.windows(2).all(|pair| pair[0] < pair[1]) {
            return None;
        }
        let mut counts = vec![0u64; labels.len()];
        for &class in class_of_row {
            *counts.get_mut(class as usize)? += 1;
        }
        let every_class_has_rows = counts.iter().all(|&count| count > 0);
        every_class_has_rows.then_some(Self { labels, counts })
    }

    /// One class with all rows, for data without labels.
    pub(crate) fn single(rows: usize) -> Self {
        Self { labels: vec![Label::Int(0)], counts: vec![rows as u64] }
    }

    /// Adds one row per label. Labels without a class become new classes.
    ///
    /// Returns the new number of each former class (`None` if the numbers did not change) and the class number of each
    /// label.
    pub(crate) fn insert(&mut self, labels: &[Label]) -> (Option<Vec<u32>>, Vec<u32>) {
        let mut new: Vec<Label> =
            labels.iter().filter(|label| self.number(label).is_none()).cloned().collect();
        new.sort_unstable();
        new.dedup();
        let renumbering = (!new.is_empty()).then(|| self.add_classes(new));
        let mut add_row = |label: &Label| {
            let class = self.number(label).expect("labels without a class were added");
            self.counts[class] += 1;
            class as u32
        };
        let numbers = labels.iter().map(&mut add_row).collect();
        (renumbering, numbers)
    }

    /// Removes one row for each entry of `classes`, which is the class of the row. Then removes the classes without
    /// rows.
    ///
    /// Returns the new number of each former class (`None` if the numbers did not change). The number of a removed
    /// class is 0.
    pub(crate) fn remove(&mut self, classes: impl Iterator<Item = u32>) -> Option<Vec<u32>> {
        classes.for_each(|class| self.counts[class as usize] -= 1);
        if self.counts.iter().all(|&count| count > 0) {
            return None;
        }
        let mut renumbering = vec![0; self.len()];
        let remaining = renumbering.iter_mut().zip(&self.counts).filter(|(_, count)| **count > 0);
        remaining.enumerate().for_each(|(new, (number, _))| *number = new as u32);
        let mut counts = self.counts.iter();
        self.labels.retain(|_| counts.next().is_some_and(|&count| count > 0));
        self.counts.retain(|&count| count > 0);
        Some(renumbering)
    }

    /// The class number of a label.
    fn number(&self, label: &Label) -> Option<usize> {
        self.labels.binary_search(label).ok()
    }

    /// Adds classes without rows and returns the new number of each former class. `new` must not contain an existing
    /// label.
    fn add_classes(&mut self, new: Vec<Label>) -> Vec<u32> {
        let mut renumbering = vec![0; self.len()];
        let former = std::mem::take(&mut self.labels).into_iter().zip(std::mem::take(&mut self.counts));
        let former = former.enumerate().map(|(number, (label, count))| (label, count, Some(number)));
        let mut all: Vec<_> = former.chain(new.into_iter().map(|label| (label, 0, None))).collect();
        all.sort_unstable_by(|a, b| a.0.cmp(&b.0));
        for (number, (label, count, former)) in all.into_iter().enumerate() {
            self.labels.push(label);
            self.counts.push(count);
            if let Some(former) = former {
                renumbering[former] = number as u32;
            }
        }
        renumbering
    }

    /// Converts a label to the kind of the classes (booleans, integers or strings) if the label or the classes are booleans.
    /// `true` and 1 are converted to each other if the classes contain no integers except 0 and 1. `true` and the strings
    /// `true` and `True` are converted to each other, too. `false` is treated in the same way. Every other label is returned
    /// unchanged, also an integer if the classes are strings, and a string if they are integers.
    ///
    /// ```
    /// use nuq::{Classes, Label};
    /// let (classes, _) = Classes::encode(&[true, false]);
    /// assert!(classes.convert(Label::from(1)) == true && classes.convert(Label::from("False")) == false);
    /// assert!(classes.convert(Label::from(2)) == 2);
    /// ```
    #[must_use]
    pub fn convert(&self, label: Label) -> Label {
        let has = |label: &Label| self.number(label).is_some();
        let booleans = [(false, ["false", "False"]), (true, ["true", "True"])];
        if has(&label) {
            return label;
        }
        match (self.labels.first(), &label) {
            (Some(Label::Bool(_)), _) => {
                let is_form = |(value, words): &(bool, [&str; 2])| {
                    label == i64::from(*value) || words.iter().any(|word| label == **word)
                };
                booleans.iter().find(|form| is_form(form)).map_or(label, |(value, _)| Label::Bool(*value))
            }
            (Some(Label::Int(_)), Label::Bool(value))
                if self.labels.iter().all(|known| *known == 0 || *known == 1) =>
            {
                Label::from(i64::from(*value))
            }
            (Some(Label::Text(_)), Label::Bool(value)) => {
                let words = booleans[usize::from(*value)].1.map(Label::from);
                words.into_iter().find(has).unwrap_or(label)
            }
            _ => label,
        }
    }

    /// Rejects labels whose kind differs from the kind of every class, for example text for integer classes. Such labels equal
    /// no class, and every prediction would count as an error.
    ///
    /// # Errors
    /// [`Error::LabelKind`] for the first such label.
    pub fn check_kind(&self, labels: &[Label]) -> Result<(), Error> {
        let kind = |label: &Label| match label {
            Label::Bool(_) => ("a boolean", "booleans"),
            Label::Int(_) => ("an integer", "integers"),
            Label::Text(_) => ("text", "text"),
        };
        let is_other = |given: &Label| self.labels.iter().all(|known| kind(known) != kind(given));
        match (labels.iter().position(is_other), self.labels.first()) {
            (Some(row), Some(known)) => {
                let label = match &labels[row] {
                    Label::Text(text) => format!("{text:?}"),
                    other => other.to_string(),
                };
                let (kind, expected) = (kind(&labels[row]).0, kind(known).1);
                Err(Error::LabelKind { row, label, kind, expected })
            }
            _ => Ok(()),
        }
    }

    /// The number of classes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.labels.len()
    }

    /// Whether there is no class. Only an empty training set has no class.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.labels.is_empty()
    }

    /// The label of class number `class`.
    ///
    /// # Panics
    /// If there is no such class.
    #[must_use]
    pub fn label(&self, class: usize) -> &Label {
        &self.labels[class]
    }

    /// The labels in the order of their class numbers.
    #[must_use]
    pub fn labels(&self) -> &[Label] {
        &self.labels
    }

    /// The number of training rows per class.
    #[must_use]
    pub fn counts(&self) -> &[u64] {
        &self.counts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_are_restored_from_valid_values_only() {
        let labels = || ["a", "b"].map(Label::from).to_vec();
        assert_eq!(Classes::restored(labels(), &[1, 0, 1]), Some(Classes::encode(&["b", "a", "b"]).0));
        let unsorted = labels().into_iter().rev().collect();
        assert_eq!(Classes::restored(unsorted, &[0, 1]), None);
        assert_eq!(Classes::restored(labels(), &[0, 1, 2]), None);
        // A class without rows has no mean.
        assert_eq!(Classes::restored(labels(), &[0, 0]), None);
    }

    #[test]
    fn inserted_and_removed_rows_give_the_classes_of_the_remaining_rows() {
        let (mut classes, _) = Classes::encode(&["b", "d", "d"]);
        let labels = ["d", "c", "a", "c"].map(Label::from);
        assert_eq!(classes.insert(&labels), (Some(vec![1, 3]), vec![3, 2, 0, 2]));
        assert_eq!(classes, Classes::encode(&["a", "b", "c", "c", "d", "d", "d"]).0);
        assert_eq!(classes.insert(&labels[..1]), (None, vec![3]));
        assert_eq!(classes.remove([3, 1].into_iter()), Some(vec![0, 0, 1, 2]));
        assert_eq!(classes, Classes::encode(&["a", "c", "c", "d", "d", "d"]).0);
        assert_eq!(classes.remove([2].into_iter()), None);
    }

    #[test]
    fn integers_are_sorted_by_value() {
        let (classes, rows) = Classes::encode(&[10i64, -3, 2, 10]);
        assert_eq!(classes.labels(), [Label::Int(-3), Label::Int(2), Label::Int(10)]);
        assert_eq!(rows, [2, 0, 1, 2]);
        assert_eq!(classes.counts(), [1, 1, 2]);
        assert!(classes.label(0) == &-3);
        let (again, _) = Classes::encode(classes.labels());
        assert_eq!(again.labels(), classes.labels());
        let (wide, _) = Classes::encode(&[u64::MAX, 0]);
        assert_eq!(wide.label(1).to_string(), u64::MAX.to_string());
    }

    #[test]
    fn other_forms_of_a_boolean_are_converted_and_labels_of_another_kind_are_errors() {
        let (booleans, _) = Classes::encode(&[true, false]);
        assert_eq!(booleans.labels(), [Label::Bool(false), Label::Bool(true)]);
        for form in [Label::from(1), Label::from("true"), Label::from("True"), Label::from(true)] {
            assert_eq!(booleans.convert(form), Label::Bool(true));
        }
        assert!(booleans.check_kind(&[booleans.convert(Label::from("yes"))]).is_err());
        let (integers, _) = Classes::encode(&[0, 1]);
        assert_eq!(integers.convert(Label::from(true)), Label::Int(1));
        let (several, _) = Classes::encode(&[0, 1, 2]);
        let error = several.check_kind(&[several.convert(Label::from(true))]).unwrap_err().to_string();
        assert!(
            error.starts_with("label true of row 0 is a boolean, and the classes of the model are integers")
        );
        let error = several.check_kind(&[Label::from("1")]).unwrap_err().to_string();
        assert!(error.starts_with("label \"1\" of row 0 is text"), "{error}");
        let (texts, _) = Classes::encode(&["False", "True"]);
        assert_eq!(texts.convert(Label::from(false)), Label::from("False"));
        assert_eq!(texts.convert(Label::from(1)), Label::Int(1));
    }

    #[test]
    fn owned_strings_are_labels() {
        let (classes, _) = Classes::encode(&[String::from("β"), String::from("a")]);
        assert!(classes.label(1) == "β" && classes.label(1) != "a" && classes.label(1) != &7);
    }
}
