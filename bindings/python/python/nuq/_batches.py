"""Scoring of Arrow tables batch by batch, for engines that distribute the rows of a table (Ray and Spark).

The result of a row does not depend on its batch: it equals the result of ``predict_uncertainty``, bit for bit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from . import _arrays
from ._base import Estimator, _all_accept, compare_names
from ._package import require
from .errors import (
    DimensionMismatchError,
    EmptyError,
    InvalidParameterError,
    NotFiniteError,
    NotNumbersError,
    NuqError,
    ParameterTypeError,
    RowsNotStoredError,
    UnknownNameError,
)

#: Largest number of rows that an error lists, as in the command line.
LISTED = 10


@dataclass(frozen=True)
class Options:
    """Which columns are read and written. All values are plain Python objects, because engines send them to workers."""

    #: The name of a column of lists of numbers, or the names of several columns of numbers, one per coordinate.
    column: str | tuple[str, ...]
    #: The column whose values identify rows in error messages.
    id_column: str | None
    #: The columns that are copied to the output; None for all columns that are not coordinates.
    keep_columns: tuple[str, ...] | None
    #: Names of stored thresholds.
    thresholds: tuple[str, ...]
    #: What happens if a row cannot be scored, for example because it contains a NaN: "error", or "skip" (its results are null).
    on_bad_rows: str

    @classmethod
    def checked(cls, column: Any, id_column: Any, keep_columns: Any, threshold: Any, on_bad_rows: Any) -> Options:
        """Check the arguments of a call."""
        return cls(
            _arrays.text(column, "column") if isinstance(column, str) else _names(column, "column"),
            None if id_column is None else _arrays.text(id_column, "id_column"),
            None if keep_columns is None else _names(keep_columns, "keep_columns", least=0),
            () if threshold is None else _names([threshold] if isinstance(threshold, str) else threshold, "threshold"),
            _arrays.choice(on_bad_rows, "on_bad_rows", ("error", "skip")),
        )

    @property
    def coordinates(self) -> tuple[str, ...]:
        """Names of the columns that contain the embeddings."""
        return (self.column,) if isinstance(self.column, str) else self.column

    def kept(self, names: Sequence[str]) -> list[str]:
        """The columns that are copied from a table with the columns ``names``. The id column is the first one."""
        kept = [name for name in names if name not in self.coordinates] if self.keep_columns is None else list(self.keep_columns)
        if self.id_column is not None:
            kept = [self.id_column, *(name for name in kept if name != self.id_column)]
        for name in (*self.coordinates, *kept):
            if name not in names:
                raise UnknownNameError(f"there is no column {name!r}: the columns are {', '.join(map(repr, names))}")
        return kept


class Scorer:
    """A model that scores Arrow tables.

    A model without its training rows needs the function ``neighbors``. This function receives rows and a number of threads, and returns ids
    and squared distances of the neighbors of each row.
    """

    def __init__(
        self, model: Estimator, options: Options, n_jobs: int | None = None, neighbors: Callable[[np.ndarray, int | None], Any] | None = None
    ) -> None:
        self._model, self._options, self._neighbors = model, options, neighbors
        model.n_jobs = n_jobs
        self._thresholds = model._thresholds(options.thresholds) if options.thresholds else []
        if not isinstance(options.column, str):
            compare_names(model._model, type(model).__name__, list(options.column))
            _arrays.check_columns(type(model).__name__, len(options.column), model.n_features_in_)

    def fields(self, names: Sequence[str]) -> list[tuple[str, str]]:
        """Names and types ("string", "int64", "bool" or "double") of the result columns. ``names`` are the columns of the scored table. It
        is an error if a column that is copied to the output has the name of a result column."""
        fields = self._fields()
        taken = {name for name, _ in fields}
        for name in self._options.kept(names):
            if name in taken:
                raise InvalidParameterError(
                    f"the column {name!r} cannot be kept: this name is used or reserved for columns of the results; rename it, or list the "
                    "columns to keep in keep_columns"
                )
        return fields

    def _fields(self) -> list[tuple[str, str]]:
        numbers = ["aleatoric", "epistemic", "total", "log_epistemic", "log_total", "log_density"]
        if self._model._kind == "classifier":
            kind: str = self._model.classes_.dtype.kind  # type: ignore[attr-defined]
            label = "bool" if kind == "b" else "int64" if kind in "iu" else "string"
            fields = [("label", label), *((name, "double") for name in ["probability", *numbers])]
        else:
            numbers.insert(3, "log_aleatoric")
            fields = [(name, "double") for name in ["mean", *numbers]]
        if self._thresholds:
            fields.append(("accept", "bool"))
        return fields

    def score(self, table: Any) -> Any:
        """The columns of an Arrow table that are copied to the output, and the results. The results of a skipped row are null."""
        self.fields(table.column_names)
        rows, positions = self.rows(table)
        kept = {name: table[name] for name in self._options.kept(table.column_names)}
        return self.results(kept, len(table), rows, positions, self._neighbors)

    def results(self, kept: dict[str, Any], n: int, rows: np.ndarray, positions: np.ndarray, neighbors: Any) -> Any:
        """The copied columns (``kept``) and the results of ``n`` rows. ``rows`` are the rows that can be scored, and ``positions`` their
        positions among the ``n`` rows."""
        pa = require("pyarrow", "ray")
        results: dict[str, np.ndarray] = {}
        if len(rows):
            uncertainty = self._model._uncertainty(self._prediction(rows, neighbors))
            results = dict(uncertainty.items())
            if self._thresholds:
                results["accept"] = _all_accept(self._thresholds, uncertainty)
        columns = {name: _column(pa, results.get(name), kind, positions, n) for name, kind in self._fields()}
        return pa.table({**kept, **columns})

    def _prediction(self, rows: np.ndarray, neighbors: Any) -> dict[str, np.ndarray]:
        model = self._model
        if neighbors is None:
            return model._predict_rows(rows)
        ids, squared = neighbors(rows, model.n_jobs)
        return model._decoded(model._model.predict(rows, (ids.astype(np.int64), squared), model._threads()))

    def rows(self, table: Any) -> tuple[np.ndarray, np.ndarray]:
        """The rows that can be scored, and their positions in the table."""
        options, dim = self._options, self._model.n_features_in_
        if isinstance(options.column, str):
            rows, problems = _list_rows(table[options.column], options.column, dim)
        else:
            rows, problems = _number_rows(table, options.column)
        if problems:
            if options.on_bad_rows == "error":
                raise _bad_rows(problems, table, options)
            positions = np.setdiff1d(np.arange(len(table)), list(problems))
        else:
            positions = np.arange(len(table))
        return rows, positions


#: For the position of each row that cannot be scored: the class of the error and the reason.
_Problems = dict[int, tuple[type[NuqError], str]]


def _list_rows(column: Any, name: str, dim: int | None) -> tuple[np.ndarray, _Problems]:
    """Rows of a column of lists, without the rows that cannot be scored. ``dim`` is the expected length of a row; None for the length of the
    first row that is neither null nor empty."""
    pa, compute = require("pyarrow", "ray"), require("pyarrow.compute", "ray")
    column = column.combine_chunks() if hasattr(column, "combine_chunks") else column
    if hasattr(column, "chunks"):
        column = column.chunk(0) if column.num_chunks else pa.array([], type=column.type)
    if isinstance(column, pa.ExtensionArray):
        column = column.storage
    is_list = pa.types.is_list(column.type) or pa.types.is_large_list(column.type) or pa.types.is_fixed_size_list(column.type)
    if not is_list or not (pa.types.is_floating(column.type.value_type) or pa.types.is_integer(column.type.value_type)):
        raise NotNumbersError(
            f"the column {name!r} has the type {column.type}: expected lists of numbers; convert it, or list columns of numbers in column"
        )
    nulls = column.is_null().to_numpy(zero_copy_only=False)
    lengths = np.asarray(compute.fill_null(compute.list_value_length(column), 0))
    if dim is None:
        filled = np.flatnonzero(lengths)
        if not len(filled):
            raise EmptyError(f"the column {name!r} has no values: it has no lists, or its lists are null or empty")
        dim = int(lengths[filled[0]])
    problems: _Problems = {int(i): (NotFiniteError, "is null") for i in np.flatnonzero(nulls)}
    for i in np.flatnonzero(~nulls & (lengths != dim)):
        problems[int(i)] = (DimensionMismatchError, f"has {lengths[i]} values: expected {dim}")
    complete = ~nulls & (lengths == dim)
    if problems:
        column = column.filter(pa.array(complete))
    return _finite(_floats(column.flatten()).reshape(-1, dim), np.flatnonzero(complete), problems)


def _number_rows(table: Any, names: Sequence[str]) -> tuple[np.ndarray, _Problems]:
    """Rows of several columns of numbers, without the rows that cannot be scored."""
    types = require("pyarrow", "ray").types
    for name in names:
        kind = table[name].type
        if not (types.is_floating(kind) or types.is_integer(kind)):
            raise NotNumbersError(f"the column {name!r} has the type {kind}: expected numbers")
    rows = np.empty((len(table), len(names)), np.float32)
    for i, name in enumerate(names):
        rows[:, i] = _floats(table[name])
    return _finite(rows, np.arange(len(table)), {})


def _floats(values: Any) -> np.ndarray:
    """Convert an Arrow column of numbers to float32. A null becomes NaN."""
    array = values.to_numpy(zero_copy_only=False) if not hasattr(values, "chunks") else values.to_numpy()
    if array.dtype.kind != "f":
        # Integers are converted to float64 first, as everywhere in the package, so that they are rounded in the same way.
        array = array.astype(np.float64)
    with np.errstate(over="ignore"):
        return np.asarray(array, dtype=np.float32)


def _finite(rows: np.ndarray, positions: np.ndarray, problems: _Problems) -> tuple[np.ndarray, _Problems]:
    finite = np.isfinite(rows).all(axis=1)
    if not finite.all():
        for i in positions[~finite]:
            problems[int(i)] = (NotFiniteError, "contains a NaN, an infinity, a null or a number outside the range of float32")
        rows = rows[finite]
    return np.ascontiguousarray(rows), problems


def _bad_rows(problems: _Problems, table: Any, options: Options) -> NuqError:
    """The error whose message lists the first rows that cannot be scored."""
    first = sorted(problems)[:LISTED]

    def key(i: int) -> str:
        return f"row {i} of its batch" if options.id_column is None else f"{options.id_column}={table[options.id_column][i].as_py()!r}"

    listed = "; ".join(f"{key(i)} {problems[i][1]}" for i in first) + ("; and more" if len(problems) > LISTED else "")
    columns = f"column {options.column!r}" if isinstance(options.column, str) else f"columns {', '.join(options.column)}"
    named = "" if options.id_column is not None else " (pass id_column= to identify rows by the values of a column)"
    return problems[first[0]][0](f'{columns}: {listed}{named}. Correct these rows, or pass on_bad_rows="skip" to leave their results null')


def _column(pa: Any, values: np.ndarray | None, kind: str, positions: np.ndarray, n: int) -> Any:
    """An Arrow array of ``n`` rows with the values at the given positions, and nulls elsewhere."""
    arrow_type = {"double": pa.float64(), "int64": pa.int64(), "bool": pa.bool_(), "string": pa.string()}[kind]
    if values is None:
        return pa.nulls(n, arrow_type)
    if kind == "string":
        values = values.astype(str).astype(object)
    if len(positions) == n:
        return pa.array(values, type=arrow_type)
    spread = np.zeros(n, values.dtype)
    spread[positions] = values
    absent = np.ones(n, bool)
    absent[positions] = False
    return pa.array(spread, type=arrow_type, mask=absent)


def opened(path: Any, *, with_rows: bool = True) -> Estimator:
    """Open a model file. If ``with_rows``, a file without training rows is an error."""
    from . import load

    model = load(path)
    if not isinstance(model, Estimator):
        raise InvalidParameterError(f"{path}: the file contains a baseline; expected a model of NuqClassifier or NuqRegressor")
    if with_rows and not model._learned("has_rows"):
        raise RowsNotStoredError(
            f"{path}: the model was saved without its training rows, so workers cannot search them: use the model with rows, or predict_from "
            "with neighbors from the database"
        )
    return model


def _names(values: Any, name: str, least: int = 1) -> tuple[str, ...]:
    if isinstance(values, str) or not isinstance(values, Sequence) or not all(isinstance(value, str) for value in values):
        raise ParameterTypeError(f"{name}={values!r}: expected a list of strings")
    if len(values) < least or len(set(values)) < len(values):
        raise InvalidParameterError(f"{name}={values!r}: expected {'different names' if least == 0 else 'at least one name, and different names'}")
    return tuple(values)
