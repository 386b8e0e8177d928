//! Reads numbers in JSON as `f32`, without an intermediate tree of JSON values. Errors name the row and the column.

use std::fmt;

use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, Error, SeqAccess, Visitor};

/// The numbers of a flat list, or of a list of rows, one row after the other.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Numbers(pub(crate) Vec<f32>);

/// Rows of equal length.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Matrix {
    pub(crate) values: Vec<f32>,
    pub(crate) columns: usize,
}

impl<'de> Deserialize<'de> for Numbers {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut values = Vec::new();
        // Lists of numbers and lists of lists of numbers are allowed.
        List { values: &mut values, depth: 2 }.deserialize(deserializer)?;
        Ok(Self(values))
    }
}

impl<'de> Deserialize<'de> for Matrix {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Rows;
        impl<'de> Visitor<'de> for Rows {
            type Value = Matrix;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list of rows, each a list of numbers")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut rows: A) -> Result<Matrix, A::Error> {
                let mut matrix = Matrix::default();
                let mut row = 0;
                loop {
                    let first = matrix.values.len();
                    let list = List { values: &mut matrix.values, depth: 1 };
                    let next = rows.next_element_seed(list).map_err(|error| in_row(row, error))?;
                    if next.is_none() {
                        return Ok(matrix);
                    }
                    let columns = matrix.values.len() - first;
                    if row == 0 {
                        matrix.columns = columns;
                    }
                    if columns == 0 {
                        return Err(A::Error::custom(format!("row {row} is empty")));
                    }
                    if columns != matrix.columns {
                        let expected = matrix.columns;
                        return Err(A::Error::custom(format!(
                            "row {row} has {columns} columns, row 0 has {expected}: all rows need the same number"
                        )));
                    }
                    row += 1;
                }
            }
        }
        deserializer.deserialize_seq(Rows)
    }
}

/// A list of numbers, or of lists if `depth` is larger than 1.
struct List<'v> {
    values: &'v mut Vec<f32>,
    depth: usize,
}

impl<'de> DeserializeSeed<'de> for List<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for List<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of numbers")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        let mut place = 0;
        loop {
            let entry = Entry { values: self.values, depth: self.depth - 1 };
            match list.next_element_seed(entry) {
                Ok(Some(())) => place += 1,
                Ok(None) => return Ok(()),
                Err(error) => return Err(at_place(place, error)),
            }
        }
    }
}

/// The beginning of an error message about an entry of a list. If the list is itself an entry of a list, the row and the column replace
/// this beginning.
const VALUE: &str = "value ";

/// Adds the index of an entry of a list to the error of this entry: `value 3: …`. If the entry is itself a list, its error already begins
/// with the index in this inner list, and the result is `row 1, column 3: …`.
fn at_place<E: Error>(place: usize, error: E) -> E {
    match error.to_string() {
        message if message.starts_with(VALUE) => in_row(place, error),
        message => E::custom(format!("{VALUE}{place}: {message}")),
    }
}

/// Adds the number of the row to an error in a row of a matrix.
fn in_row<E: Error>(row: usize, error: E) -> E {
    match error.to_string().strip_prefix(VALUE) {
        // The end of the message must stay, because `serde_json` reads the line and the column of the error from it.
        Some(rest) => E::custom(format!("row {row}, column {rest}")),
        None => error,
    }
}

/// Parses JSON. The message of an error says what is wrong and where.
pub(crate) fn parse<'de, T: Deserialize<'de>>(bytes: &'de [u8]) -> Result<T, String> {
    serde_json::from_slice(bytes).map_err(|error| {
        let message = error.to_string();
        let is_syntax =
            ["expected value", "expected ident", "invalid number"].iter().any(|text| message.contains(text));
        let end = offset(bytes, &error);
        let Some(word) = not_finite(bytes, end).filter(|_| is_syntax) else { return message };
        let place = match message.split_once(": ") {
            Some((place, _)) if place.starts_with("row ") => place.to_owned(),
            Some((place, _)) => match place.strip_prefix(VALUE).and_then(|index| index.parse().ok()) {
                Some(index) => tensor_place(&bytes[..end.min(bytes.len())], index),
                None => format!("line {} column {}", error.line(), error.column()),
            },
            None => format!("line {} column {}", error.line(), error.column()),
        };
        format!(
            "{place} is {word}, which JSON cannot represent: send finite numbers only, or leave out such rows (Python's json module \
             writes {word}, and json.dumps(…, allow_nan=False) refuses it)"
        )
    })
}

/// The byte offset of an error in the text.
fn offset(bytes: &[u8], error: &serde_json::Error) -> usize {
    let lines_before = bytes.split_inclusive(|byte| *byte == b'\n').take(error.line().saturating_sub(1));
    lines_before.map(<[u8]>::len).sum::<usize>() + error.column()
}

/// The word NaN or Infinity near `end`, the position at which the parser stopped.
fn not_finite(bytes: &[u8], end: usize) -> Option<&str> {
    let is_part = |byte: &u8| byte.is_ascii_alphabetic() || matches!(byte, b'-' | b'+');
    // The parser stops at the first or at the second character that it does not expect.
    [end.saturating_sub(1), end.saturating_sub(2), end].into_iter().find_map(|at| {
        let (before, after) = bytes.split_at_checked(at)?;
        let start = at - before.iter().rev().take_while(|byte| is_part(byte)).count();
        let word =
            str::from_utf8(&bytes[start..at + after.iter().take_while(|byte| is_part(byte)).count()]).ok()?;
        let is_word = ["nan", "infinity", "inf"]
            .contains(&word.trim_start_matches(['-', '+']).to_ascii_lowercase().as_str());
        is_word.then_some(word)
    })
}

/// The row and the column of a value of a flat list, if a shape of rows × columns precedes it.
fn tensor_place(before: &[u8], index: usize) -> String {
    let columns = || {
        let at = before.windows(7).rposition(|window| window == b"\"shape\"")?;
        let text = str::from_utf8(before.get(at + 7..)?.split(|byte| *byte == b']').next()?).ok()?;
        let [_, columns] = text.split_once('[')?.1.split(',').collect::<Vec<_>>()[..] else { return None };
        columns.trim().parse::<usize>().ok().filter(|columns| *columns > 0)
    };
    match columns() {
        Some(columns) => format!("row {}, column {}", index / columns, index % columns),
        None => format!("{VALUE}{index}"),
    }
}

/// A number, or a list if `depth` is larger than 0.
struct Entry<'v> {
    values: &'v mut Vec<f32>,
    depth: usize,
}

impl<'de> DeserializeSeed<'de> for Entry<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Entry<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.depth > 0 { "a number or a list of numbers" } else { "a number" })
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<(), E> {
        let single = value as f32;
        if single.is_infinite() {
            return Err(E::custom(format!("the value {value:e} exceeds the range of 32-bit numbers")));
        }
        self.values.push(single);
        Ok(())
    }

    fn visit_unit<E: Error>(self) -> Result<(), E> {
        Err(E::custom(
            "null is not a number: send finite numbers only (JavaScript writes NaN and Infinity as null)",
        ))
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<(), E> {
        self.values.push(value as f32);
        Ok(())
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<(), E> {
        self.values.push(value as f32);
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<(), A::Error> {
        match self.depth {
            0 => Err(A::Error::custom("the list of numbers is nested too deeply")),
            depth => List { values: self.values, depth }.visit_seq(list),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_from_flat_and_nested_lists() {
        let numbers = |text: &str| serde_json::from_str::<Numbers>(text).map_err(|error| error.to_string());
        assert_eq!(numbers("[1, -2.5, 3]"), Ok(Numbers(vec![1.0, -2.5, 3.0])));
        assert_eq!(numbers("[[1, -2.5], [3, 4]]"), Ok(Numbers(vec![1.0, -2.5, 3.0, 4.0])));
        for bad in ["[[[1]]]", "[null]", "[\"1\"]", "[1e39]", "[NaN]", "[1e999]", "1", "{}", "[true]", "[1"] {
            assert!(numbers(bad).is_err(), "{bad}");
        }
        let deep = "[".repeat(1_000_000);
        assert!(numbers(&deep).is_err());
    }

    #[test]
    fn errors_name_row_and_column() {
        let matrix = |text: &str| parse::<Matrix>(text.as_bytes()).unwrap_err();
        for (word, text) in [
            ("NaN", "[[1, 2, 3],\n [4, NaN, 6]]"),
            ("Infinity", "[[1,2,3],[4,Infinity,6]]"),
            ("-Infinity", "[[1,2,3],[4, -Infinity,6]]"),
            ("nan", "[[1,2,3],[4,nan]]"),
            ("NaN", "[[1,2,3],[4,NaN"),
        ] {
            let message = matrix(text);
            assert!(
                message.starts_with(&format!("row 1, column 1 is {word}, which JSON cannot")),
                "{message}"
            );
            assert!(message.contains("send finite numbers"), "{message}");
        }
        let message = matrix("[[1, 2], [3, null]]");
        assert!(message.starts_with("row 1, column 1: null is not a number"), "{message}");
        let message = matrix("[[1, 2], [3, 1e39]]");
        assert!(message.starts_with("row 1, column 1: the value 1e39 exceeds"), "{message}");
        assert!(message.ends_with("at line 1 column 17"), "{message}");
        // Longer words and strings are not reported as NaN.
        assert!(!matrix("[[1, 2], [3, NaNo]]").contains("cannot represent"));
        assert!(!matrix("[[\"NaN\"]]").contains("cannot represent"));

        let numbers = |text: &str| parse::<Numbers>(text.as_bytes()).unwrap_err();
        assert!(numbers("[1, 2, NaN]").starts_with("value 2 is NaN"), "{}", numbers("[1, 2, NaN]"));
        assert!(numbers("[[1, 2], [3, NaN]]").starts_with("row 1, column 1 is NaN"));
        assert_eq!(tensor_place(br#"{"shape": [3, 2], "data": [1, 2, 3, "#, 3), "row 1, column 1");
        assert_eq!(tensor_place(br#"{"shape": [3, 2, 1], "data": ["#, 0), "value 0");
        for bad in ["", "[", "{\"a\": NaN", "NaN", "\u{e9}NaN", "[[NaN"] {
            parse::<Matrix>(bad.as_bytes()).unwrap_err();
        }
    }

    #[test]
    fn rows_of_unequal_lengths_are_errors() {
        let matrix = |text: &str| serde_json::from_str::<Matrix>(text).map_err(|error| error.to_string());
        assert_eq!(matrix("[[1, 2], [3, 4]]"), Ok(Matrix { values: vec![1.0, 2.0, 3.0, 4.0], columns: 2 }));
        assert_eq!(matrix("[]"), Ok(Matrix::default()));
        let error = matrix("[[1, 2], [3]]").unwrap_err();
        assert!(error.starts_with("row 1 has 1 columns, row 0 has 2"), "{error}");
        assert!(matrix("[[]]").is_err() && matrix("[1]").is_err());
    }
}
