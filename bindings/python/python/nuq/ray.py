"""Scoring of the rows of a Ray dataset, and fits to them. ``pip install "nuq[ray]"`` installs Ray Data."""

from __future__ import annotations

import hashlib
import os
import platform
import tempfile
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
    """Score each row of a ``ray.data.Dataset``. Returns a dataset with the kept columns and the columns of ``nuq score``.

    Parameters
    ----------
    dataset : rows to score.
    model : path of a model file that every node can read, its address in an object store (``s3://…``), the content of such a file as bytes, or
        a fitted estimator. Content and estimators are sent through Ray's object store. Each node writes a file that is not local once to its
        temporary folder. All actors of a node map the same file, so that its memory is counted once. For the folder or the prefix of a
        sharded model, further actors hold the shards, each some of them, and the neighbors of a row are merged from all of them.
    column : column of lists (or tensors) of numbers, or a list of columns of numbers, one per coordinate.
    id_column : column whose value names a row in errors. It is the first column of the result.
    keep_columns : columns that are copied to the result; by default all that are not coordinates.
    threshold : name of a stored threshold, or several; the column ``accept`` is True where all of them accept.
    on_bad_rows : "error", or "skip": the results of rows that are null, have another length, or contain a NaN or an infinity are null.
    num_cpus : number of processors of each actor, which is its number of threads; also that of the actors that hold shards.
    concurrency : number of actors, or the least and the largest number; by default from one to as many as the processors of the cluster
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
    if concurrency is None:
        concurrency = (1, max(1, int(_processors(ray) / cpus)))
    least, most = (concurrency, concurrency) if isinstance(concurrency, int) else concurrency
    source, neighbors = _source(ray, model, settings, cpus)
    return dataset.map_batches(
        NuqScorer,
        fn_constructor_args=(source, settings, neighbors),
        batch_format="pyarrow",
        batch_size=_arrays.integer(batch_size, "batch_size", least=1),
        num_cpus=cpus,
        compute=data.ActorPoolStrategy(
            min_size=_arrays.integer(least, "concurrency", least=1), max_size=_arrays.integer(most, "concurrency", least=1)
        ),
        **options,
    )


class NuqScorer:
    """A worker of the engine: opens the model once and scores batches."""

    def __init__(self, source: tuple[str, Any], options: _batches.Options, neighbors: _ray_shards.Neighbors | None) -> None:
        self._source, self._options, self._neighbors = source, options, neighbors
        self._scorer: _batches.Scorer | None = None

    def __call__(self, table: Any) -> Any:
        # The model is opened here, because Ray starts an actor whose constructor fails again and again.
        if self._scorer is None:
            model = _batches.opened(_local_file(*self._source), with_rows=self._neighbors is None)
            self._scorer = _batches.Scorer(model, self._options, _threads(), self._neighbors)
        return self._scorer.score(table)


def _threads() -> int:
    """The number of processors that Ray has assigned to this actor."""
    assigned = require("ray", "ray").get_runtime_context().get_assigned_resources()
    return max(1, int(assigned.get("CPU", 1)))


def _source(
    ray: Any, model: Any, options: _batches.Options, cpus: float
) -> tuple[tuple[str, Any], _ray_shards.Neighbors | None]:
    """A path and None, or the hash of a file and the reference to its content in the object store. For a sharded model also the search of its
    shards, of which the file holds none."""
    if isinstance(model, Estimator):
        model._check_fitted()
        if options.thresholds:
            model._thresholds(options.thresholds)
        if not model._learned("has_rows"):
            raise RowsNotStoredError("the model was saved without its training rows, so that workers cannot search them")
        model = _files.to_bytes(model._model)
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
        # Errors of the file are raised here instead of in a worker.
        _batches.Scorer(_batches.opened(path), options)
    return (str(path), None), None


def _put(ray: Any, content: Any) -> tuple[str, Any]:
    """The hash of a file and the reference to its content. Arrays in the object store are read without a copy."""
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
        with tempfile.NamedTemporaryFile(dir=folder, delete=False) as file:
            file.write(memoryview(values))
        # Other actors of the node write the same content.
        os.replace(file.name, path)
    return path
