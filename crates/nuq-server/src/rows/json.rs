//! Numbers in JSON, read into `f32` without an intermediate tree.

use std::fmt;

use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, Error, SeqAccess, Visitor};

/// A flat list of numbers, which may be nested in lists of rows.
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
        // A list of lists of numbers.
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
                    if rows.next_element_seed(list)?.is_none() {
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
        while list.next_element_seed(Entry { values: self.values, depth: self.depth - 1 })?.is_some() {}
        Ok(())
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
    fn flat_and_nested_numbers_are_equal() {
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
    fn rows_have_equal_lengths() {
        let matrix = |text: &str| serde_json::from_str::<Matrix>(text).map_err(|error| error.to_string());
        assert_eq!(matrix("[[1, 2], [3, 4]]"), Ok(Matrix { values: vec![1.0, 2.0, 3.0, 4.0], columns: 2 }));
        assert_eq!(matrix("[]"), Ok(Matrix::default()));
        let error = matrix("[[1, 2], [3]]").unwrap_err();
        assert!(error.starts_with("row 1 has 1 columns, row 0 has 2"), "{error}");
        assert!(matrix("[[]]").is_err() && matrix("[1]").is_err());
    }
}
