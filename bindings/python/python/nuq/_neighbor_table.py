"""Neighbors that a vector database or another program has computed."""

from __future__ import annotations

from typing import Any

import numpy as np

from . import _arrays
from .errors import FewNeighborsError, InvalidInputError, InvalidParameterError, LengthMismatchError, UnknownIdError

#: Names of the kinds of distances that other programs return.
METRICS = ("l2", "l2sq", "cosine")

#: Cosine distances between minus this number and zero are set to zero. Such distances are the result of rounding: float32 similarities can
#: exceed 1 by a few units in the last place.
ROUNDING = 1e-5


def id_matrix(ids: Any, n: int) -> np.ndarray:
    """Convert ids to a matrix, and check that it consists of integers and has ``n`` rows."""
    matrix = _arrays.to_numpy(ids)
    if matrix.dtype.kind not in "iu":
        raise InvalidInputError(f"ids is of the type {matrix.dtype}: expected integers, the ids of training rows")
    if matrix.ndim != 2 or len(matrix) != n:
        raise LengthMismatchError(f"ids has shape {matrix.shape}: expected a matrix with {n} rows, one per row of X")
    return matrix


def checked_ids(ids: Any, n: int, k: int) -> np.ndarray:
    """Convert ids to a matrix, and check that it has ``n`` rows and at least ``k`` columns."""
    if isinstance(ids, (list, tuple)):
        for row, neighbors in enumerate(ids):
            check_count(row, len(neighbors) if hasattr(neighbors, "__len__") else k, k)
    ids = id_matrix(ids, n)
    check_count(0, ids.shape[1], k)
    absent = np.flatnonzero((ids < 0).any(axis=1))
    if len(absent):
        row = int(absent[0])
        raise FewNeighborsError(
            f"row {row} of ids contains {ids[row].min()}, which is not an id: an index returns -1 if it has found fewer neighbors than "
            f"requested; the model uses {k} per row"
        )
    if ids.size and ids.max() >= 2**32:
        raise UnknownIdError(f"ids contains {ids.max()}, which is not the id of a training row")
    return _arrays.numbers(ids, np.int64)


def check_count(row: int, got: int, k: int) -> None:
    """Check that a row has as many neighbors as the model uses."""
    if got < k:
        raise FewNeighborsError(
            f"row {row} has {got} neighbors, and the model uses {k} per row: request more, for example with a larger ef_search or nprobe"
        )


def squared(distances: Any, metric: str | None, shape: tuple[int, ...], is_normalized: bool) -> np.ndarray:
    """Convert the distances of a metric to squared Euclidean distances."""
    if metric is None:
        raise InvalidParameterError(
            f"metric= is required: one of {', '.join(map(repr, METRICS))}. pgvector and Qdrant return \"l2\"; FAISS, LanceDB and "
            "Milvus return \"l2sq\", the squared distance"
        )
    _arrays.choice(metric, "metric", METRICS)
    if metric == "cosine" and not is_normalized:
        raise InvalidParameterError(
            'metric="cosine": the model searches Euclidean distances of rows that are not normalized; fit it with normalize=True, '
            "or pass rerank=True"
        )
    array = _arrays.to_numpy(distances)
    if array.shape != shape:
        raise LengthMismatchError(f"distances has shape {array.shape} and ids has shape {shape}: expected the same shape")
    if array.dtype.kind == "c":
        raise InvalidInputError("distances must be real numbers")
    values = _arrays.numbers(array, np.float64)
    if metric == "cosine":
        # For rows of norm one, |a - b|^2 = 2 (1 - a.b).
        values = 2.0 * np.where((values < 0) & (values > -ROUNDING), 0.0, values)
    elif metric == "l2":
        # Negative distances stay negative, so that the extension rejects them.
        values = values * np.abs(values)
    return values


def nearest(ids: np.ndarray, squared: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    """The ``k`` nearest neighbors of each row among those that are given. If exactly ``k`` are given, their order does not change. Otherwise they
    are ordered by distance, and equal distances by id."""
    if ids.shape[1] == k:
        return ids, squared
    order = np.lexsort((ids, squared), axis=1)[:, :k]
    return (
        np.ascontiguousarray(np.take_along_axis(ids, order, axis=1)),
        np.ascontiguousarray(np.take_along_axis(squared, order, axis=1)),
    )
