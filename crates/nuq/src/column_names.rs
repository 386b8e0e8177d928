//! Names of the columns of the training rows, and their comparison with the names of other rows, for example queries.

use std::collections::HashMap;
use std::fmt;

use crate::Error;

/// Column names of other rows that differ from those of the training rows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DifferentNames {
    /// The names of the training rows.
    pub training: Vec<String>,
    /// The names of the other rows.
    pub given: Vec<String>,
}

/// Number of names that a message lists.
const LISTED: usize = 5;

/// Checks the names of other rows as [`compare`] does. If the training rows have no names (`None`), all
/// names are accepted, except the numbers 0, 1, 2, … in another order.
///
/// # Errors
/// [`Error::ColumnNames`] for other names or another order.
pub fn check<S: AsRef<str>>(training: Option<&[String]>, given: &[S]) -> Result<(), Error> {
    if let Some(training) = training {
        return compare(training, given);
    }
    let numbered: Vec<String> = (0..given.len()).map(|column| column.to_string()).collect();
    let sorted = |names: &mut dyn Iterator<Item = &str>| {
        let mut names: Vec<String> = names.map(str::to_owned).collect();
        names.sort();
        names
    };
    let are_numbers =
        sorted(&mut given.iter().map(AsRef::as_ref)) == sorted(&mut numbered.iter().map(String::as_str));
    if are_numbers { compare(&numbered, given) } else { Ok(()) }
}

/// Checks that other rows have the names of the training rows in the same order.
///
/// # Errors
/// [`Error::ColumnNames`] for other names or another order.
pub fn compare<S: AsRef<str>>(training: &[String], given: &[S]) -> Result<(), Error> {
    if training.iter().map(String::as_str).eq(given.iter().map(AsRef::as_ref)) {
        return Ok(());
    }
    let given = given.iter().map(|name| name.as_ref().to_owned()).collect();
    Err(Error::ColumnNames(Box::new(DifferentNames { training: training.to_vec(), given })))
}

/// Checks that no two columns have the same name. A name that occurs twice could not be matched with a column of other
/// rows.
///
/// # Errors
/// [`Error::RepeatedColumnName`] with the first such name.
pub fn check_distinct<S: AsRef<str>>(names: &[S]) -> Result<(), Error> {
    let mut columns = HashMap::new();
    for (second, name) in names.iter().enumerate() {
        if let Some(first) = columns.insert(name.as_ref(), second) {
            return Err(Error::RepeatedColumnName { name: name.as_ref().to_owned(), first, second });
        }
    }
    Ok(())
}

impl fmt::Display for DifferentNames {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { training, given } = self;
        let same = training.iter().zip(given).take_while(|(one, other)| one == other).count();
        let name =
            |names: &[String]| names.get(same).map_or("missing".to_owned(), |name| format!("`{name}`"));
        write!(
            f,
            "column {same} is {}, at fit it was {} (at fit: {}; now: {})",
            name(given),
            name(training),
            list(training),
            list(given)
        )
    }
}

/// The first names, and the number of all columns if there are more.
fn list(names: &[String]) -> String {
    let shown = names[..names.len().min(LISTED)].join(", ");
    if names.len() > LISTED { format!("{shown}, … ({} columns in total)", names.len()) } else { shown }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(text: &str) -> Vec<String> {
        text.split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn repeated_names_are_errors() {
        assert!(check_distinct(&names("a b c")).is_ok());
        let repeated = check_distinct(&names("x a b a")).unwrap_err();
        assert!(matches!(repeated, Error::RepeatedColumnName { first: 1, second: 3, .. }), "{repeated}");
    }

    #[test]
    fn only_equal_names_in_the_same_order_are_accepted() {
        assert_eq!(compare(&names("a b c"), &["a", "b", "c"]), Ok(()));
        for other in ["c b a", "a b", "a b c d", "a b C", ""] {
            assert!(compare(&names("a b c"), &names(other)).is_err(), "{other}");
        }
    }

    #[test]
    fn columns_without_names_are_numbered() {
        assert_eq!(check(None, &["0", "1", "2"]), Ok(()));
        assert_eq!(check(None, &["2", "1", "1"]), Ok(()));
        assert_eq!(check(None, &["c", "b", "a"]), Ok(()));
        let error = check(None, &["2", "1", "0"]).unwrap_err().to_string();
        assert!(error.contains("at fit: 0, 1, 2; now: 2, 1, 0"), "{error}");
        assert!(check(Some(&names("a b")), &["b", "a"]).is_err());
    }

    #[test]
    fn the_message_has_the_first_difference_and_short_lists() {
        let message = |given: &str| compare(&names("a b c d e f"), &names(given)).unwrap_err().to_string();
        let text = message("a b c d e g");
        assert!(text.contains("column 5 is `g`, at fit it was `f`"), "{text}");
        assert!(
            text.contains(
                "at fit: a, b, c, d, e, … (6 columns in total); now: a, b, c, d, e, … (6 columns in total)"
            ),
            "{text}"
        );
        assert!(message("a b").contains("column 2 is missing, at fit it was `c`"));
        assert!(message("a b c d e f x").contains("column 6 is `x`, at fit it was missing"));
    }
}
