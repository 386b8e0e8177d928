//! Errors of fitting, predicting and calibrating.

use crate::calibrate::Measure;
use crate::column_names::DifferentNames;

/// An error of this crate. Rows and columns are numbered from zero.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Invalid embeddings, queries or neighbors.
    #[error(transparent)]
    Neighbors(#[from] nuq_neighbors::Error),
    /// Two lists that must have equal lengths but do not.
    #[error("{got} {what} for {expected} {counterpart}: give one for each")]
    LengthMismatch {
        /// Name of the list with the wrong length.
        what: &'static str,
        /// Length of that list.
        got: usize,
        /// Name of the list that it belongs to.
        counterpart: &'static str,
        /// Length of the list that it belongs to.
        expected: usize,
    },
    /// A model that is saved without its training rows cannot use this kernel.
    #[error(
        "the kernel {kernel} is computed from the coordinates of the neighbors, and a model that is saved without its training rows does \
         not have them: fit the model with the kernel gaussian or student"
    )]
    KernelNeedsRows {
        /// The kernel.
        kernel: crate::Kernel,
    },
    /// A regression target that is not finite, or whose magnitude is 1e150 or more. The squares of other targets are finite.
    #[error("target of row {row} is {value}: targets must be finite and below 1e150 in magnitude")]
    BadTarget {
        /// The row of the target.
        row: usize,
        /// The target of that row.
        value: f64,
    },
    /// A sample weight that is negative, not finite, or too small or large.
    #[error("sample weight of row {row} is {value:?}: weights must be 0, or between 1e-100 and 1e100")]
    BadSampleWeight {
        /// The training row.
        row: usize,
        /// Its weight.
        value: f64,
    },
    /// A bandwidth outside 1e-100 to 1e100.
    #[error("{what} is {value:?}: it must be positive and finite (1e-100 to 1e100)")]
    BadBandwidth {
        /// Name of the bandwidth, with its position if there are several.
        what: String,
        /// The bandwidth.
        value: f64,
    },
    /// A parameter that cannot be estimated, because the training rows have no spread.
    #[error("{what} cannot be estimated from the training rows: {}; {remedy}", no_spread_cause(*rows))]
    NoSpread {
        /// Name of the parameter.
        what: &'static str,
        /// The number of training rows.
        rows: usize,
        /// What to do instead.
        remedy: &'static str,
    },
    /// A parameter outside its range.
    #[error("{name} is {value:?}: {range}")]
    OutOfRange {
        /// Name of the parameter.
        name: &'static str,
        /// Value of the parameter.
        value: f64,
        /// Description of the valid range.
        range: &'static str,
    },
    /// A covariance that cannot be inverted with the given shrinkage.
    #[error("the covariance of {classes} is singular: give a shrinkage above {shrinkage}")]
    SingularCovariance {
        /// "class" and its label, or "all classes" for a tied covariance.
        classes: String,
        /// The given shrinkage; 0 for `ledoit_wolf`.
        shrinkage: f64,
    },
    /// The scale `intrinsic` was requested with a product kernel (`sigmoid`, `logistic`) or the density `gmm`. Both are defined for the
    /// number of columns only. A kernel of the distance can also be normalized in the intrinsic dimension.
    #[error(
        "scale intrinsic needs the kernel gaussian or student and the density kde or auto: use scale effective or ambient"
    )]
    IntrinsicScale,
    /// Shards with normalized rows for a model without normalization, or the reverse.
    #[error(
        "normalize is {normalize}, and the rows of the shards are {}divided by their norms: write the shards again with the same option",
        if *normalize { "not " } else { "" }
    )]
    ShardNormalization {
        /// The option `normalize` of the model.
        normalize: bool,
    },
    /// Rows were to be inserted into a model with one bandwidth per training row.
    #[error("a model with one bandwidth per training row cannot insert rows: fit it again")]
    PerPointBandwidthFixed,
    /// A row whose label cannot be changed. No label was changed.
    #[error("entry {position} of the ids is {id}, {problem}: no label was changed")]
    CannotRelabel {
        /// The position in the list of ids.
        position: usize,
        /// The id.
        id: u32,
        /// The reason.
        problem: &'static str,
    },
    /// An empty list where at least one entry is needed.
    #[error("no {what}: at least one is needed")]
    NoRows {
        /// Name of the list.
        what: &'static str,
    },
    /// A score that is NaN.
    #[error("row {row} of the {what} is NaN: remove such rows or correct their values")]
    NanScore {
        /// Name of the scores.
        what: &'static str,
        /// The first row with NaN.
        row: usize,
    },
    /// Given probabilities that are negative or do not sum to one.
    #[error(
        "probabilities of row {row} are negative or do not sum to 1 (their sum is {sum}): give class probabilities, or pass logits \
         as logits"
    )]
    BadProbabilities {
        /// The row.
        row: usize,
        /// The sum of its values.
        sum: f64,
    },
    /// A label that cannot equal a class of the model, because it is of another kind (boolean, integer or text).
    #[error(
        "label {label} of row {row} is {kind}, and the classes of the model are {expected}: give labels of the same kind"
    )]
    LabelKind {
        /// The row of the label.
        row: usize,
        /// The label.
        label: String,
        /// `a boolean`, `an integer` or `text`.
        kind: &'static str,
        /// `booleans`, `integers` or `text`.
        expected: &'static str,
    },
    /// Columns with other names, or in another order, than those of the training rows.
    #[error("the column names are not those of the training rows: {0}")]
    ColumnNames(Box<DifferentNames>),
    /// Two columns of the training rows with the same name.
    #[error("columns {first} and {second} are both named `{name}`: give each column its own name")]
    RepeatedColumnName {
        /// The name.
        name: String,
        /// The first column of this name.
        first: usize,
        /// The second column of this name.
        second: usize,
    },
    /// Held-out values of a measure, or scores of another method, that are all equal: no threshold can be chosen from them.
    #[error("{}", equal_scores(*measure, *value))]
    EqualScores {
        /// The measure; `None` for the score of another method.
        measure: Option<Measure>,
        /// The common value.
        value: f64,
    },
    /// Too few held-out rows for prediction sets or intervals of a given coverage.
    #[error(
        "{rows} held-out rows cannot guarantee a coverage of {coverage}: {}",
        match needed {
            Some(needed) => format!("at least {needed} held-out rows are needed"),
            None => "give a smaller coverage".to_owned(),
        }
    )]
    FewHeldOutRows {
        /// The number of held-out rows.
        rows: usize,
        /// The required coverage.
        coverage: f64,
        /// The smallest number of rows that is sufficient; `None` if it is 10¹⁵ or more.
        needed: Option<usize>,
    },
    /// Too few held-out rows of every class for prediction sets with limits by class.
    #[error(
        "no class has enough held-out rows for a coverage of {coverage} by class: the largest has {rows}; {}",
        match needed {
            Some(needed) => format!("at least {needed} rows of a class are needed"),
            None => "give a smaller coverage".to_owned(),
        }
    )]
    FewHeldOutRowsOfClass {
        /// The number of held-out rows of the largest class.
        rows: usize,
        /// The required coverage.
        coverage: f64,
        /// The smallest number of rows of a class that is sufficient; `None` if it is 10¹⁵ or more.
        needed: Option<usize>,
    },
    /// Too many held-out labels that are not classes of the model. Prediction sets cannot have the given coverage.
    #[error(
        "{unknown} of {rows} held-out labels are not classes of the model, so prediction sets cannot have a coverage of {coverage}: fit \
         the model with rows of these classes, or remove the held-out rows with these labels"
    )]
    UnknownLabels {
        /// The number of labels that are not classes of the model.
        unknown: usize,
        /// The number of held-out rows.
        rows: usize,
        /// The required coverage.
        coverage: f64,
    },
    /// A target risk that cannot be certified with the held-out rows.
    #[error(
        "no threshold keeps the risk at {risk} with confidence {}: {errors} of {rows} held-out predictions are wrong; {}",
        confidence(*delta),
        advice(*smallest, *sufficient_rows)
    )]
    CannotCertify {
        /// The target risk.
        risk: f64,
        /// The probability that the guarantee may fail.
        delta: f64,
        /// The number of held-out rows.
        rows: usize,
        /// The number of wrong predictions among them.
        errors: usize,
        /// The smallest risk that can be certified with these rows; `None` if there is none.
        smallest: Option<f64>,
        /// A number of held-out rows that is sufficient to certify the risk of all rows together, if the share of errors stays the
        /// same. `None` if this share is too large; with more rows, a threshold that accepts fewer rows may still be certified.
        sufficient_rows: Option<usize>,
    },
}

pub(crate) fn out_of_range(name: &'static str, value: f64, range: &'static str) -> Error {
    Error::OutOfRange { name, value, range }
}

/// The error if a bandwidth of class probabilities or regression cannot be estimated.
pub(crate) fn no_bandwidth(rows: usize) -> Error {
    // A single row has no neighbors, so a larger `n_neighbors` would not help.
    let remedy = match rows {
        1 => {
            "set bandwidth to a number, choose the density kde and set density_bandwidth to a number; or give more rows"
        }
        _ => "set bandwidth and density_bandwidth to numbers, or increase n_neighbors",
    };
    Error::NoSpread { what: "bandwidth", rows, remedy }
}

/// The error if a bandwidth of the kernel density cannot be estimated.
pub(crate) fn no_density_bandwidth(rows: usize) -> Error {
    let remedy = match rows {
        1 => "choose the density kde and set density_bandwidth to a number, or give more rows",
        _ => "set density_bandwidth to a number, or increase n_neighbors",
    };
    Error::NoSpread { what: "density_bandwidth", rows, remedy }
}

/// The error if the covariances of the densities `gmm` and `auto` cannot be estimated.
pub(crate) fn no_covariance(rows: usize) -> Error {
    let remedy = "choose the density kde and set density_bandwidth to a number";
    Error::NoSpread { what: "the covariance of the density", rows, remedy }
}

/// The error if the covariances of class Gaussians cannot be estimated. These Gaussians are fitted alone, not as the density of a model.
pub(crate) fn no_class_covariance(rows: usize) -> Error {
    let remedy = "give rows that differ from each other";
    Error::NoSpread { what: "the covariance of the classes", rows, remedy }
}

fn equal_scores(measure: Option<Measure>, value: f64) -> String {
    let (score, remedy) = match measure {
        Some(Measure::Density) => ("measure density".to_owned(), "measure"),
        Some(measure) => (format!("measure {measure}"), "measure, for example density"),
        None => ("score".to_owned(), "method"),
    };
    format!(
        "the {score} is {value} for all held-out rows, and a threshold on it cannot separate rows: use another {remedy}"
    )
}

fn no_spread_cause(rows: usize) -> String {
    match rows {
        1 => "there is only one row".to_owned(),
        _ => format!(
            "each of the {rows} rows, or of a sample of them, equals its nearest neighbors (duplicate rows)"
        ),
    }
}

/// Checks that two lists, given by name and length, are equally long.
pub(crate) fn check_lengths(
    (what, got): (&'static str, usize),
    (counterpart, expected): (&'static str, usize),
) -> Result<(), Error> {
    if got == expected { Ok(()) } else { Err(Error::LengthMismatch { what, got, counterpart, expected }) }
}

/// `1 − δ` without the digits of its rounding error.
fn confidence(delta: f64) -> f64 {
    (1e12 * (1.0 - delta)).round() / 1e12
}

fn advice(smallest: Option<f64>, sufficient_rows: Option<usize>) -> String {
    let smallest = match smallest {
        Some(risk) => format!("the smallest risk that can be certified with these rows is {risk}"),
        None => "no risk can be certified with these rows".to_owned(),
    };
    match sufficient_rows {
        Some(rows) => {
            format!("{smallest}; {rows} held-out rows with the same share of errors are sufficient")
        }
        None => format!("{smallest}; to certify the given risk, use more rows or a larger delta"),
    }
}
