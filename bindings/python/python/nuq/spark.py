"""Scoring of the rows of a Spark data frame, and fits to them. ``pip install "nuq[spark]"`` installs PySpark."""

from __future__ import annotations

import atexit
import hashlib
import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from . import _arrays, _batches, _remote, _scatter, _spark_shards
from ._base import Estimator
from ._package import require
from ._spark_fit import fit
from .errors import ParameterTypeError

__all__ = ["fit", "score"]


def score(
    df: Any,
    model: Any,
    *,
    column: str | Sequence[str],
    id_column: str | None = None,
    keep_columns: Sequence[str] | None = None,
    threshold: str | Sequence[str] | None = None,
    on_bad_rows: str = "error",
) -> Any:
    """Score each row of a Spark data frame. Returns a data frame with the columns that ``keep_columns`` selects and the columns
    of ``nuq score``.

    Spark sends the model file to its executors (``addFile``; ``addArtifact`` in Spark Connect). The workers of an executor map the same
    file. A task uses ``spark.task.cpus`` threads.

    Parameters
    ----------
    df : rows to score.
    model : path of a model file on the machine of the driver, the address of a model file in an object store (``s3://…``), or a fitted
        estimator. The folder of a sharded model must be on a file system that all executors share, or in an object store. For a sharded model,
        each task searches some shards, and the neighbors that the tasks find for a row are merged. The order of the rows changes. Scoring with
        a sharded model needs PySpark 4.
    column : column of arrays of numbers, or a list of columns of numbers, one per coordinate. Convert a column of ``pyspark.ml`` vectors with
        ``pyspark.ml.functions.vector_to_array``.
    id_column : column whose value identifies a row in error messages. It is the first column of the result.
    keep_columns : columns that are copied to the result; by default all columns that are not coordinates.
    threshold : name of a stored threshold, or several names; the column ``accept`` is True where all of these thresholds accept.
    on_bad_rows : what happens if a row is null, has another length than the training rows, or contains a NaN, an infinity, a null or a number
        outside the range of float32: "error" raises an error, "skip" leaves the results of the row null.
    """
    types = require("pyspark.sql.types", "spark")
    if not hasattr(df, "mapInArrow"):
        raise ParameterTypeError(f"df is of the type {type(df).__name__}: expected a data frame of Spark")
    options = _batches.Options.checked(column, id_column, keep_columns, threshold, on_bad_rows)
    sharded = None if isinstance(model, Estimator) else _scatter.opened(model if _remote.is_uri(model) else _arrays.path(model, "model"))
    path = _saved(model, sharded)
    scorer = _batches.Scorer(_batches.opened(path, with_rows=sharded is None), options)
    fields, kept = scorer.fields(df.columns), options.kept(df.columns)
    kinds = {"double": types.DoubleType(), "int64": types.LongType(), "bool": types.BooleanType(), "string": types.StringType()}
    kept_fields, result_fields = [df.schema[name] for name in kept], [types.StructField(name, kinds[kind], True) for name, kind in fields]
    name = _distribute(df, path)
    # A column that is copied to the result may also be a coordinate. It is then read only once.
    columns = list(dict.fromkeys([*kept, *options.coordinates]))

    # The columns are renamed, because mapInArrow cannot read names that contain a dot or a backtick.
    col = require("pyspark.sql.functions", "spark").col
    selected = [col(f"`{column.replace('`', '``')}`").alias(f"column_{i}") for i, column in enumerate(columns)]
    renamed = df.select(*selected)
    if sharded is not None:
        return _spark_shards.score(renamed, sharded, lambda: _scorer(name, options, with_rows=False), columns, kept_fields, result_fields)

    def batches(tables: Iterator[Any]) -> Iterator[Any]:
        return _scored(tables, name, columns, options)

    return renamed.mapInArrow(batches, types.StructType([*kept_fields, *result_fields]))


#: The model that this worker process opened last. The key is the path of the model file. The dictionary has at most one entry.
_open: dict[str, Estimator] = {}


def _scored(batches: Iterator[Any], name: str, columns: list[str], options: _batches.Options) -> Iterator[Any]:
    """Score the batches of one task. ``columns`` are the names of their columns."""
    pa, scorer = require("pyarrow", "spark"), _scorer(name, options)
    for batch in batches:
        table = pa.Table.from_batches([batch]).rename_columns(columns)
        yield from scorer.score(table).combine_chunks().to_batches()


def _scorer(name: str, options: _batches.Options, *, with_rows: bool = True) -> _batches.Scorer:
    """The scorer in a task. The model is opened once per worker process."""
    pyspark = require("pyspark", "spark")
    path = pyspark.SparkFiles.get(name)
    if path not in _open:
        _open.clear()
        _open[path] = _batches.opened(path, with_rows=with_rows)
    context = pyspark.TaskContext.get()
    return _batches.Scorer(_open[path], options, 1 if context is None else max(1, context.cpus()))


def _saved(model: Any, sharded: _scatter.ShardedModel | None) -> Path:
    """The path of the model file. For an estimator the file is written; for a sharded model a file without rows is written."""
    if sharded is None and not isinstance(model, Estimator):
        return _remote.local(model, "model")
    path = _staging() / "model.nuq"
    if sharded is None:
        model.save(path)
    else:
        path.write_bytes(sharded.content)
    return path


def _staging() -> Path:
    """A folder for files that Spark sends to executors. Spark reads these files whenever an executor starts, so the folder exists until the
    process ends."""
    folder = Path(tempfile.mkdtemp(prefix="nuq-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def _distribute(df: Any, path: Path) -> str:
    """Make a file available to all tasks. Returns a name that depends on the content of the file."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    name = f"nuq-{digest.hexdigest()}.nuq"
    spark = df.sparkSession
    is_connect = type(spark).__module__.startswith("pyspark.sql.connect")
    if not is_connect and any(str(known).endswith(name) for known in spark.sparkContext.listFiles):
        return name
    copy = _staging() / name
    try:
        os.link(path, copy)
    except OSError:
        shutil.copyfile(path, copy)
    if is_connect:
        spark.addArtifact(str(copy), file=True)
    else:
        spark.sparkContext.addFile(str(copy))
    return name
