//! Why a model could not be fitted or asked.

/// Bad input, named so that it can be found and mended. Rows and columns count from zero.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Embeddings, queries or a neighbor table were refused.
    #[error(transparent)]
    Neighbors(#[from] nuq_neighbors::Error),
    /// Two lists that must have one entry for each other, of different lengths.
    #[error("{got} {what} for {expected} {counterpart}: give one for each")]
    LengthMismatch {
        /// The list of the wrong length.
        what: &'static str,
        /// Its length.
        got: usize,
        /// The list that it belongs to.
        counterpart: &'static str,
        /// The length of that list.
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
    PerPointBandwidthFixed,
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
