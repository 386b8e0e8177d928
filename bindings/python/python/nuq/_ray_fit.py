"""Fitting to the rows of a Ray dataset."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from . import _arrays, _shard_tables, _sharded
from ._base import Estimator
from ._package import require
from .errors import OutOfRangeError, ParameterTypeError

_Estimator = TypeVar("_Estimator", bound=Estimator)


def fit(
    dataset: Any,
    folder: Any,
    estimator: _Estimator,
    *,
    column: str | Sequence[str],
    y_column: str,
    weight_column: str | None = None,
    id_column: str | None = None,
    shards: int | None = None,
    num_cpus: float = 1,
) -> _Estimator:
    """Fit a model to the rows of a ``ray.data.Dataset``. The rows may exceed the memory of one machine. Returns the fitted estimator.

    The result is a sharded model in ``folder``, which ``nuq.load`` and the command line open. For any number of shards, it equals the model
    that ``estimator.fit`` with index="exact" gives for all rows in the order of the dataset, bit for bit.

    Every block of the dataset is written to the folder by a task and becomes one shard. The neighbors that the fit needs are searched by one
    task per shard. The covariances of the densities "auto" and "gmm" are computed by the driver, which reads the shards from the folder.

    Parameters
    ----------
    dataset : training rows.
    folder : folder of the model, on a file system that the driver and all nodes share. It is created if it does not exist.
    estimator : ``NuqClassifier`` or ``NuqRegressor`` with the parameters of the model. It is fitted in place.
    column : column of lists (or tensors) of numbers, or a list of columns of numbers, one per coordinate.
    y_column : column of labels or targets.
    weight_column : column of sample weights; they must be positive.
    id_column : column whose value identifies a row in error messages.
    shards : number of blocks into which the rows are divided first; by default the number of blocks of the dataset.
    num_cpus : number of processors of each task. A task has as many threads, rounded down, and at least one.
    """
    ray, data = require("ray", "ray"), require("ray.data", "ray")
    if not isinstance(dataset, data.Dataset):
        raise ParameterTypeError(f"dataset is of the type {type(dataset).__name__}: expected a ray.data.Dataset")
    columns = _shard_tables.Columns.checked(column, y_column, weight_column, id_column)
    cpus = _arrays.real(num_cpus, "num_cpus")
    if not cpus > 0:
        raise OutOfRangeError(f"num_cpus={num_cpus!r}: expected a positive number")
    path, normalize = _shard_tables.prepared(folder, estimator)
    if shards is not None:
        dataset = dataset.repartition(_arrays.integer(shards, "shards", least=1))
    # The order is preserved, because the id of a row is its position in the dataset.
    dataset.context.execution_options.preserve_order = True
    materialized = dataset.materialize()
    schema = materialized.schema()
    columns.check_present([] if schema is None else schema.names)
    blocks = materialized.get_internal_block_refs()
    threads = max(1, int(cpus))
    write = ray.remote(num_cpus=cpus)(_write_block)
    parts = ray.get([write.remote(path, i, block, columns, normalize, threads) for i, block in enumerate(blocks)])
    search = ray.remote(num_cpus=cpus)(_sharded.search)

    def search_all(
        files: Sequence[tuple[str, int]], queries: np.ndarray, k: int, scale: Any
    ) -> Iterator[tuple[int, _sharded.Table]]:
        shared = ray.put(queries)
        waiting = {search.remote(path, file, shared, k, scale, threads): i for i, file in enumerate(files)}
        while waiting:
            for done in ray.wait(list(waiting), num_returns=1)[0]:
                yield waiting.pop(done), ray.get(done)

    return _sharded.fit(estimator, path, parts, search_all, columns.names)


def _write_block(
    folder: Path, number: int, block: Any, columns: _shard_tables.Columns, normalize: bool, threads: int
) -> _sharded.Part:
    """Write a block of a dataset as a shard. The block is an Arrow table or a pandas data frame."""
    table = require("pyarrow", "ray").Table
    return _shard_tables.write_table(
        folder, number, block if isinstance(block, table) else table.from_pandas(block, preserve_index=False), columns, normalize, threads
    )
