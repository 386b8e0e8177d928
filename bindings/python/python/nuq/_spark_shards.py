"""Scoring of a Spark data frame with a sharded model.

The shards are divided into groups, which are called parts.

1. ``scatter``: every row is sent to all parts, a row that cannot be scored only to part 0. Part 0 also receives the columns that the result keeps.
2. ``search``: the tasks of a part find the neighbors of each row in the shards of the part.
3. ``merge``: the neighbors of a block of rows are merged, at most ``FAN_IN`` parts at a time.
4. ``finish``: the predictions are computed from the neighbors of the last merge.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from . import _batches, _scatter
from ._package import require
from .errors import MissingPackageError

#: Largest number of rows in a block.
BLOCK = 1024

#: Names of the columns that are added to the columns of the data frame.
BLOCK_COLUMN, ROW, PART, VECTOR, IDS, DISTANCES = (f"nuq_{name}" for name in ("block", "row", "part", "vector", "ids", "distances"))

#: The shards that this worker process opened last. The key contains the folder, the files and the scale. The dictionary has at most one entry.
_open: dict[Any, Any] = {}


def score(
    df: Any, sharded: _scatter.ShardedModel, scorer: Callable[[], _batches.Scorer], columns: Sequence[str], kept: Sequence[Any], fields: Sequence[Any]
) -> Any:
    """The scored data frame.

    ``df`` contains the rows, and ``columns`` are the names of its columns. ``scorer`` is called in the tasks; it opens the model without its
    training rows. ``kept`` are the fields of the columns that are copied to the result, and ``fields`` the fields of the predictions.
    """
    types = require("pyspark.sql.types", "spark")
    if not hasattr(require("pyspark.sql", "spark").GroupedData, "applyInArrow"):
        raise MissingPackageError('scoring with a sharded model needs PySpark 4 or newer: pip install "pyspark>=4"')
    spark = df.sparkSession
    parts = sharded.groups(int(spark.conf.get("spark.sql.shuffle.partitions")))
    request, fan_in = sharded.request, _scatter.FAN_IN
    names = [field.name for field in kept]
    # The kept columns are renamed, because a column of the data frame may have one of the names that are added here.
    kept_fields = [types.StructField(f"kept_{i}", field.dataType, True) for i, field in enumerate(kept)]
    located = [types.StructField(BLOCK_COLUMN, types.StringType(), False), types.StructField(ROW, types.IntegerType(), False)]
    vector = types.StructField(VECTOR, types.ArrayType(types.FloatType()), True)
    part = types.StructField(PART, types.IntegerType(), False)
    table = [
        types.StructField(IDS, types.ArrayType(types.IntegerType()), True),
        types.StructField(DISTANCES, types.ArrayType(types.DoubleType()), True),
    ]

    def scatter(tables: Iterator[Any]) -> Iterator[Any]:
        return _scattered(tables, scorer(), len(parts), columns, names)

    def search(batches: Iterator[Any]) -> Iterator[Any]:
        return _searched(batches, request, parts)

    def merge(block: Any) -> Any:
        return _merged(block, request.k)

    def finish(block: Any) -> Any:
        return _finished(block, request.k, scorer(), names)

    scattered = df.mapInArrow(scatter, types.StructType([*located, part, vector, *kept_fields]))
    # Newer versions of Spark can assign each part to its own partition. `repartition` assigns by a hash, so two parts may share a partition.
    by_part = scattered.repartitionById(len(parts), PART) if hasattr(scattered, "repartitionById") else scattered.repartition(len(parts), PART)
    schema = types.StructType([*located, part, vector, *kept_fields, *table])
    found, step = by_part.mapInArrow(search, schema), fan_in
    col = require("pyspark.sql.functions", "spark").col
    while step < len(parts):
        found = found.groupBy(BLOCK_COLUMN, (col(PART) / step).cast("int")).applyInArrow(merge, schema)
        step *= fan_in
    return found.groupBy(BLOCK_COLUMN).applyInArrow(finish, types.StructType([*kept, *fields]))


def _scattered(
    batches: Iterator[Any], scorer: _batches.Scorer, parts: int, columns: Sequence[str], names: Sequence[str]
) -> Iterator[Any]:
    """The records of one task, one per row and part. A row that cannot be scored is sent to part 0 alone, without coordinates."""
    pa, context = require("pyarrow", "spark"), require("pyspark", "spark").TaskContext.get()
    task = 0 if context is None else context.partitionId()
    number = 0
    for batch in batches:
        table = pa.Table.from_batches([batch]).rename_columns(columns)
        for first in range(0, len(table), BLOCK):
            block = table.slice(first, BLOCK).combine_chunks()
            rows, positions = scorer.rows(block)
            located = [pa.array([f"{task}-{number}"] * len(block)), pa.array(np.arange(len(block), dtype=np.int32))]
            kept = [_single(pa, block[name]) for name in names]
            yield _record(pa, located, 0, _lists(pa, rows, positions, len(block)), kept)
            sent = pa.array(positions)
            located, absent = [column.take(sent) for column in located], [pa.nulls(len(rows), column.type) for column in kept]
            vectors = _lists(pa, rows, np.arange(len(rows)), len(rows))
            for part in range(1, parts):
                yield _record(pa, located, part, vectors, absent)
            number += 1


def _single(pa: Any, column: Any) -> Any:
    """A column as one array."""
    column = column.combine_chunks()
    return pa.concat_arrays(column.chunks) if hasattr(column, "chunks") else column


def _record(pa: Any, located: list[Any], part: int, vectors: Any, kept: list[Any]) -> Any:
    columns = [*located, pa.array(np.full(len(vectors), part, np.int32)), vectors, *kept]
    return pa.RecordBatch.from_arrays(columns, [BLOCK_COLUMN, ROW, PART, VECTOR, *(f"kept_{i}" for i in range(len(kept)))])


def _lists(pa: Any, values: np.ndarray, positions: np.ndarray, n: int) -> Any:
    """A column of ``n`` lists: the rows of ``values`` at the given positions, and nulls elsewhere."""
    width = values.shape[1] if values.ndim == 2 else 0
    lengths = np.zeros(n, np.int32)
    lengths[positions] = width
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    absent = np.ones(n + 1, bool)
    absent[positions] = absent[n] = False
    return pa.ListArray.from_arrays(pa.array(offsets, mask=absent), pa.array(np.ascontiguousarray(values).ravel()))


def _values(column: Any, kind: type) -> np.ndarray:
    """The lists of a column that are not null, as rows of a matrix."""
    column = column.drop_null()
    flat = column.combine_chunks() if hasattr(column, "chunks") else column
    if not len(flat):
        return np.empty((0, 0), kind)
    return np.ascontiguousarray(flat.flatten().to_numpy(zero_copy_only=False), kind).reshape(len(flat), -1)


def _searched(batches: Iterator[Any], request: _scatter.Request, parts: Sequence[Sequence[_scatter.File]]) -> Iterator[Any]:
    """Add the neighbors of each row in the shards of its part."""
    pa, compute = require("pyarrow", "spark"), require("pyarrow.compute", "spark")
    context = require("pyspark", "spark").TaskContext.get()
    threads = 1 if context is None else max(1, context.cpus())
    for batch in batches:
        column = batch.schema.get_field_index(PART)
        for part in np.unique(batch.column(column).to_numpy()):
            of_part = batch.filter(compute.equal(batch.column(column), pa.scalar(part, pa.int32())))
            vectors = of_part.column(of_part.schema.get_field_index(VECTOR))
            positions = np.flatnonzero(vectors.is_valid().to_numpy(zero_copy_only=False))
            ids, distances = np.empty((0, 0), np.uint32), np.empty((0, 0))
            if len(positions):
                ids, distances = _opened(request, parts[part]).search(_values(vectors, np.float32), request.k, request.normalize, threads)
            columns = [
                # The predictions need the coordinates of the queries once: part 0 returns them, and the other parts drop their copies.
                pa.nulls(len(of_part), vectors.type) if name == VECTOR and part else values
                for name, values in zip(of_part.schema.names, of_part.columns)
            ]
            tables = [_lists(pa, values, positions, len(of_part)) for values in (ids.view(np.int32), distances)]
            yield pa.RecordBatch.from_arrays([*columns, *tables], [*of_part.schema.names, IDS, DISTANCES])


def _opened(request: _scatter.Request, files: Sequence[_scatter.File]) -> Any:
    # The key contains the scale, because another fit to the same rows, with other column bandwidths, writes files with the same names
    # into the same folder.
    key = (request.folder, tuple(files), None if request.scale is None else tuple(request.scale))
    if key not in _open:
        _open.clear()
        _open[key] = _scatter.shards(request, files)
    return _open[key]


def _merged(block: Any, k: int) -> Any:
    """One record per row, with the neighbors in all parts merged. ``block`` contains the records of a block of rows, one per row and part. The
    other columns are copied from the first part."""
    pa = require("pyarrow", "spark")
    parts, tables, numbers = block[PART].to_numpy(), [], np.empty(0, np.int32)
    has_table = block[IDS].is_valid().to_numpy()
    for part in np.unique(parts):
        of_part = _by_row(block, (parts == part) & has_table)
        if len(of_part):
            ids, distances = _values(of_part[IDS], np.int32), _values(of_part[DISTANCES], np.float64)
            tables.append((ids.view(np.uint32), distances))
            numbers = of_part[ROW].to_numpy()
    first = _by_row(block, parts == parts.min())
    ids, distances = _scatter.merged(tables, k, 1) if tables else (np.empty((0, 0), np.uint32), np.empty((0, 0)))
    positions = np.searchsorted(first[ROW].to_numpy(), numbers)
    for name, values in ((IDS, ids.view(np.int32)), (DISTANCES, distances)):
        # Spark compares the types of lists including the names of their elements. The cast gives the new lists the name of the old ones.
        lists = _lists(pa, values, positions, len(first)).cast(first[name].type)
        first = first.set_column(first.column_names.index(name), name, lists)
    return first


def _by_row(block: Any, mask: np.ndarray) -> Any:
    """The records that ``mask`` selects, in the order of their row numbers."""
    selected = np.flatnonzero(mask)
    return block.take(selected[np.argsort(block[ROW].to_numpy()[selected])])


def _finished(block: Any, k: int, scorer: _batches.Scorer, names: Sequence[str]) -> Any:
    """The columns that are copied to the result, and the predictions, for the rows of a block."""
    merged = _merged(block, k)
    kept = {name: merged[f"kept_{i}"] for i, name in enumerate(names)}
    positions = np.flatnonzero(merged[IDS].is_valid().to_numpy())
    rows = _values(merged[VECTOR], np.float32)
    table = _values(merged[IDS], np.int32).view(np.uint32), _values(merged[DISTANCES], np.float64)
    return scorer.results(kept, len(merged), rows, positions, lambda *_: table)
