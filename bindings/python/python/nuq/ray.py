"""Score the rows of a Ray dataset, or fit a model to them. ``pip install "nuq[ray]"`` installs Ray Data."""

from __future__ import annotations

import hashlib
import os
import platform
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from . import _arrays, _batches, _files, _ray_shards, _remote, _scatter
from ._base import Estimator
from ._package import require
from ._ray_fit import fit
from .errors import MissingFileError, OutOfRangeError, ParameterTypeError, RowsNotStoredError

__all__ = ["fit", "score"]


def score(
    dataset: Any,
    model: Any,
    *,
    column: str | Sequence[str],
    id_column: str | None = None,
    keep_columns: Sequence[str] | None = None,
    threshold: str | Sequence[str] | None = None,
    on_bad_rows: str = "error",
    num_cpus: float = 1,
    concurrency: int | tuple[int, int] | None = None,
    batch_size: int = 8192,
    **options: Any,
) -> Any:
    """Score each row of a ``ray.data.Dataset``. Returns a dataset with the columns that ``keep_columns`` selects and the
    columns of ``nuq score``.

    Parameters
    ----------
    dataset : rows to score.
    model : path of a model file that every node can read, the address of a model file in an object store (``s3://…``), the content of a model
        file as bytes, or a fitted estimator. Content and estimators are sent through Ray's object store. If the file is not local, each node
        writes it once to its temporary folder. All actors of a node map the same file and share its memory. For a sharded model (its folder
        or its prefix in an object store), additional actors search the shards, and the neighbors that they find for a row are merged.
    column : column of lists (or tensors) of numbers, or a list of columns of numbers, one per coordinate.
    id_column : column whose value identifies a row in error messages. It is the first column of the result.
    keep_columns : columns that are copied to the result; by default all columns that are not coordinates.
    threshold : name of a stored threshold, or several names; the column ``accept`` is True where all of these thresholds accept.
    on_bad_rows : what happens if a row is null, has another length than the training rows, or contains a NaN, an infinity, a null or a number
        outside the range of float32: "error" raises an error, "skip" leaves the results of the row null.
    num_cpus : number of processors of each actor that scores. Actors use as many threads; this includes the actors that search shards.
    concurrency : number of actors, or the smallest and the largest number; by default from one to as many as the processors of the cluster
        permit.
    batch_size : number of rows that an actor scores at a time.
    options : other options of ``Dataset.map_batches``, such as ``memory`` or ``num_gpus``.
    """
    ray = require("ray", "ray")
    data = require("ray.data", "ray")
    if not isinstance(dataset, data.Dataset):
        raise ParameterTypeError(f"dataset is of the type {type(dataset).__name__}: expected a ray.data.Dataset")
    settings = _batches.Options.checked(column, id_column, keep_columns, threshold, on_bad_rows)
    cpus = _arrays.real(num_cpus, "num_cpus")
    if not cpus > 0:
        raise OutOfRangeError(f"num_cpus={num_cpus!r}: expected a positive number")
    least, most = (1, max(1, int(_processors(ray) / cpus))) if concurrency is None else _pool_size(concurrency)
    batch_size = _arrays.integer(batch_size, "batch_size", least=1)
    source, neighbors = _source(ray, model, settings, cpus)
    return dataset.map_batches(
        NuqScorer,
        fn_constructor_args=(source, settings, neighbors),
        batch_format="pyarrow",
        batch_size=batch_size,
        num_cpus=cpus,
        compute=data.ActorPoolStrategy(min_size=least, max_size=most),
        **options,
    )


class NuqScorer:
    """An actor that opens the model once and scores batches."""

    def __init__(self, source: tuple[str, Any], options: _batches.Options, neighbors: _ray_shards.Neighbors | None) -> None:
        self._source, self._options, self._neighbors = source, options, neighbors
        self._scorer: _batches.Scorer | None = None

    def __call__(self, table: Any) -> Any:
        # The model is opened here and not in the constructor: Ray would restart an actor without end if its constructor fails.
        if self._scorer is None:
            model = _batches.opened(_local_file(*self._source), with_rows=self._neighbors is None)
            self._scorer = _batches.Scorer(model, self._options, _threads(), self._neighbors)
        return self._scorer.score(table)


def _threads() -> int:
    """The number of processors that Ray has assigned to this actor."""
    assigned = require("ray", "ray").get_runtime_context().get_assigned_resources()
    return max(1, int(assigned.get("CPU", 1)))


def _pool_size(concurrency: Any) -> tuple[int, int]:
    """Check the parameter ``concurrency``. Returns the smallest and the largest number of actors."""
    sizes = concurrency if isinstance(concurrency, (tuple, list)) else (concurrency, concurrency)
    expected = (
        f"concurrency={concurrency!r}: expected an integer of at least 1, or two such integers, the smallest and the largest number of actors"
    )
    if len(sizes) != 2 or any(not isinstance(size, (int, np.integer)) or isinstance(size, bool) for size in sizes):
        raise ParameterTypeError(expected)
    least, most = int(sizes[0]), int(sizes[1])
    if not 1 <= least <= most:
        raise OutOfRangeError(expected)
    return least, most


def _source(
    ray: Any, model: Any, options: _batches.Options, cpus: float
) -> tuple[tuple[str, Any], _ray_shards.Neighbors | None]:
    """Where actors get the model, and how they search its shards.

    The first part is a path and None, or the hash of a file and the reference to its content in Ray's object store. The second part is the
    search of the shards for a sharded model, whose file contains no rows; None for other models."""
    if isinstance(model, Estimator):
        model._check_fitted()
        if options.thresholds:
            model._thresholds(options.thresholds)
        if not model._learned("has_rows"):
            raise RowsNotStoredError("the model was saved without its training rows, so workers cannot search them")
        model = _files.to_bytes(model._model, n_jobs=model._threads())
    if isinstance(model, (bytes, bytearray, memoryview)):
        return _put(ray, model), None
    path: Any = model if _remote.is_uri(model) else _arrays.path(model, "model").absolute()
    sharded = _scatter.opened(path)
    if sharded is not None:
        source = _put(ray, sharded.content)
        _batches.Scorer(_batches.opened(_local_file(*source), with_rows=False), options)
        most = max(1, int(_processors(ray) / cpus))
        actors = _ray_shards.start(sharded, most, max(1, int(cpus)))
        return source, _ray_shards.Neighbors(actors, sharded.request.k, _scatter.FAN_IN)
    if _remote.is_uri(path) or path.exists():
        # The file is opened here too, so that its errors are raised in the driver and not in a worker.
        _batches.Scorer(_batches.opened(path), options)
    return (str(path), None), None


def _put(ray: Any, content: Any) -> tuple[str, Any]:
    """The hash of a file and the reference to its content in Ray's object store. The content is stored as an array, because Ray reads arrays
    without a copy."""
    return hashlib.sha256(content).hexdigest(), ray.put(np.frombuffer(content, np.uint8))


def _processors(ray: Any) -> float:
    """The number of processors of the cluster."""
    resources = ray.cluster_resources() if ray.is_initialized() else {}
    return float(resources.get("CPU", os.cpu_count() or 1))


def _local_file(name: str, content: Any) -> Path:
    """The path of the model file on this node."""
    if content is None:
        path = _remote.local(name)
        if not path.exists():
            raise MissingFileError(
                f"{name} does not exist on the node {platform.node()}: put it on a file system that all nodes share, or pass the "
                "content of the file: model=Path(...).read_bytes()"
            )
        return path
    folder = _remote.cache_folder()
    path = folder / f"{name}.nuq"
    values = require("ray", "ray").get(content)
    if not path.exists() or path.stat().st_size != len(values):
        # Other actors on this node may write the same file. They write the same content, so the last file may replace the others.
        _remote.remove_stale_copies(folder)
        copy = folder / f"{uuid.uuid4().hex}.tmp"
        try:
            copy.write_bytes(memoryview(values))
            os.replace(copy, path)
        finally:
            copy.unlink(missing_ok=True)
    return path
