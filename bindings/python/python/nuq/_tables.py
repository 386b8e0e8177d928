"""Results as tables of pandas, polars and Arrow. Each of these packages is imported only when it is used."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

import numpy as np

from . import _html
from ._package import require

#: Values of ``output`` for tables.
TABLES = ("pandas", "polars", "arrow")

_Rule = TypeVar("_Rule")


class Tabular:
    """A result with named columns."""

    def _table(self) -> Mapping[str, Any]:
        raise NotImplementedError

    def to_pandas(self) -> Any:
        """Return a data frame of pandas."""
        return table(self._table(), "pandas")

    def to_polars(self) -> Any:
        """Return a data frame of polars."""
        return table(self._table(), "polars")

    def to_arrow(self) -> Any:
        """Return a table of Arrow. Requires pyarrow."""
        return table(self._table(), "arrow")


def table(columns: Mapping[str, Any], kind: str, index: Any = None) -> Any:
    """A table of the package ``kind`` ("pandas", "polars" or "arrow") with these columns. ``index`` is used only for pandas."""
    if kind == "pandas":
        return require("pandas", "pandas").DataFrame(dict(columns), index=index)
    if kind == "polars":
        return require("polars", "polars").DataFrame(dict(columns))
    pyarrow = require("pyarrow", "arrow")
    return pyarrow.table({name: pyarrow.array(column) for name, column in columns.items()})


def neighbor_columns(rows: np.ndarray, ids: np.ndarray, distances: np.ndarray | None) -> dict[str, np.ndarray]:
    """The columns of a table with one line per pair of a row and a neighbor. ``rank`` is 1 for the nearest neighbor."""
    n, k = ids.shape
    columns = {"row": np.repeat(rows, k), "rank": np.tile(np.arange(1, k + 1), n), "id": ids.ravel()}
    return columns if distances is None else {**columns, "distance": distances.ravel()}


class Rules(dict[str, _Rule], Tabular):
    """Stored thresholds, prediction sets or intervals by name. ``to_pandas``, ``to_polars`` and ``to_arrow`` return them as a table with
    one row per name."""

    #: The attributes that become columns, if the rules have them.
    _ATTRIBUTES = ("measure", "score", "value", "coverage", "factor", "predictor", "n_samples", "statement")

    def _table(self) -> dict[str, list[Any]]:
        rules = list(self.values())
        names = [name for name in self._ATTRIBUTES if rules and hasattr(rules[0], name)]
        return {"name": list(self), **{name: [getattr(rule, name) for rule in rules] for name in names}}

    def _repr_html_(self) -> str:
        return _html.document(_html.table(self._table()))
