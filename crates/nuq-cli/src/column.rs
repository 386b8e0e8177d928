//! A column of results and its cells as text or JSON.

use nuq::Label;
use nuq_io::KeptColumn;
use serde_json::{Value, json};

use crate::output::label_json;

/// One column; an empty cell is `None`.
pub(crate) enum Column {
    Integers(Vec<Option<i64>>),
    Numbers(Vec<Option<f64>>),
    Labels(Vec<Option<Label>>),
    Booleans(Vec<Option<bool>>),
    Strings(Vec<Option<String>>),
    /// Sets of labels, separated by `|` in text, see [`set_text`].
    Sets(Vec<Option<Vec<Label>>>),
}

/// The labels of a set as text, separated by `|`. In a label, `\` is written as `\\` and `|` as `\|`.
pub(crate) fn set_text(labels: &[Label]) -> String {
    let escaped = |label: &Label| label.to_string().replace('\\', r"\\").replace('|', r"\|");
    labels.iter().map(escaped).collect::<Vec<String>>().join("|")
}

/// A kept column is a column of the input that is copied to the output.
impl From<KeptColumn> for Column {
    fn from(column: KeptColumn) -> Self {
        match column {
            KeptColumn::Integers(values) => Self::Integers(values),
            KeptColumn::Numbers(values) => Self::Numbers(values),
            KeptColumn::Booleans(values) => Self::Booleans(values),
            KeptColumn::Strings(values) => Self::Strings(values),
        }
    }
}

impl Column {
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Integers(values) => values.len(),
            Self::Numbers(values) => values.len(),
            Self::Labels(values) => values.len(),
            Self::Booleans(values) => values.len(),
            Self::Strings(values) => values.len(),
            Self::Sets(values) => values.len(),
        }
    }

    /// A cell of a csv or tsv table, not quoted.
    pub(crate) fn cell(&self, row: usize) -> String {
        match self {
            Self::Integers(values) => values[row].map_or(String::new(), |v| v.to_string()),
            Self::Numbers(values) => values[row].map_or(String::new(), |v| v.to_string()),
            Self::Labels(values) => values[row].as_ref().map_or(String::new(), Label::to_string),
            Self::Booleans(values) => values[row].map_or(String::new(), |v| v.to_string()),
            Self::Strings(values) => values[row].clone().unwrap_or_default(),
            Self::Sets(values) => values[row].as_deref().map_or(String::new(), set_text),
        }
    }

    pub(crate) fn json(&self, row: usize) -> Value {
        match self {
            Self::Integers(values) => json!(values[row]),
            // JSON cannot represent infinity; it is written as null. Values that may overflow or underflow also have a column with
            // their logarithm, which is infinite only if the value is exactly 0.
            Self::Numbers(values) => json!(values[row]),
            Self::Labels(values) => values[row].as_ref().map_or(Value::Null, label_json),
            Self::Booleans(values) => json!(values[row]),
            Self::Strings(values) => json!(values[row]),
            Self::Sets(values) => {
                json!(values[row].as_ref().map(|set| set.iter().map(label_json).collect::<Vec<_>>()))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn separators_in_labels_are_escaped() {
        let labels = ["a|b", r"c\", "d"].map(Label::from);
        assert_eq!(set_text(&labels), r"a\|b|c\\|d");
    }
}
