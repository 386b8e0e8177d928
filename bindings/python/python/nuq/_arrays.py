"""Conversion of array-like input to the numpy arrays that the extension accepts.

The extension reads aligned ``float32`` arrays in C order without a copy. It copies arrays of ``float64`` or ``float16``, arrays in Fortran
order and strided arrays. All other input is converted to a numpy array first. An array must not be changed while a call reads it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Union, cast

import numpy as np

from . import _nuq
from ._warnings import warn
from .errors import (
    ColumnNamesError,
    DimensionMismatchError,
    EmptyError,
    InvalidInputError,
    InvalidParameterError,
    LengthMismatchError,
    NotFiniteError,
    NotNumbersError,
    OutOfRangeError,
    ParameterTypeError,
)

#: The types of labels that the extension accepts.
Label = Union[bool, int, str]

_ACCEPTED = (np.float16, np.float32, np.float64)

#: Device types of CUDA in DLPack: device memory and managed memory.
_DLPACK_CUDA = (2, 13)


def is_torch(values: Any) -> bool:
    """Whether an object is from PyTorch. The check does not import PyTorch."""
    return type(values).__module__.partition(".")[0] == "torch"


def is_on_gpu(values: Any) -> bool:
    """Whether an array of another library is in the memory of a GPU."""
    if isinstance(values, np.ndarray):
        return False
    if is_torch(values):
        return bool(getattr(values, "is_cuda", False))
    if hasattr(values, "__dlpack_device__"):
        return int(values.__dlpack_device__()[0]) in _DLPACK_CUDA
    return hasattr(values, "__cuda_array_interface__")


def gpu_number(device: Any) -> int | None:
    """The number of the GPU that the value of the parameter ``device`` permits; None if it permits only the CPU."""
    if device in ("auto", "cuda"):
        return 0
    kind, _, number = str(device).partition(":")
    return int(number) if kind == "cuda" and number.isdecimal() else None


def _from_gpu(values: Any) -> np.ndarray:
    """Copy an array from the memory of a GPU with a method of its library: ``get`` (CuPy), ``copy_to_host`` (Numba) or ``__array__``."""
    for method in ("get", "copy_to_host"):
        if hasattr(values, method):
            return np.asarray(getattr(values, method)())
    if hasattr(values, "__array__"):
        return np.asarray(values)
    raise InvalidInputError(f"the array of type {type(values).__name__} is in the memory of a GPU: copy it to the host first")


def to_numpy(values: Any) -> np.ndarray:
    """Convert array-like input to a numpy array. Tensors are copied from their device."""
    if isinstance(values, np.ndarray):
        if isinstance(values, np.ma.MaskedArray) and np.ma.is_masked(values):
            raise NotNumbersError("masked arrays with masked values are not supported: fill these values or drop their rows")
        return values
    if is_torch(values):
        values = values.detach().cpu()
        return np.asarray((values.float() if str(values.dtype) == "torch.bfloat16" else values).numpy())
    if type(values).__module__.partition(".")[0] == "polars":
        _check_polars(values)
    if isinstance(values, (list, tuple)):
        for value in values:
            if isinstance(value, np.ma.MaskedArray):
                to_numpy(value)
    if is_on_gpu(values):
        return _from_gpu(values)
    scipy_sparse = sys.modules.get("scipy.sparse")
    if scipy_sparse is not None and scipy_sparse.issparse(values):
        raise NotNumbersError(
            "Sparse data was passed for X, but dense data is required. Use '.toarray()' to convert to a dense numpy array."
        )
    if hasattr(values, "__dlpack__") and not hasattr(values, "__array__"):
        return np.from_dlpack(values)
    try:
        return np.asarray(values)
    except ValueError as error:
        # The rows have different lengths.
        raise InvalidInputError(str(error)) from None
    except TypeError as error:
        # The types of the columns have no common type, for example numbers and dates.
        raise NotNumbersError(str(error)) from None


def _check_polars(values: Any) -> None:
    """Reject polars frames that numpy would convert to wrong values without an error."""
    if hasattr(values, "collect"):
        raise NotNumbersError("a polars LazyFrame contains no values: pass the result of its method collect()")
    for name, kind in getattr(values, "schema", {}).items():
        if kind.is_temporal():
            # If another column has numbers, dates would be converted to numbers too, in the time unit of the date column.
            raise NotNumbersError(f"column {name!r} is of type {kind}: convert it to a number in a unit of your choice")


def numbers(array: np.ndarray, dtype: Any) -> np.ndarray:
    """Convert an array to a data type, aligned and in C order. The array is copied only if necessary."""
    if array.dtype.kind in "mM":
        raise NotNumbersError(f"{array.dtype} is not a number: convert it to a number in a unit of your choice")
    try:
        return np.require(array, dtype=dtype, requirements=["C", "A"])
    except (TypeError, ValueError, OverflowError) as error:
        raise NotNumbersError(f"{_not_a_number(array)}{error}") from None


def _not_a_number(array: np.ndarray) -> str:
    """The first words of a message: the position of the first entry that is not a number. Empty if there is no such entry."""
    for position, value in np.ndenumerate(array):
        try:
            float(value)
        except (TypeError, ValueError, OverflowError):
            names = ("row", "column")[: array.ndim]
            return ", ".join(f"{name} {number}" for name, number in zip(names, position)) + ": "
    return ""


def integer(value: Any, name: str, least: int = 0) -> int:
    """Check an integer parameter that must be at least ``least`` and below 2**63."""
    expected = f"{name}={value!r}: expected an integer of at least {least}"
    if not isinstance(value, (int, np.integer)) or isinstance(value, bool):
        raise ParameterTypeError(expected)
    if value < least:
        raise OutOfRangeError(expected)
    if value >= 2**63:
        raise OutOfRangeError(f"{name}={value!r}: expected an integer below 2**63")
    return int(value)


def real(value: Any, name: str) -> float:
    """Check a parameter that is a real number. The extension checks its range."""
    is_real = isinstance(value, (int, float, np.number)) and not isinstance(value, (bool, np.complexfloating))
    try:
        if is_real:
            return float(value)
    except OverflowError:
        raise OutOfRangeError(f"{name}={value!r}: the number is too large") from None
    raise ParameterTypeError(f"{name}={value!r}: expected a real number")


def boolean(value: Any, name: str) -> bool:
    """Check a parameter that is True or False."""
    if isinstance(value, (bool, np.bool_)):
        return bool(value)
    raise ParameterTypeError(f"{name}={value!r}: expected True or False")


def text(value: Any, name: str) -> str:
    """Check a parameter that is a nonempty string."""
    if not isinstance(value, str):
        raise ParameterTypeError(f"{name}={value!r}: expected a string")
    if not value:
        raise InvalidParameterError(f"{name}={value!r}: expected a string that is not empty")
    return value


def choice(value: Any, name: str, choices: Iterable[str]) -> str:
    """Check a parameter whose value is one of several names."""
    if isinstance(value, str) and value in (choices := list(choices)):
        return value
    kind = InvalidParameterError if isinstance(value, str) else ParameterTypeError
    raise kind(f"{name}={value!r}: expected one of {', '.join(map(repr, choices))}")


def path(value: Any, name: str = "path") -> Path:
    """Check the path of a local file or folder."""
    if isinstance(value, str) and value.startswith("file://"):
        value = value.removeprefix("file://")
    if isinstance(value, str) and "://" in value:
        raise InvalidParameterError(
            f"{name}={value!r}: expected a path on this machine; copy files between this machine and the object store with another program"
        )
    if isinstance(value, (str, os.PathLike)):
        return Path(value)
    raise ParameterTypeError(f"{name}={value!r}: expected the path of a file, a string or pathlib.Path")


def members(values: Any) -> list[np.ndarray] | None:
    """Convert the logits of each member of an ensemble to a list of two-dimensional arrays."""
    if values is None:
        return None
    if not isinstance(values, Iterable):
        raise ParameterTypeError(f"members={values!r}: expected a sequence of arrays, the logits of each member")
    return [rows(member, "members") for member in values]


def weights(values: Any, n: int) -> np.ndarray | None:
    """Check the sample weights of ``n`` rows."""
    if values is None:
        return None
    array = scores(values, "sample_weight")
    if len(array) != n:
        raise LengthMismatchError(f"sample_weight has {len(array)} values for {n} rows: give one per row")
    if not (np.isfinite(array).all() and (array >= 0).all() and array.sum() > 0):
        raise InvalidInputError("sample_weight must be finite and nonnegative, with at least one weight that is not zero")
    return array


def warn_small_weights(weights: np.ndarray | None) -> None:
    """Warn if the sample weights of all rows of a fit have a mean below 0.1. Weights whose sum is 1 are an example.

    Only a fit calls this function: the sum of the weights does not matter in ``score``, which computes a weighted mean, nor for rows
    that are added to a fitted model."""
    if weights is None:
        return
    n, total = len(weights), float(weights.sum())
    if total < 0.1 * n:
        text = (
            f"sample_weight of {n} rows has the sum {total:.6g}: a row with weight w counts as w identical rows, so the model has the "
            f"equivalent of only {total:.6g} rows; multiply the weights by {n / total:.6g} for a mean of 1"
        )
        warn(text)


def row_index(values: Any) -> Any:
    """The index of a pandas data frame; None for all other input."""
    pandas = sys.modules.get("pandas")
    return values.index if pandas is not None and isinstance(values, pandas.DataFrame) else None


def rows(values: Any, name: str = "X", gpu: int | None = None) -> np.ndarray:
    """Convert to a two-dimensional array of floats. The extension checks for NaN and infinity.

    If an array of floats is in the memory of the GPU with the number ``gpu``, it stays there. The result is then a ``DeviceRows`` object of
    the extension, which supports ``len``, ``shape`` and slices.
    """
    if gpu is not None and is_on_gpu(values):
        on_gpu = _nuq.device_rows(values.detach() if is_torch(values) else values, gpu)
        if on_gpu is not None:
            return cast(np.ndarray, on_gpu)
    array = to_numpy(values)
    if array.dtype.kind == "c":
        raise InvalidInputError(f"Complex data not supported\n{array!r}\n")
    if array.ndim != 2:
        kind = f"{array.ndim}D array" if array.ndim != 0 else "scalar array"
        raise InvalidInputError(
            f"Expected 2D array, got {kind} instead:\narray={array!r}.\nReshape your data either using "
            "array.reshape(-1, 1) if your data has a single feature or array.reshape(1, -1) if it contains a single sample."
            if array.ndim < 2
            else f"Found array {name} with dim {array.ndim}, while dim <= 2 is required."
        )
    if array.shape[1] == 0:
        raise EmptyError(f"Found array with 0 feature(s) (shape={array.shape}) while a minimum of 1 is required.")
    if array.shape[0] == 0:
        raise EmptyError(f"Found array with 0 sample(s) (shape={array.shape}) while a minimum of 1 is required.")
    if array.dtype.type not in _ACCEPTED or not array.dtype.isnative or not array.flags.aligned:
        # Integers, booleans, digit strings and objects become float64. Floats keep their type and are only aligned, in native byte order.
        array = numbers(array, array.dtype.newbyteorder("=") if array.dtype.type in _ACCEPTED else np.float64)
    return array


def warn_lost_digits(array: np.ndarray) -> None:
    """Warn if differences between float64 rows are lost in float32, the type in which the model stores rows. Timestamps are an example.
    At most 1000 rows are checked."""
    if not isinstance(array, np.ndarray) or array.dtype.type is not np.float64:
        return
    sample = array[:: -(-len(array) // 1000)]
    with np.errstate(over="ignore", invalid="ignore"):
        error = np.abs(sample - sample.astype(np.float32)).max(axis=0)
        # Constant columns are excluded by their range, because rounding can make their computed standard deviation positive.
        lost = np.flatnonzero((error > 0.01 * sample.std(axis=0)) & (np.ptp(sample, axis=0) > 0))
    if len(lost) and np.isfinite(sample).all():
        text = (
            f"column {lost[0]} has values near {sample[0, lost[0]]:.6g} whose differences are lost in float32, the type in which rows are "
            "stored: subtract an offset from the column"
        )
        warn(text)


def scores(values: Any, name: str) -> np.ndarray:
    """Convert to a one-dimensional array of float64."""
    array = to_numpy(values)
    if array.ndim != 1:
        raise InvalidInputError(f"{name} must be one-dimensional, got shape {array.shape}")
    if array.dtype.kind == "c":
        raise NotNumbersError(f"{name} must be real numbers")
    return numbers(array, np.float64)


def class_numbers(values: Any) -> np.ndarray:
    """Convert the true classes of rows, each given as the number of its column of probabilities or logits, to a one-dimensional array."""
    array = to_numpy(values)
    if array.ndim != 1 or array.dtype.kind not in "iu" or (array.size and not 0 <= array.min() <= array.max() < 2**32):
        text = "classes must be a one-dimensional array with the column number of the true class of each row (integers of at least 0)"
        raise InvalidInputError(text)
    return numbers(array, np.int64)


def flags(values: Any, name: str) -> np.ndarray:
    """Convert to a one-dimensional array of booleans."""
    array = to_numpy(values)
    if array.ndim != 1 or array.dtype.kind not in "biu" or not np.isin(array, (0, 1)).all():
        raise InvalidInputError(f"{name} must be a one-dimensional array of True and False")
    return numbers(array, bool)


def column(values: Any, owner: str) -> np.ndarray:
    """Convert labels or targets to a one-dimensional array. A matrix with one column is accepted with a warning."""
    if values is None:
        raise InvalidInputError(f"This {owner} estimator requires y to be passed, but the target y is None.")
    array = to_numpy(values)
    if array.ndim == 2 and array.shape[1] == 1:
        # The category is a subclass of UserWarning that scikit-learn defines, if scikit-learn is loaded.
        exceptions = sys.modules.get("sklearn.exceptions")
        category = UserWarning if exceptions is None else exceptions.DataConversionWarning
        text = (
            "A column-vector y was passed when a 1d array was expected. Please change the shape of y to "
            "(n_samples,), for example using ravel()."
        )
        warn(text, category)
        array = array.ravel()
    if array.ndim != 1:
        raise InvalidInputError(f"y should be a 1d array, got an array of shape {array.shape} instead.")
    if array.dtype.kind == "c":
        raise InvalidInputError(f"Complex data not supported\n{array!r}\n")
    return array


def check_lengths(x: np.ndarray, y: np.ndarray) -> None:
    """Check that there is one label or target per row."""
    if len(x) != len(y):
        raise LengthMismatchError(
            f"Found input variables with inconsistent numbers of samples: [{len(x)}, {len(y)}]"
        )


def labels(values: Any, owner: str) -> tuple[np.dtype, np.ndarray, list[Label]]:
    """Return the data type of the labels, for each row the index of its label in the sorted distinct labels, and these distinct labels."""
    array = column(values, owner)
    if array.dtype.kind == "f":
        if not np.isfinite(array).all():
            raise NotFiniteError("Input y contains NaN or infinity. Remove the rows without a label.")
        if (array != np.floor(array)).any():
            raise InvalidInputError(
                "Unknown label type: continuous. Maybe you are trying to fit a classifier, which expects discrete classes "
                "on a regression target with continuous values."
            )
    elif array.dtype.kind not in "iubUSO":
        raise InvalidInputError(f"Unknown label type: labels of type {array.dtype} are neither integers nor strings.")
    if array.dtype.kind == "O":
        _check_objects(array)
    try:
        classes, indices = np.unique(array, return_inverse=True)
    except TypeError:
        raise InvalidInputError("Unknown label type: labels must be all integers or all strings.") from None
    distinct = [label(value) for value in classes.tolist()]
    if len({type(value) for value in distinct}) > 1:
        # An array of objects may contain both booleans and integers. They are compared as integers.
        distinct = [int(value) for value in distinct]
    return array.dtype, numbers(indices.ravel(), np.int64), distinct


def _check_objects(array: np.ndarray) -> None:
    """Reject missing labels, and labels that are arrays, in an array of objects."""
    for row, value in enumerate(array):
        try:
            missing = is_missing(value)
        except (ValueError, RuntimeError):
            # The comparison of an array of numpy or pandas, or of a tensor, has several results.
            raise InvalidInputError(
                f"Unknown label type: the label of row {row} is of type {type(value).__name__}: give one integer or string per row."
            ) from None
        if missing:
            raise NotFiniteError("Input y contains NaN. Remove the rows without a label.")


def is_missing(value: Any) -> bool:
    """Whether an object is None, NaN or a missing value of pandas. The types of pandas are checked by name, because comparing NA
    does not return a boolean."""
    return value is None or type(value).__name__ in ("NAType", "NaTType") or bool(value != value)


def label(value: Any) -> Label:
    """Convert a label to the type that the extension accepts."""
    if isinstance(value, np.generic):
        # An array of objects may contain numpy scalars.
        value = value.item()
    if isinstance(value, (bool, int)):
        return value
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, bytes):
        try:
            value = value.decode()
        except UnicodeDecodeError:
            raise InvalidInputError(f"Unknown label type: {value!r} is not valid UTF-8.") from None
    if isinstance(value, str):
        if value in _nuq.MISSING_LABELS:
            raise NotFiniteError(
                f"Input y contains a missing label ({value!r}). Remove the rows without a label; if {value!r} is a class, rename it."
            )
        return value
    raise InvalidInputError(f"Unknown label type: {value!r} is neither an integer nor a string.")


def label_array(values: list[Label], dtype: np.dtype | None = None) -> np.ndarray:
    """Convert labels from the extension to an array. It has the given data type if this type can represent all labels."""
    is_text = all(isinstance(value, str) for value in values)
    if dtype is not None and dtype.kind == "S" and is_text:
        return np.array([str(value).encode() for value in values])
    if dtype is not None and dtype.kind in "biufO":
        try:
            array = np.array(values, dtype=dtype)
        except (OverflowError, ValueError):
            array = np.array([])
        if array.tolist() == values:
            return array
    if is_text or all(isinstance(value, bool) for value in values):
        return np.array(values)
    is_int64 = all(isinstance(value, int) and -(2**63) <= value < 2**63 for value in values)
    return np.array(values, dtype=np.int64 if is_int64 else object)


def names_of_columns(values: Any) -> list[Any]:
    """The column names of a data frame or an Arrow table, without conversion to strings; empty for arrays."""
    if type(values).__module__.partition(".")[0] == "pyarrow":
        # The attribute `columns` of an Arrow table contains its data, not its names.
        return list(values.schema.names) if hasattr(values, "schema") else []
    if hasattr(values, "columns"):
        return list(values.columns)
    return list(values.__dataframe__().column_names()) if hasattr(values, "__dataframe__") else []


def column_names(values: Any) -> list[str] | None:
    """Column names of a data frame or an Arrow table as strings. None for arrays, and for the names 0, 1, 2, … that pandas gives to columns
    without names. Other names are converted to strings, so that they are compared with the names of the training rows too, for example
    integers in another order or the tuples of a MultiIndex. If only some names are strings, it is an error."""
    listed = names_of_columns(values)
    are_text = [isinstance(name, str) for name in listed]
    if any(are_text) and not all(are_text):
        kinds = sorted({type(name).__name__ for name in listed})
        raise ColumnNamesError(
            f"the column names are of the types {' and '.join(kinds)}: give strings, for example with "
            "X.columns = X.columns.astype(str)"
        )
    return None if listed == list(range(len(listed))) else [str(name) for name in listed]


def names_message(known: list[str], names: list[str]) -> str:
    """scikit-learn's message for column names that differ from those of the training rows."""

    def entries(found: set[str]) -> str:
        return "".join(f"- {name}\n" for name in sorted(found)[:5]) + ("- ...\n" if len(found) > 5 else "")

    message = "The feature names should match those that were passed during fit.\n"
    unexpected, missing = set(names) - set(known), set(known) - set(names)
    if unexpected:
        message += f"Feature names unseen at fit time:\n{entries(unexpected)}"
    if missing:
        message += f"Feature names seen at fit time, yet now missing:\n{entries(missing)}"
    if not unexpected and not missing:
        message += "Feature names must be in the same order as they were in fit.\n"
    return message


def check_columns(owner: str, got: int, expected: int) -> None:
    """Check the number of columns. The message is the same as in scikit-learn."""
    if got != expected:
        raise DimensionMismatchError(
            f"X has {got} features, but {owner} is expecting {expected} features as input"
        )
