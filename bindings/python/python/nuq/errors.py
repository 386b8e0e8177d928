"""One exception for each kind of error of the Rust library, all of them ``NuqError``.

Those that scikit-learn would raise as ``ValueError`` are that too, so that code written for it goes on working.
"""


class NuqError(Exception):
    """Anything that nuq refuses or cannot do."""


class InvalidInputError(NuqError, ValueError):
    """Arrays that cannot be what they are given as."""


class NotNumbersError(InvalidInputError, TypeError):
    """Something else than numbers where numbers are needed: objects, text, sparse or masked arrays."""


class NotFiniteError(InvalidInputError):
    """A NaN, an infinity, or a number beyond float32, named by row and column."""


class DimensionMismatchError(InvalidInputError):
    """Rows of another number of columns than the model was fitted to."""


class LengthMismatchError(InvalidInputError):
    """Arrays that belong together, of different lengths."""


class EmptyError(InvalidInputError):
    """No rows, or no columns, where there must be some."""


class UnknownIdError(InvalidInputError):
    """An id that names no training row, or one that is given twice."""


class BadTargetError(InvalidInputError):
    """A regression target that is not finite."""


class NoSpreadError(InvalidInputError):
    """Rows that do not differ, so that no scale can be learned from them."""


class FewRowsError(InvalidInputError):
    """Fewer rows than it takes."""


class MissingInputError(InvalidInputError):
    """A scorer was not given what it looks at."""


class LogitsNotLinearError(InvalidInputError):
    """Logits that are no linear function of the embeddings."""


class InvalidParameterError(NuqError, ValueError):
    """A parameter that is none of the values it may have."""


class OutOfRangeError(InvalidParameterError):
    """A number outside its range."""


class BandwidthError(InvalidParameterError):
    """A bandwidth that is not positive and finite, or bandwidths of the wrong number."""


class SingularCovarianceError(NuqError, ValueError):
    """A covariance that needs more shrinkage."""


class PerPointBandwidthError(NuqError, ValueError):
    """Rows for a model whose bandwidths belong to its rows."""


class CannotCertifyError(NuqError, ValueError):
    """A risk that the held-out rows cannot show."""


class NotFittedError(NuqError, ValueError, AttributeError):
    """An estimator was asked before it was fitted."""


class FileError(NuqError, OSError):
    """A file that could not be read or written."""


class MissingFileError(FileError, FileNotFoundError):
    """No file of that name."""


class DamagedFileError(FileError):
    """A file that is no model, or not as it was written."""


class NewerFormatError(FileError):
    """A model of a newer nuq."""
