"""Results with one value per row: named numpy arrays."""

from __future__ import annotations

from collections.abc import ItemsView, Iterator, KeysView, ValuesView
from typing import Any, overload

import numpy as np

from . import _html, _tables
from .errors import InvalidInputError, InvalidParameterError, UnknownNameError


class Uncertainty(_tables.Tabular):
    """Named columns with one value per row.

    A column is an attribute and an entry: ``u.total`` and ``u["total"]`` are the same array. ``u[:10]``, ``u[mask]`` and
    ``u[indices]`` select rows. ``u[0]`` is a dictionary with the values of one row.

    As in a pandas data frame, ``len(u)`` is the number of rows, and ``for name in u`` iterates over the names of the columns.
    ``keys``, ``values`` and ``items`` work as in a dictionary of columns. ``to_pandas``, ``to_polars`` and ``to_arrow`` return tables.
    Notebooks show the first rows and a histogram.

    >>> u = Uncertainty({"label": np.array(["cat", "dog", "cat"]), "total": np.array([0.1, 0.9, 0.2])})
    >>> u[u.total < 0.5]
    Uncertainty of 2 rows: label, total
    >>> len(u), list(u)
    (3, ['label', 'total'])
    >>> [name for name, column in u.items() if column.dtype.kind == "f"]
    ['total']
    """

    def __init__(self, columns: dict[str, np.ndarray], index: Any = None, predictor: str = "nuq") -> None:
        self._columns = columns
        self._index = index
        # Whose labels and uncertainties these are: "nuq" or "network".
        self._predictor = predictor
        # Identifies the training rows of the model (``State.revision``); None for a model that was loaded and not changed, or if it is not known.
        self._revision: str | None = None
        # The temperature of the logits; None for predictions of the model, or if it is not known.
        self._temperature: float | None = None

    def __getattr__(self, name: str) -> np.ndarray:
        columns: dict[str, np.ndarray] = self.__dict__.get("_columns", {})
        if name in columns:
            return columns[name]
        raise AttributeError(f"{type(self).__name__} has no column {name!r}. Its columns are {', '.join(columns)}.")

    @overload
    def __getitem__(self, key: str) -> np.ndarray: ...
    @overload
    def __getitem__(self, key: int) -> dict[str, Any]: ...
    @overload
    def __getitem__(self, key: slice | np.ndarray | list[int] | list[bool]) -> Uncertainty: ...

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, str):
            if key in self._columns:
                return self._columns[key]
            raise UnknownNameError(f"there is no column {key!r}: the columns are {', '.join(self._columns)}")
        rows = _selection(key)
        try:
            columns = {name: column[rows] for name, column in self._columns.items()}
        except (IndexError, TypeError) as error:
            raise InvalidInputError(f"rows {key!r} cannot be selected from {len(self)} rows: {error}") from None
        if isinstance(rows, int):
            return columns
        selected = Uncertainty(columns, None if self._index is None else self._index[rows], self._predictor)
        selected._revision, selected._temperature = self._revision, self._temperature
        return selected

    def keys(self) -> KeysView[str]:
        """Names of the columns."""
        return self._columns.keys()

    def values(self) -> ValuesView[np.ndarray]:
        """The columns."""
        return self._columns.values()

    def items(self) -> ItemsView[str, np.ndarray]:
        """Names and columns."""
        return self._columns.items()

    def __iter__(self) -> Iterator[str]:
        return iter(self._columns)

    def __len__(self) -> int:
        return len(next(iter(self._columns.values())))

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self._columns]

    def __reduce__(self) -> tuple[Any, ...]:
        return (Uncertainty, (self._columns, self._index, self._predictor), {"_revision": self._revision, "_temperature": self._temperature})

    def __repr__(self) -> str:
        return f"Uncertainty of {len(self)} rows: {', '.join(self._columns)}"

    def to_torch(self, device: Any = None) -> dict[str, Any]:
        """Return the numeric columns as PyTorch tensors on a device, by default on the CPU. Text columns, such as labels that are
        strings, are left out. Requires PyTorch."""
        return {name: tensor(column, device) for name, column in self._columns.items() if column.dtype.kind in "biuf"}

    def _table(self) -> dict[str, np.ndarray]:
        return self._columns

    def to_pandas(self) -> Any:
        """Return a data frame with the same columns. If the rows were given as a data frame, the result has the same index. Requires
        pandas."""
        return _tables.table(self._columns, "pandas", self._index)

    def _repr_html_(self) -> str:
        """The first rows and a histogram, for notebooks."""
        return _html.document(_html.uncertainty(self._columns, self._index))


def tensor(values: np.ndarray, device: Any) -> Any:
    """A PyTorch tensor with a copy of the values on a device. PyTorch is imported at the first use."""
    import torch

    try:
        device = None if device is None else torch.device(device)
    except (RuntimeError, TypeError) as error:
        raise InvalidParameterError(f"device={device!r}: {error}") from None
    return torch.tensor(values, device=device)


def _selection(key: Any) -> Any:
    """Convert the key of a selection to row numbers, a mask or a slice; or to an int if it selects a single row."""
    if isinstance(key, slice):
        return key
    if isinstance(key, (int, np.integer)) and not isinstance(key, bool):
        return int(key)
    try:
        rows = np.asarray(key)
    except ValueError:
        rows = np.asarray(None)
    if rows.ndim == 1 and rows.size == 0:
        return rows.astype(np.intp)
    if rows.ndim == 1 and rows.dtype.kind in "iub":
        return rows
    raise InvalidInputError(
        f"{key!r} selects neither a column nor rows: expected the name of a column, a slice, a boolean mask or row numbers"
    )
