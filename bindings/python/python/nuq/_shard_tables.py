"""Training rows in Arrow tables. Each task of a cluster writes one table as a shard."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from . import _arrays, _batches, _files, _remote
from ._base import Estimator
from ._sharded import Part, write
from .errors import FileError, InvalidParameterError, ParameterTypeError, UnknownNameError


class Columns(NamedTuple):
    """The columns of a table of training rows. All values are plain Python objects, because engines send them to workers."""

    #: The name of a column of lists of numbers, or the names of several columns of numbers, one per coordinate.
    column: str | tuple[str, ...]
    #: The column of labels or targets.
    y_column: str
    #: The column of sample weights.
    weight_column: str | None
    #: The column whose values identify rows in error messages.
    id_column: str | None

    @classmethod
    def checked(cls, column: Any, y_column: Any, weight_column: Any, id_column: Any) -> Columns:
        """Check the arguments of a call."""
        options = _batches.Options.checked(column, id_column, None, None, "error")
        weight = None if weight_column is None else _arrays.text(weight_column, "weight_column")
        return cls(options.column, _arrays.text(y_column, "y_column"), weight, options.id_column)

    @property
    def names(self) -> tuple[str, ...] | None:
        """The names of the coordinates if each coordinate has its own column; None otherwise."""
        return None if isinstance(self.column, str) else self.column

    @property
    def all(self) -> tuple[str, ...]:
        """The names of all columns that are read."""
        others = [name for name in (self.y_column, self.weight_column, self.id_column) if name is not None]
        return (*((self.column,) if isinstance(self.column, str) else self.column), *others)

    def check_present(self, names: Sequence[str]) -> None:
        """Raise an error if a column that is read is not among ``names``, the columns of a table."""
        for name in self.all:
            if name not in names:
                raise UnknownNameError(f"there is no column {name!r}: the columns are {', '.join(map(repr, names))}")


def write_table(folder: Path, number: int, table: Any, columns: Columns, normalize: bool, threads: int | None) -> Part:
    """Write the rows of an Arrow table as a shard. A row is an error if it is null, has another length than the first row that is neither
    null nor empty, or contains a NaN, an infinity, a null or a number outside the range of float32."""
    if not len(table):
        return Part(number, ("", 0), np.empty(0), None)
    columns.check_present(table.column_names)
    truth = _values(table, columns.y_column)
    weights = None if columns.weight_column is None else _values(table, columns.weight_column).astype(np.float64)
    return write(folder, number, _rows(table, columns), truth, weights, normalize, threads)


def _rows(table: Any, columns: Columns) -> np.ndarray:
    """The coordinates of all rows of a table."""
    if isinstance(columns.column, str):
        rows, problems = _batches._list_rows(table[columns.column], columns.column, None)
    else:
        rows, problems = _batches._number_rows(table, columns.column)
    if problems:
        i = min(problems)
        kind, problem = problems[i]
        key = f"row {i} of its shard" if columns.id_column is None else f"{columns.id_column}={table[columns.id_column][i].as_py()!r}"
        raise kind(f"{key} {problem}: correct or remove such rows; there are {len(problems)} of them in this shard")
    return rows


def _values(table: Any, name: str) -> np.ndarray:
    """A column as an array. A null becomes None or NaN."""
    values: np.ndarray = table[name].combine_chunks().to_numpy(zero_copy_only=False)
    return values


def prepared(folder: Any, estimator: Estimator) -> tuple[Path, bool]:
    """Create the folder of a model. Returns its absolute path, and whether the rows are divided by their norms."""
    if not isinstance(estimator, Estimator):
        raise ParameterTypeError(
            f"estimator is of the type {type(estimator).__name__}: expected a NuqClassifier or a NuqRegressor"
        )
    if estimator.index == "hnsw":
        raise InvalidParameterError('index="hnsw": shards are searched exactly, use index="exact" or "auto"')
    normalize = estimator._extension_params()["normalize"]
    path = _remote.local_folder(folder, "folder")
    try:
        _files.make_folder(path)
    except OSError as error:
        raise FileError(f"{path}: the folder of the model cannot be created: {error}") from error
    return path, normalize
