//! Errors of baselines, metrics and comparisons.

/// An input that was rejected. Rows and columns are numbered from zero.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// An error of the model, or of the arrays that were passed to it.
    #[error(transparent)]
    Model(#[from] nuq::Error),
    /// The batch lacks an array that the scorer needs.
    #[error("{scorer} needs {input}")]
    MissingInput {
        /// The name of the scorer.
        scorer: String,
        /// The missing array.
        input: &'static str,
    },
    /// The logits are not a linear function of the embeddings.
    #[error(
        "the logits are not a linear function of the embeddings (the best linear layer differs by {difference:.1e} on average): \
         give the embeddings of the layer before the last, for the same rows in the same order"
    )]
    LogitsNotLinear {
        /// The root mean square of the residual, relative to the spread of the logits.
        difference: f64,
    },
    /// Too few rows to determine the parameters of a method.
    #[error("{got} rows cannot determine {what}: at least {needed} are needed")]
    FewRows {
        /// The parameters.
        what: &'static str,
        /// The number of rows given.
        got: usize,
        /// The number of rows needed.
        needed: usize,
    },
    /// An out-of-distribution set has another number of ensemble members than the test rows.
    #[error(
        "the set `{set}` has {got} ensemble members, and the test rows have {expected}: give the logits of the same members for all \
         sets"
    )]
    MemberCount {
        /// The name of the out-of-distribution set.
        set: String,
        /// The number of members of this set.
        got: usize,
        /// The number of members of the test rows.
        expected: usize,
    },
    /// Training rows of a single class, for a method that separates classes.
    #[error("{what} separates classes: give training rows of at least two classes")]
    OneClass {
        /// The method.
        what: &'static str,
    },
}

impl From<nuq_neighbors::Error> for Error {
    fn from(error: nuq_neighbors::Error) -> Self {
        Error::Model(error.into())
    }
}

pub(crate) fn out_of_range(name: &'static str, value: f64, range: &'static str) -> Error {
    nuq::Error::OutOfRange { name, value, range }.into()
}

/// The error if `what` cannot be estimated because all training rows are equal.
pub(crate) fn no_spread(what: &'static str, rows: usize) -> Error {
    nuq::Error::NoSpread { what, rows, remedy: "give rows that differ from each other" }.into()
}

pub(crate) fn length_mismatch(
    what: &'static str,
    got: usize,
    counterpart: &'static str,
    expected: usize,
) -> Error {
    nuq::Error::LengthMismatch { what, got, counterpart, expected }.into()
}
