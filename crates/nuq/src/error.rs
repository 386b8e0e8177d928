//! Why a model could not be fitted or asked.

/// Bad input, named so that it can be found and mended. Rows and columns count from zero.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Embeddings, queries or a neighbor table were refused.
    #[error(transparent)]
    Neighbors(#[from] nuq_neighbors::Error),
    /// Not one label or target per training row.
    #[error("{got} {what} for {expected} training rows: give one per row")]
    LengthMismatch {
        /// `"labels"` or `"targets"`.
        what: &'static str,
        /// How many were given.
        got: usize,
        /// The training rows.
        expected: usize,
    },
    /// A regression target that is not finite, or so large that its square is not.
    #[error("target of row {row} is {value}: targets must be finite and below 1e150 in magnitude")]
    BadTarget {
        /// The training row.
        row: usize,
        /// Its target.
        value: f64,
    },
    /// A bandwidth that is zero, negative or not finite.
    #[error("{what} is {value:?}: it must be positive and finite (1e-100 to 1e100)")]
    BadBandwidth {
        /// Which bandwidth, with its position where there are several.
        what: String,
        /// Its value.
        value: f64,
    },
    /// Per-dimension or per-point bandwidths of the wrong number.
    #[error("{got} {kind} bandwidths given, {expected} needed")]
    BandwidthCount {
        /// `"per-dimension"` or `"per-point"`.
        kind: &'static str,
        /// How many were given.
        got: usize,
        /// How many are needed.
        expected: usize,
    },
    /// A scale was to be learned from rows that have none.
    #[error(
        "no scale can be learned: none of the training rows looked at (of {rows}) differs from its nearest others; \
         give more neighbors, more data, or fixed bandwidths for posterior and kernel density"
    )]
    NoSpread {
        /// The training rows.
        rows: usize,
    },
    /// A parameter outside its range.
    #[error("{name} is {value:?}: {range}")]
    OutOfRange {
        /// The parameter.
        name: &'static str,
        /// Its value.
        value: f64,
        /// What it may be.
        range: &'static str,
    },
    /// A covariance that cannot be inverted, because no shrinkage was allowed.
    #[error("the covariance of class {class} is singular: give a shrinkage above {shrinkage}")]
    SingularCovariance {
        /// The class, or `all (tied)`.
        class: String,
        /// The shrinkage that was not enough.
        shrinkage: f64,
    },
    /// Rows for a model whose bandwidths belong to its rows.
    #[error("a model with a bandwidth per training row cannot take rows: fit it again")]
    CannotGrow,
    /// Something to measure, of which there is nothing.
    #[error("no {what}: at least one is needed")]
    NoRows {
        /// What.
        what: &'static str,
    },
    /// A score that is not a number.
    #[error("row {row} of the {what} is NaN: leave such rows out, or find where they come from")]
    NanScore {
        /// Which scores.
        what: &'static str,
        /// The row.
        row: usize,
    },
    /// A scorer was asked about rows of which it needs to know more.
    #[error("{scorer} needs {input}")]
    MissingInput {
        /// The scorer.
        scorer: String,
        /// What it needs.
        input: &'static str,
    },
    /// Logits that are no linear function of the embeddings.
    #[error(
        "the logits do not follow from the embeddings (by the best linear head they differ by {difference:.1e} on average): \
         give embeddings of the last layer before the head, for the same rows in the same order"
    )]
    NotTheHead {
        /// The root mean square of what is left, relative to the spread of the logits.
        difference: f64,
    },
    /// Too few rows for what they are to determine.
    #[error("{got} rows cannot determine {what}: at least {needed} are needed")]
    FewRows {
        /// What.
        what: &'static str,
        /// How many there are.
        got: usize,
        /// How many it takes.
        needed: usize,
    },
    /// Training rows of a single class, for a method that learns what tells classes apart.
    #[error("{what} learns what tells classes apart: give training rows of at least two")]
    OneClass {
        /// The method.
        what: &'static str,
    },
    /// A risk that held-out rows cannot show.
    #[error(
        "no threshold keeps the risk at {risk} with confidence {}: {errors} of {rows} held-out predictions are wrong; {}",
        1.0 - delta,
        what_can_be_promised(*smallest)
    )]
    CannotCertify {
        /// The risk that was asked for.
        risk: f64,
        /// How often the promise might fail.
        delta: f64,
        /// The held-out rows.
        rows: usize,
        /// Wrong predictions among them.
        errors: usize,
        /// The smallest risk that these rows can show, `None` where they show none.
        smallest: Option<f64>,
    },
    /// Two lists that belong together, of different lengths.
    #[error("{got} {what} beside {expected} {beside}: give one for each")]
    NotPaired {
        /// The one list.
        what: &'static str,
        /// Its length.
        got: usize,
        /// The other.
        beside: &'static str,
        /// Its length.
        expected: usize,
    },
}

pub(crate) fn out_of_range(name: &'static str, value: f64, range: &'static str) -> Error {
    Error::OutOfRange { name, value, range }
}

fn what_can_be_promised(smallest: Option<f64>) -> String {
    match smallest {
        Some(risk) => format!(
            "the smallest risk that these rows can promise is {risk}; for less give more rows or a larger delta"
        ),
        None => "these rows can promise no risk at all: give more".to_owned(),
    }
}
