//! Conversion of Rust errors to the exception classes of `nuq/errors.py`.

use std::io::ErrorKind;

use nuq::nuq_neighbors::Error as Rows;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;

/// Any error of a call.
pub(crate) enum Failure {
    Nuq(nuq::Error),
    Eval(nuq_eval::Error),
    Io(nuq_io::Error),
    /// The outputs of the network are in the order of classes that the model does not have any more.
    OtherClasses,
    /// The call was interrupted. The call raises the exception of the signal handler instead of this error.
    Cancelled(nuq::Cancelled),
}

impl From<nuq::Cancelled> for Failure {
    fn from(cancelled: nuq::Cancelled) -> Self {
        Self::Cancelled(cancelled)
    }
}

impl From<nuq::Error> for Failure {
    fn from(error: nuq::Error) -> Self {
        Self::Nuq(error)
    }
}

impl From<nuq_eval::Error> for Failure {
    fn from(error: nuq_eval::Error) -> Self {
        Self::Eval(error)
    }
}

impl From<Rows> for Failure {
    fn from(error: Rows) -> Self {
        Self::Nuq(error.into())
    }
}

impl From<nuq_io::Error> for Failure {
    fn from(error: nuq_io::Error) -> Self {
        Self::Io(error)
    }
}

impl From<Failure> for PyErr {
    fn from(failure: Failure) -> Self {
        let (class, message) = match &failure {
            Failure::Nuq(error) => (class_of(error), error.to_string()),
            Failure::Eval(error) => (class_of_eval(error), error.to_string()),
            Failure::Io(error) => (class_of_io(error), error.to_string()),
            Failure::OtherClasses => {
                let text =
                    "another thread has changed the classes of the model during this call: call it again";
                ("InvalidParameterError", text.to_owned())
            }
            Failure::Cancelled(cancelled) => ("NuqError", cancelled.to_string()),
        };
        raise(class, message)
    }
}

/// Creates an exception of a class of `nuq.errors`.
pub(crate) fn raise(class: &'static str, message: String) -> PyErr {
    Python::attach(|py| {
        let exception = py
            .import("nuq.errors")
            .and_then(|errors| errors.getattr(class))
            .and_then(|class| class.call1((message.clone(),)));
        match exception {
            Ok(exception) => PyErr::from_value(exception),
            Err(_) => PyRuntimeError::new_err(message),
        }
    })
}

/// Name of the exception class.
fn class_of(error: &nuq::Error) -> &'static str {
    use nuq::Error::*;
    match error {
        Neighbors(error) => class_of_rows(error),
        LengthMismatch { .. } => "LengthMismatchError",
        BadTarget { .. } => "BadTargetError",
        BadSampleWeight { .. } => "InvalidInputError",
        BadBandwidth { .. } => "BandwidthError",
        NoSpread { .. } => "NoSpreadError",
        OutOfRange { .. } => "OutOfRangeError",
        SingularCovariance { .. } => "SingularCovarianceError",
        PerPointBandwidthFixed => "PerPointBandwidthError",
        KernelNeedsRows { .. } => "InvalidParameterError",
        CannotRelabel { .. } => "UnknownIdError",
        NoRows { .. } => "EmptyError",
        NanScore { .. } => "NotFiniteError",
        ColumnNames(_) | RepeatedColumnName { .. } => "ColumnNamesError",
        EqualScores { .. } | LabelKind { .. } | BadProbabilities { .. } | UnknownLabels { .. } => {
            "InvalidInputError"
        }
        CannotCertify { .. } => "CannotCertifyError",
        FewHeldOutRows { .. } | FewHeldOutRowsOfClass { .. } => "FewRowsError",
        _ => "NuqError",
    }
}

fn class_of_eval(error: &nuq_eval::Error) -> &'static str {
    use nuq_eval::Error::*;
    match error {
        Model(error) => class_of(error),
        MissingInput { .. } => "MissingInputError",
        LogitsNotLinear { .. } => "LogitsNotLinearError",
        FewRows { .. } => "FewRowsError",
        OneClass { .. } | MemberCount { .. } => "InvalidInputError",
        _ => "NuqError",
    }
}

fn class_of_rows(error: &Rows) -> &'static str {
    match error {
        Rows::DimensionMismatch { .. } => "DimensionMismatchError",
        Rows::NotFinite { .. } | Rows::OutOfRange { .. } | Rows::OutOfHalfRange { .. } => "NotFiniteError",
        Rows::Empty | Rows::ZeroColumns => "EmptyError",
        Rows::LengthMismatch { .. } => "LengthMismatchError",
        Rows::UnknownId { .. } | Rows::RepeatedId { .. } | Rows::CannotRemove { .. } => "UnknownIdError",
        Rows::ZeroNeighbors | Rows::BadRecall { .. } | Rows::BadGraphParameter { .. } => "OutOfRangeError",
        Rows::Damaged { .. } => "DamagedFileError",
        Rows::FileChanged { .. } => "FileError",
        Rows::Device { .. } | Rows::GraphOnDevice { .. } => "DeviceError",
        Rows::FixedShards => "FixedRowsError",
        Rows::RowsNotStored => "RowsNotStoredError",
        // A worker of a cluster failed; the input may be correct.
        Rows::ShardSearch { .. } => "NuqError",
        _ => "InvalidInputError",
    }
}

fn class_of_io(error: &nuq_io::Error) -> &'static str {
    use nuq_io::Error::*;
    match error {
        Read { source, .. } if source.kind() == ErrorKind::NotFound => "MissingFileError",
        Read { .. } | Write { .. } => "FileError",
        NewerFormat { .. } => "NewerFormatError",
        NotAModel { .. } | Damaged { .. } => "DamagedFileError",
        Model { source, .. } => class_of(source),
        Array { source, .. } => class_of(source),
        _ => "FileError",
    }
}
