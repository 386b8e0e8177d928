"""Fitting to the rows of a Spark data frame."""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Sequence
from typing import Any, TypeVar

import numpy as np

from . import _shard_tables, _sharded
from ._base import Estimator
from ._package import require
from .errors import ParameterTypeError

_Estimator = TypeVar("_Estimator", bound=Estimator)


def fit(
    df: Any,
    folder: Any,
    estimator: _Estimator,
    *,
    column: str | Sequence[str],
    y_column: str,
    weight_column: str | None = None,
    id_column: str | None = None,
) -> _Estimator:
    """Fit a model to the rows of a Spark data frame. The rows may exceed the memory of one machine. Returns the fitted estimator.

    The result is a sharded model in ``folder``, which ``nuq.load`` and the command line open. For any number of partitions, it equals the
    model that ``estimator.fit`` with index="exact" gives for all rows in the order of ``df.collect()``, bit for bit.

    Every partition is written to the folder by a task and becomes one shard. A partition must therefore fit into the memory of a task;
    ``df.repartition(n)`` divides the rows. The neighbors that the fit needs are searched by one task per shard. The covariances of the
    densities "auto" and "gmm" are computed by the driver, which reads the shards from the folder. A task uses ``spark.task.cpus`` threads.

    Parameters
    ----------
    df : training rows. If Spark computes a partition again, it must have the same rows in the same order. Otherwise cache the data frame, or
        write it to files first.
    folder : folder of the model, on a file system that the driver and all executors share. It is created if it does not exist.
    estimator : ``NuqClassifier`` or ``NuqRegressor`` with the parameters of the model. It is fitted in place.
    column : column of arrays of numbers, or a list of columns of numbers, one per coordinate.
    y_column : column of labels or targets.
    weight_column : column of sample weights; they must be positive.
    id_column : column whose value identifies a row in error messages.
    """
    require("pyspark", "spark")
    if not hasattr(df, "mapInArrow"):
        raise ParameterTypeError(f"df is of the type {type(df).__name__}: expected a data frame of Spark")
    columns = _shard_tables.Columns.checked(column, y_column, weight_column, id_column)
    columns.check_present(df.columns)
    path, normalize = _shard_tables.prepared(folder, estimator)
    spark, names = df.sparkSession, list(dict.fromkeys(columns.all))

    def write(batches: Iterator[Any]) -> Iterator[Any]:
        pa = require("pyarrow", "spark")
        read = list(batches)
        if any(len(batch) for batch in read):
            number, threads = _task()
            table = pa.Table.from_batches(read).rename_columns(names)
            part = _shard_tables.write_table(path, number, table, columns, normalize, threads)
            yield pa.RecordBatch.from_pydict({"part": [pickle.dumps(tuple(part))]})

    # The columns are renamed, because mapInArrow cannot read names that contain a dot or a backtick.
    col = require("pyspark.sql.functions", "spark").col
    selected = [col(f"`{name.replace('`', '``')}`").alias(f"column_{i}") for i, name in enumerate(names)]
    rows = df.select(*selected).mapInArrow(write, "part binary").collect()
    parts = [_sharded.Part(*pickle.loads(row.part)) for row in rows]

    def search_all(
        files: Sequence[tuple[str, int]], queries: np.ndarray, k: int, scale: Any
    ) -> Iterator[tuple[int, _sharded.Table]]:
        request = spark.sparkContext.broadcast((queries, k, scale))

        def search(i: int) -> tuple[int, _sharded.Table]:
            queries, k, scale = request.value
            return i, _sharded.search(path, files[i], queries, k, scale, _task()[1])

        try:
            yield from spark.sparkContext.parallelize(range(len(files)), len(files)).map(search).toLocalIterator(True)
        finally:
            request.destroy()

    return _sharded.fit(estimator, path, parts, search_all, columns.names)


def _task() -> tuple[int, int]:
    """The number of the partition of this task, and its number of threads."""
    context = require("pyspark", "spark").TaskContext.get()
    return (0, 1) if context is None else (context.partitionId(), max(1, context.cpus()))
