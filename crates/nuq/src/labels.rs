//! Class labels: any integers or strings, kept and given back.

use std::collections::HashMap;
use std::fmt;

/// One class label as the user wrote it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Label {
    /// An integer; wide enough for any of 64 bits, signed or not.
    Int(i128),
    /// A string.
    Text(String),
}

impl fmt::Display for Label {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Label::Int(value) => value.fmt(f),
            Label::Text(value) => value.fmt(f),
        }
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
label_from_integers!(i8, i16, i32, i64, isize, u8, u16, u32, u64, usize, bool);

/// The classes of a training set, sorted, with the class of each row.
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
    /// Sorts the distinct labels (integers by value, strings by code point) and numbers each row's.
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

    /// Classes that were written elsewhere, with the class of each row; `None` when the labels are not sorted and distinct,
    /// or a row is of none of them.
    pub(crate) fn restored(labels: Vec<Label>, of_row: &[u32]) -> Option<Self> {
        if !labels.windows(2).all(|pair| pair[0] < pair[1]) {
            return None;
        }
        let mut counts = vec![0u64; labels.len()];
        for &class in of_row {
            *counts.get_mut(class as usize)? += 1;
        }
        Some(Self { labels, counts })
    }

    /// One class of `rows` rows, for those who have no labels.
    pub(crate) fn single(rows: usize) -> Self {
        Self { labels: vec![Label::Int(0)], counts: vec![rows as u64] }
    }

    /// The number of classes.
    pub fn len(&self) -> usize {
        self.labels.len()
    }

    /// Whether there is no class (only of an empty set).
    pub fn is_empty(&self) -> bool {
        self.labels.is_empty()
    }

    /// The label of class number `class`.
    pub fn label(&self, class: usize) -> &Label {
        &self.labels[class]
    }

    /// All labels in the order of their numbers.
    pub fn labels(&self) -> &[Label] {
        &self.labels
    }

    /// Training rows per class.
    pub fn counts(&self) -> &[u64] {
        &self.counts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_sort_by_value_and_come_back() {
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
    fn owned_strings_serve_too() {
        let (classes, _) = Classes::encode(&[String::from("β"), String::from("a")]);
        assert!(classes.label(1) == "β" && classes.label(1) != "a" && classes.label(1) != &7);
    }
}
