"""Scoring of a Ray dataset with a sharded model, whose shards are searched by actors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from . import _scatter
from ._package import require


class NuqShards:
    """An actor that opens some shards and searches them."""

    def __init__(self, request: _scatter.Request, files: Sequence[_scatter.File], threads: int) -> None:
        self._request, self._files, self._threads = request, files, threads
        self._shards: Any = None

    def search(self, queries: np.ndarray) -> _scatter.Table:
        # The shards are opened here and not in the constructor: after an exception in its constructor, an actor cannot be used any more. An
        # exception in this method reaches the caller, and the next call tries again.
        if self._shards is None:
            self._shards = _scatter.shards(self._request, self._files)
        table: _scatter.Table = self._shards.search(queries, self._request.k, self._request.normalize, self._threads)
        return table


def start(sharded: _scatter.ShardedModel, most: int, threads: int) -> list[Any]:
    """Start at most ``most`` actors that search the shards of a model, on different nodes as far as possible.

    These actors reserve no processors, because they search only while scoring actors wait for the result, and the scoring actors have already
    reserved processors. Ray restarts an actor that dies, and repeats its searches.
    """
    ray = require("ray", "ray")
    actor = ray.remote(num_cpus=0, max_restarts=-1, max_task_retries=-1, scheduling_strategy="SPREAD")(NuqShards)
    return [actor.remote(sharded.request, files, threads) for files in sharded.groups(most)]


class Neighbors:
    """A function that returns the nearest rows of all shards. The actors that score call it. At most ``fan_in`` search results are merged at a
    time."""

    def __init__(self, actors: Sequence[Any], k: int, fan_in: int) -> None:
        self._actors, self._k, self._fan_in = actors, k, fan_in

    def __call__(self, rows: np.ndarray, threads: int | None) -> _scatter.Table:
        ray = require("ray", "ray")
        queries = ray.put(rows)
        tables = [actor.search.remote(queries) for actor in self._actors]
        merge = ray.remote(num_cpus=0)(_merge)
        while len(tables) > self._fan_in:
            tables = [merge.remote(self._k, *tables[first : first + self._fan_in]) for first in range(0, len(tables), self._fan_in)]
        return _scatter.merged(ray.get(tables), self._k, threads)


def _merge(k: int, *tables: _scatter.Table) -> _scatter.Table:
    return _scatter.merged(tables, k, 1)
