"""Exceptions, one for each kind of error. All are subclasses of ``NuqError``.

If scikit-learn raises ``ValueError`` in the same case, the exception is also a subclass of ``ValueError``.
"""


class NuqError(Exception):
    """Base class of all exceptions of nuq."""


class InvalidInputError(NuqError, ValueError):
    """An array has the wrong type, shape or content."""


class NotNumbersError(InvalidInputError, TypeError):
    """The input is not a dense array of numbers: it contains objects or strings, or it is sparse or masked."""


class NotFiniteError(InvalidInputError):
    """A value is NaN, infinite or outside the range of float32, or a label is missing. Most messages contain the row."""


class DimensionMismatchError(InvalidInputError):
    """Rows have another number of columns than the training rows of the model."""


class ColumnNamesError(InvalidInputError):
    """The column names of rows differ from the column names of the training rows or are in another order, a name occurs twice, or only some of
    the names are strings."""


class LengthMismatchError(InvalidInputError):
    """Two arrays that must have equal lengths have different lengths."""


class EmptyError(InvalidInputError):
    """An array has no rows or no columns."""


class UnknownIdError(InvalidInputError):
    """An id does not belong to a training row, or occurs twice."""


class FewNeighborsError(InvalidInputError):
    """A vector database or another program returned fewer neighbors than requested, or than the model uses."""


class BadTargetError(InvalidInputError):
    """The magnitude of a regression target is at least 1e150. The estimators raise ``NotFiniteError`` for targets that are NaN or infinite."""


class NoSpreadError(InvalidInputError):
    """A bandwidth or covariance cannot be estimated, because there is only one training row, or each row equals its nearest neighbors."""


class FewRowsError(InvalidInputError):
    """There are too few rows for this computation."""


class DeviceError(NuqError, RuntimeError):
    """A GPU cannot be used: the GPU, its driver or a library is missing or has failed. The message contains the remedy."""


class StoreError(NuqError, RuntimeError):
    """The rows, ids or distances of a vector database differ from those of the model, or they are stored in a way that nuq does not support."""


class MissingPackageError(NuqError, ImportError):
    """An optional package is not installed. The message contains the command that installs it."""


class MissingInputError(InvalidInputError):
    """A baseline was called without an input that it needs."""


class LogitsNotLinearError(InvalidInputError):
    """The logits are not a linear function of the embeddings."""


class InvalidParameterError(NuqError, ValueError):
    """A parameter has an invalid value."""


class ParameterTypeError(InvalidParameterError, TypeError):
    """A parameter has the wrong type."""


class UnknownNameError(NuqError, KeyError):
    """There is no column, or no method of an evaluation, with the given name."""

    # `KeyError.__str__` would return the message in quotes.
    __str__ = Exception.__str__


class OutOfRangeError(InvalidParameterError):
    """A number is outside its valid range."""


class BandwidthError(InvalidParameterError):
    """A bandwidth is not positive and finite."""


class LayerError(InvalidParameterError):
    """The layer with the embeddings of a network cannot be found or did not run, or the logits in the output of the network cannot be identified.

    The message lists the candidates, if there are any.
    """


class NetworkMismatchError(NuqError, ValueError):
    """The embeddings of a network differ from those of the network that was passed to ``nuq.torch.guard``, or the network is in training mode. If the
    embeddings differ, the usual reason is that the network has other weights."""


class SingularCovarianceError(NuqError, ValueError):
    """A covariance matrix is singular and needs more shrinkage."""


class PerPointBandwidthError(NuqError, ValueError):
    """Rows cannot be inserted into a model with one bandwidth per training row."""


class FixedRowsError(NuqError, ValueError):
    """Rows cannot be inserted into a sharded model or removed from it."""


class RowsNotStoredError(NuqError, ValueError):
    """The model was saved without its training rows, and the call needs them."""


class CannotCertifyError(NuqError, ValueError):
    """The held-out rows are not sufficient to certify the requested risk."""


class NotFittedError(NuqError, ValueError, AttributeError):
    """A method was called before ``fit``."""


class FileError(NuqError, OSError):
    """A file could not be read or written."""


class MissingFileError(FileError, FileNotFoundError):
    """The file does not exist."""


class DamagedFileError(FileError):
    """A file is not a model file, or its content is damaged."""


class NewerFormatError(FileError):
    """The model file was written by a newer version of nuq."""
