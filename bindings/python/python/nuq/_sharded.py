"""Fits to rows in shards: the steps that are the same for all cluster engines.

1. Each worker writes its rows as one shard into a folder that all workers and the driver share (``write``).
2. The driver fits the model and writes its manifest (``fit``). Wherever the fit searches neighbors, a worker searches each shard
   (``search``), and the driver merges the results in the order in which they arrive.

The model equals the model that ``estimator.fit`` with index="exact" gives for all rows in the order of the shards, bit for bit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np

from . import _arrays, _nuq
from ._base import Estimator, State, new_revision
from ._regressor import _targets
from .errors import EmptyError, InvalidInputError, LengthMismatchError

_Estimator = TypeVar("_Estimator", bound=Estimator)

#: Result of a search: ids and squared distances of the nearest rows of each query. The ids are counted from 0 in each shard.
Table = tuple[np.ndarray, np.ndarray]


class Part(NamedTuple):
    """A shard that a worker has written."""

    #: The position of the shard among all shards.
    number: int
    #: The name of the file and the number of its rows.
    file: tuple[str, int]
    #: Labels or targets of the rows.
    truth: np.ndarray
    #: Sample weights of the rows.
    weights: np.ndarray | None


def write(
    folder: Path, number: int, rows: Any, truth: np.ndarray, weights: np.ndarray | None, normalize: bool, threads: int | None
) -> Part:
    """Write the rows of one worker. A repeated call with the same rows writes the same file."""
    x = _arrays.rows(rows)
    for name, values in (("labels or targets", truth), ("sample weights", weights)):
        if values is not None and len(values) != len(x):
            raise LengthMismatchError(f"{len(values)} {name} for {len(x)} rows of shard {number}: give one per row")
    return Part(number, _nuq.write_shard(folder, number, x, normalize, threads), truth, weights)


def search(folder: Path, file: tuple[str, int], queries: np.ndarray, k: int, scale: Any, threads: int | None) -> Table:
    """The nearest rows of one shard."""
    shard = _nuq.Shards(folder, [file], [0], None if scale is None else list(scale))
    # The queries of a fit are rows of the shards, which are already normalized if the model normalizes rows.
    table: Table = shard.search(queries, k, False, threads)
    return table


def fit(
    estimator: _Estimator,
    folder: Path,
    parts: Iterable[Part],
    search_all: Callable[[Sequence[tuple[str, int]], np.ndarray, int, Any], Iterable[tuple[int, Table]]] | None = None,
    column_names: Sequence[str] | None = None,
) -> _Estimator:
    """Fit the estimator to the shards in the order of their numbers.

    ``search_all`` searches all files. For each file it returns the position of the file and the result of ``search``, in any order. By
    default this process searches the files.
    """
    ordered = sorted((part for part in parts if part.file[1]), key=lambda part: part.number)
    if not ordered:
        raise EmptyError("there are no rows: at least one embedding is needed")
    if len({part.number for part in ordered}) < len(ordered):
        raise InvalidInputError("two shards have the same number: give each shard its own")
    files = [part.file for part in ordered]
    truth = _joined([part.truth for part in ordered])
    given = [part.weights for part in ordered if part.weights is not None]
    weights = _arrays.weights(np.concatenate(given), len(truth)) if given else None
    _arrays.warn_small_weights(weights)
    shards_search = None if search_all is None else lambda queries, k, scale: search_all(files, queries, k, scale)
    params, threads, owner = estimator._extension_params(), estimator._threads(), type(estimator).__name__
    label_type = None
    if estimator._kind == "classifier":
        label_type, numbers, labels = _arrays.labels(truth, owner)
        _nuq.Classifier.fit_shards(
            params, folder, files, labels, numbers, weights, column_names, shards_search, threads, None
        )
    else:
        targets = _targets(truth, owner)
        _nuq.Regressor.fit_shards(params, folder, files, targets, weights, column_names, shards_search, threads, None)
    estimator._state = State(_nuq.load(folder, estimator.device, threads), label_type, revision=new_revision())
    return estimator


def _joined(arrays: Sequence[np.ndarray]) -> np.ndarray:
    """Concatenate arrays. Arrays of different kinds become objects, because numpy would convert numbers and strings to strings."""
    kinds = {array.dtype.kind for array in arrays}
    return np.concatenate([array.astype(object) for array in arrays] if len(kinds) > 1 else arrays)
