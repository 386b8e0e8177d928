"""Results with one value per row: named numpy arrays."""

from __future__ import annotations

from collections.abc import Iterator, KeysView
from typing import Any

import numpy as np


class Uncertainty:
    """Named columns with one value per row, available as attributes and as a mapping. ``to_pandas`` returns a data frame."""

    def __init__(self, columns: dict[str, np.ndarray]) -> None:
        self._columns = columns

    def __getattr__(self, name: str) -> np.ndarray:
        columns: dict[str, np.ndarray] = self.__dict__.get("_columns", {})
        if name in columns:
            return columns[name]
        raise AttributeError(f"{type(self).__name__} has no column {name!r}. Its columns are {', '.join(columns)}.")

    def __getitem__(self, name: str) -> np.ndarray:
        return self._columns[name]

    def keys(self) -> KeysView[str]:
        """Names of the columns."""
        return self._columns.keys()

    def __iter__(self) -> Iterator[str]:
        return iter(self._columns)

    def __len__(self) -> int:
        return len(next(iter(self._columns.values())))

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self._columns]

    def __reduce__(self) -> tuple[Any, ...]:
        return (Uncertainty, (self._columns,))

    def __repr__(self) -> str:
        return f"Uncertainty of {len(self)} rows: {', '.join(self._columns)}"

    def to_pandas(self) -> Any:
        """Return a data frame with the same columns. Requires pandas."""
        import pandas

        return pandas.DataFrame(self._columns)
