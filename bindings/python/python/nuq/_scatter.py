"""Scoring with a sharded model on a cluster, by scatter and gather.

Each worker has some of the shards. A query is sent to all workers, and each worker returns the nearest rows in its shards: an id and a squared
distance, 12 bytes per neighbor. These results are merged in a tree, and a model without its training rows computes the predictions from
the merged result.

The predictions equal the predictions of one machine, bit for bit: a distance depends only on the two rows, and rows with equal distances are
ordered by id.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from . import _files, _nuq, _remote

#: Largest number of search results that are merged at a time.
FAN_IN = 32

#: Result of a search: ids and squared distances of the nearest rows of each query. The ids are those of the whole model, not of a shard.
Table = tuple[np.ndarray, np.ndarray]


class File(NamedTuple):
    """A shard of a model."""

    name: str
    rows: int
    #: The id of the first row of the shard.
    first: int


class Request(NamedTuple):
    """The part of a search that does not depend on the queries."""

    #: The folder of the model, or its prefix in an object store.
    folder: str
    #: The divisor of each column if the model searches a scaled space; None otherwise.
    scale: list[float] | None
    #: Whether queries are divided by their norms.
    normalize: bool
    #: Number of neighbors.
    k: int


class ShardedModel(NamedTuple):
    """A sharded model for the workers of a cluster."""

    #: The content of a model file that contains everything except the rows.
    content: bytes
    files: tuple[File, ...]
    request: Request

    def groups(self, most: int) -> list[tuple[File, ...]]:
        """The shards in at most ``most`` groups with similar numbers of rows."""
        groups: list[list[File]] = [[] for _ in range(min(most, len(self.files)))]
        for file in sorted(self.files, key=lambda file: -file.rows):
            min(groups, key=lambda group: sum(member.rows for member in group)).append(file)
        return [tuple(group) for group in groups]


def opened(path: Any) -> ShardedModel | None:
    """Open the manifest of a sharded model, without its shards. None if the path is not the folder or prefix of a sharded model."""
    folder = _remote.manifest_folder(path)
    if folder is None:
        return None
    model, listed, scale = _nuq.load_manifest(folder)
    files, first = [], 0
    for name, rows in listed:
        files.append(File(name, rows, first))
        first += rows
    learned = model.learned()
    k = min(learned["n_neighbors"], learned["n_rows"])
    where = path.rstrip("/") if _remote.is_uri(path) else str(folder)
    request = Request(where, scale, bool(model.params()["normalize"]), k)
    return ShardedModel(_files.to_bytes(model), tuple(files), request)


def shards(request: Request, files: Sequence[File]) -> Any:
    """Open some shards. Their indexes stay in memory."""
    folder = _remote.with_shards(request.folder, [file.name for file in files])
    return _nuq.Shards(folder, [(file.name, file.rows) for file in files], [file.first for file in files], request.scale)


def merged(tables: Sequence[Table], k: int, threads: int | None) -> Table:
    """The ``k`` nearest rows of each query among the rows of several search results."""
    return tables[0] if len(tables) == 1 else _nuq.merge_tables(list(tables), k, threads)
