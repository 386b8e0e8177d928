//! One spelling for each value of an option that a user can choose.
//!
//! The macro [`choices!`](crate::choices) implements `ALL`, `name`, `Display` and `FromStr` of an enum from the words for
//! its values. The command line, the Python package, the model file and error messages all take the words from here. Words
//! are in snake case; a hyphen is accepted in place of an underscore.

/// A word that is not among the choices of an option.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{option} `{given}` is unknown: choose {}", self.list())]
pub struct UnknownChoice {
    /// The name of the option, for example `kernel`.
    pub option: &'static str,
    /// The word that was given.
    pub given: String,
    /// The accepted words.
    pub choices: Vec<&'static str>,
    /// Whether a number is accepted too.
    pub or_number: bool,
}

impl UnknownChoice {
    /// The error of an option that accepts words only.
    #[must_use]
    pub fn new(option: &'static str, given: &str, choices: Vec<&'static str>) -> Self {
        Self { option, given: given.to_owned(), choices, or_number: false }
    }

    /// Marks the option as one that also accepts a number.
    #[must_use]
    pub fn or_number(self) -> Self {
        Self { or_number: true, ..self }
    }

    /// The choices in words: `one of a, b, c, or a number`.
    #[must_use]
    pub fn list(&self) -> String {
        let words = self.choices.join(", ");
        let one_of = if self.choices.len() > 1 { "one of " } else { "" };
        let number = if self.or_number { ", or a number" } else { "" };
        format!("{one_of}{words}{number}")
    }
}

/// Converts a word that a user gave to the spelling of the vocabulary: trimmed, with underscores in place of hyphens.
#[must_use]
pub fn normalized(word: &str) -> String {
    word.trim().replace('-', "_")
}

/// Implements `ALL`, `name`, `Display` and `FromStr` for an enum without data.
///
/// The first word of a variant is its name; words after `|` are also accepted as input.
///
/// ```
/// #[derive(Debug, Clone, Copy, PartialEq)]
/// enum Shape {
///     Round,
///     Square,
/// }
/// nuq_neighbors::choices!(Shape, "shape", { Round => "round" | "circular", Square => "square" });
/// assert_eq!("circular".parse(), Ok(Shape::Round));
/// assert_eq!(Shape::Square.to_string(), "square");
/// assert_eq!("flat".parse::<Shape>().unwrap_err().to_string(), "shape `flat` is unknown: choose one of round, square");
/// ```
#[macro_export]
macro_rules! choices {
    ($type:ident, $option:literal, { $($variant:ident => $name:literal $(| $alias:literal)*),+ $(,)? }) => {
        impl $type {
            /// All values, in the order in which they are listed to a user.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// The word for this value on the command line, in Python and in files.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name),+
                }
            }
        }

        impl std::fmt::Display for $type {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(self.name())
            }
        }

        impl std::str::FromStr for $type {
            type Err = $crate::UnknownChoice;

            fn from_str(word: &str) -> Result<Self, Self::Err> {
                match $crate::normalized(word).as_str() {
                    $($name $(| $alias)* => Ok(Self::$variant),)+
                    _ => Err($crate::UnknownChoice::new($option, word, vec![$($name),+])),
                }
            }
        }
    };
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Precision;

    #[test]
    fn every_name_is_read_back_as_its_value() {
        for &precision in Precision::ALL {
            assert_eq!(precision.to_string().parse(), Ok(precision));
        }
    }

    #[test]
    fn hyphens_are_read_as_underscores_and_spaces_are_removed_at_the_ends() {
        assert_eq!(normalized(" log-likelihood"), "log_likelihood");
    }

    #[test]
    fn the_error_lists_the_choices() {
        let error = UnknownChoice::new("shrinkage", "x", vec!["ledoit_wolf"]).or_number();
        assert_eq!(error.to_string(), "shrinkage `x` is unknown: choose ledoit_wolf, or a number");
    }
}
