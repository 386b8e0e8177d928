"""Neighbors from a vector database that already contains the training rows.

An adapter searches one table, collection or index: ``PgVector``, ``LanceDB``, ``Qdrant`` or ``Faiss``. The ids in the database are the ids
of the training rows: row ``i`` of ``fit`` has the id ``i`` (``training_ids_`` lists them). ``verify`` compares a store with a model. Call it
before you use the neighbors from the store.

    store = nuq.stores.PgVector(connection, "items")
    nuq.stores.verify(store, model)
    ids, distances = store.neighbors(queries, model.n_neighbors)
    result = model.predict_from(queries, ids, distances, metric=store.metric)

The caller imports the package of the database. This module imports only psycopg and qdrant_client, and only if an adapter needs them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from . import _arrays, _neighbor_table
from ._base import Estimator
from ._package import require
from .errors import FewNeighborsError, FewRowsError, NuqError, ParameterTypeError, StoreError, UnknownIdError

__all__ = ["Faiss", "LanceDB", "PgVector", "Qdrant", "Store", "Verification", "verify"]

#: Neighbors of a query: ids and distances.
_Found = tuple[Any, Any]

#: Largest accepted ``Verification.distance_error``.
_MAX_DISTANCE_ERROR = 0.01

#: Largest value of pgvector's ``hnsw.ef_search``.
_MAX_EF_SEARCH = 1000


class Store:
    """Base class of the adapters. A subclass implements ``_search``."""

    #: The metric of the distances that ``neighbors`` returns: "l2", "l2sq" or "cosine".
    metric: str
    #: Number of queries per request.
    batch_size = 256
    #: The advice in the error message if the database returns fewer neighbors than requested.
    _remedy = "request fewer, or search more of the index"

    def neighbors(self, queries: Any, k: int) -> tuple[np.ndarray, np.ndarray]:
        """Ids and distances of the ``k`` nearest rows of each query: two matrices with ``k`` columns, nearest first.

        The attribute ``metric`` states the kind of the distances. The queries are sent in batches of ``batch_size``. ``FewNeighborsError`` is
        raised if the database returns fewer than ``k`` rows for a query. ``StoreError`` is raised for all errors of the database.
        """
        rows = _arrays.numbers(_arrays.rows(queries, "queries"), np.float32)
        k = _arrays.integer(k, "k", least=1)
        ids, distances = np.empty((len(rows), k), np.int64), np.empty((len(rows), k))
        for first in range(0, len(rows), self.batch_size):
            batch = rows[first : first + self.batch_size]
            try:
                found = list(self._search(batch, k))
            except NuqError:
                raise
            except Exception as error:
                raise StoreError(f"{type(self).__name__}: {type(error).__name__}: {error}") from error
            if len(found) != len(batch):
                raise StoreError(f"{type(self).__name__}: the search of {len(batch)} queries returned neighbors of {len(found)}")
            for row, (row_ids, row_distances) in enumerate(found, start=first):
                if len(row_ids) < k:
                    raise FewNeighborsError(
                        f"row {row}: the database returned {len(row_ids)} neighbors, and {k} were requested: {self._remedy}"
                    )
                ids[row], distances[row] = self._ids(row_ids), row_distances
        return ids, distances

    def _search(self, queries: np.ndarray, k: int) -> Sequence[_Found]:
        """At most ``k`` ids and distances for each query, nearest first."""
        raise NotImplementedError

    def _ids(self, values: Sequence[Any]) -> np.ndarray:
        ids = np.asarray(values)
        if ids.dtype.kind not in "iu":
            raise StoreError(
                f"{type(self).__name__}: {values[0]!r} is not the id of a training row: the database must store the ids of the model, "
                "integers of at least 0"
            )
        return ids


class PgVector(Store):
    """A PostgreSQL table with a ``vector`` column of pgvector.

    ``connection`` is a connection of psycopg 3. ``table`` is the name of the table and may include a schema (``"public.items"``). ``vector``
    and ``id`` are the names of two columns. ``metric`` is "l2" (operator ``<->``) or "cosine" (``<=>``). PostgreSQL uses an index of the same
    operator class if there is one.

    An HNSW index of pgvector returns at most ``hnsw.ef_search`` rows, by default 40. Each search sets ``hnsw.ef_search`` to ``ef_search`` for
    its own transaction. If ``ef_search`` is None, the larger of 40 and k is used, at most 1000.
    """

    _remedy = "set ef_search to at least k (an HNSW index returns at most ef_search rows), raise ivfflat.probes, or insert the missing rows"

    def __init__(
        self, connection: Any, table: str, *, vector: str = "embedding", id: str = "id", metric: str = "l2", ef_search: int | None = None
    ) -> None:
        sql = require("psycopg.sql", "stores")
        self.metric = _arrays.choice(metric, "metric", ("l2", "cosine"))
        self._connection = connection
        self._ef_search = None if ef_search is None else _arrays.integer(ef_search, "ef_search", least=1)
        self._query = sql.SQL(
            "SELECT q.n, t.id, t.distance FROM unnest(%s::text[]) WITH ORDINALITY AS q(v, n) CROSS JOIN LATERAL ("
            "SELECT {id} AS id, {vector} {operator} q.v::vector AS distance FROM {table} "
            "ORDER BY {vector} {operator} q.v::vector LIMIT %s) AS t ORDER BY q.n, t.distance, t.id"
        ).format(
            id=sql.Identifier(_arrays.text(id, "id")),
            vector=sql.Identifier(_arrays.text(vector, "vector")),
            table=sql.Identifier(*_arrays.text(table, "table").split(".")),
            operator=sql.SQL("<->" if metric == "l2" else "<=>"),
        )

    def _search(self, queries: np.ndarray, k: int) -> Sequence[_Found]:
        ef_search = min(max(40, k), _MAX_EF_SEARCH) if self._ef_search is None else self._ef_search
        vectors = ["[" + ",".join(map(str, query)) + "]" for query in queries]
        with self._connection.transaction(), self._connection.cursor() as cursor:
            cursor.execute("SELECT set_config('hnsw.ef_search', %s, true)", (str(ef_search),))
            found = cursor.execute(self._query, (vectors, k)).fetchall()
        return _grouped(len(queries), [row[0] - 1 for row in found], [row[1] for row in found], [row[2] for row in found])


class LanceDB(Store):
    """A table of LanceDB.

    ``vector`` and ``id`` are the names of two columns. ``metric`` is "l2sq" or "cosine"; it is not "l2", because LanceDB returns the squared
    distance for its distance type "l2". ``configure`` is a function that receives each query and returns it with other settings, for
    example ``lambda query: query.nprobes(50).refine_factor(10)``.
    """

    batch_size = 64
    _remedy = "raise nprobes with configure=lambda query: query.nprobes(50), or insert the missing rows"

    def __init__(
        self,
        table: Any,
        *,
        vector: str = "vector",
        id: str = "id",
        metric: str = "l2sq",
        configure: Callable[[Any], Any] | None = None,
    ) -> None:
        self.metric = _arrays.choice(metric, "metric", ("l2sq", "cosine"))
        self._table, self._vector, self._id = table, _arrays.text(vector, "vector"), _arrays.text(id, "id")
        self._configure = configure or (lambda query: query)

    def _search(self, queries: np.ndarray, k: int) -> Sequence[_Found]:
        query = self._table.search(queries if len(queries) > 1 else queries[0], vector_column_name=self._vector)
        query = query.distance_type("l2" if self.metric == "l2sq" else self.metric).limit(k).select([self._id, "_distance"])
        found = self._configure(query).to_arrow()
        numbers = found["query_index"].to_pylist() if "query_index" in found.column_names else [0] * len(found)
        return _grouped(len(queries), numbers, found[self._id].to_pylist(), found["_distance"].to_pylist())


class Qdrant(Store):
    """A collection of Qdrant with the distance Euclid or Cosine.

    ``client`` is a ``QdrantClient``. ``vector`` is the name of the vector if the collection has several vectors. ``exact=True`` searches
    without the graph, and ``ef`` is the beam width of the graph search, as in ``SearchParams``.
    """

    _remedy = "insert the missing rows into the collection"

    def __init__(
        self, client: Any, collection: str, *, vector: str | None = None, exact: bool = False, ef: int | None = None
    ) -> None:
        models = require("qdrant_client.models", "stores")
        self._client, self._collection, self._vector, self._models = client, _arrays.text(collection, "collection"), vector, models
        self._search_params = models.SearchParams(
            exact=_arrays.boolean(exact, "exact"), hnsw_ef=None if ef is None else _arrays.integer(ef, "ef", least=1)
        )
        try:
            vectors = client.get_collection(collection).config.params.vectors
        except Exception as error:
            raise StoreError(
                f"collection={collection!r}: it cannot be read ({type(error).__name__}: {error}): check the name, and the connection of client"
            ) from error
        if isinstance(vectors, dict):
            if vector not in vectors:
                raise StoreError(f"the collection {collection!r} has the vectors {', '.join(map(repr, vectors))}: set vector= to one of them")
            vectors = vectors[vector]
        metrics = {models.Distance.EUCLID: "l2", models.Distance.COSINE: "cosine"}
        if vectors.distance not in metrics:
            raise StoreError(f"the collection {collection!r} has the distance {vectors.distance}: nuq uses Euclid or Cosine")
        self.metric = metrics[vectors.distance]

    def _search(self, queries: np.ndarray, k: int) -> Sequence[_Found]:
        request = {"limit": k, "with_payload": False, "using": self._vector, "params": self._search_params}
        requests = [self._models.QueryRequest(query=query.tolist(), **request) for query in queries]
        found = [response.points for response in self._client.query_batch_points(self._collection, requests=requests)]
        scores = (np.array([point.score for point in points]) for points in found)
        # For the distance Cosine, Qdrant returns the similarity.
        distances = [1.0 - values if self.metric == "cosine" else values for values in scores]
        return [([point.id for point in points], values) for points, values in zip(found, distances)]


class Faiss(Store):
    """An index of FAISS with the metric L2, or with the inner product of rows of norm one.

    FAISS numbers the rows in the order of ``add``, which must be the order of the rows of ``fit``. With ``IndexIDMap``, the ids can be chosen.
    For an index with the inner product, the queries are divided by their norm, and the distances are of the metric "cosine".
    """

    batch_size = 8192
    _remedy = "raise nprobe or efSearch of the index, or add the missing rows"

    def __init__(self, index: Any) -> None:
        if not hasattr(index, "search") or not hasattr(index, "metric_type"):
            raise ParameterTypeError(f"index={index!r}: expected an index of faiss")
        # faiss.METRIC_INNER_PRODUCT is 0, and faiss.METRIC_L2 is 1.
        if index.metric_type not in (0, 1):
            raise StoreError(f"the index has the metric {index.metric_type}: nuq uses METRIC_L2 or METRIC_INNER_PRODUCT")
        self._index = index
        self.metric = "l2sq" if index.metric_type == 1 else "cosine"

    def _search(self, queries: np.ndarray, k: int) -> Sequence[_Found]:
        if queries.shape[1] != self._index.d:
            raise StoreError(f"the index has {self._index.d} columns, and the queries have {queries.shape[1]}")
        if self.metric == "cosine":
            norms = np.linalg.norm(queries, axis=1, keepdims=True)
            queries = queries / np.where(norms > 0, norms, 1)
        values, ids = self._index.search(np.ascontiguousarray(queries), k)
        distances = 1.0 - values if self.metric == "cosine" else values
        # If FAISS finds fewer than k rows, it fills the rest of the result with the id -1.
        return [(row[row >= 0], near[row >= 0]) for row, near in zip(ids, distances)]


class Verification(NamedTuple):
    """Agreement of a store with a model, measured on a sample of queries."""

    #: Share of the true neighbors that the store found.
    recall: float
    #: Largest difference between a squared distance of the store and of the model, divided by the median squared distance to the last
    #: neighbor.
    distance_error: float
    #: Number of queries.
    n_queries: int
    #: Number of neighbors per query.
    n_neighbors: int


def verify(
    store: Store, model: Estimator, queries: Any = None, *, n_queries: int = 200, rerank: bool = False, random_state: int = 0
) -> Verification:
    """Compare the neighbors from a store with those of the model, on a sample.

    ``queries`` are typical rows of the application. By default they are ``n_queries`` training rows, drawn at random; the recall of
    a graph is often higher for its own rows than for other rows.

    Raises ``StoreError`` if the store returns an id that is not the id of a training row, if it returns an id twice for one query, or if
    ``Verification.distance_error`` exceeds 1 %.
    Possible reasons for such a difference are: the store has other ids or other rows than the model, or ``normalize``, the bandwidths per
    column or the metric differ. With ``rerank=True``, distances are not compared, because ``predict_from`` does not use them then.

    >>> from nuq import NuqClassifier
    >>> class Lists(Store):
    ...     metric = "l2"
    ...     def _search(self, queries, k):
    ...         distances = np.linalg.norm(queries[:, None] - rows, axis=2)
    ...         return [(near := np.argsort(row)[:k], row[near]) for row in distances]
    >>> rows = np.random.default_rng(0).normal(size=(50, 3)).astype(np.float32)
    >>> model = NuqClassifier(n_neighbors=5).fit(rows, [0, 1] * 25)
    >>> verify(Lists(), model).recall
    1.0
    """
    if not isinstance(store, Store):
        raise ParameterTypeError(f"store={store!r}: expected an adapter of nuq.stores, such as nuq.stores.PgVector")
    if not isinstance(model, Estimator):
        raise ParameterTypeError(f"model={model!r}: expected a NuqClassifier or NuqRegressor")
    rerank = _arrays.boolean(rerank, "rerank")
    seed = _arrays.integer(random_state, "random_state")
    ids = model.training_ids_
    k = min(int(model._learned("n_neighbors")), len(ids))
    if queries is None:
        count = min(_arrays.integer(n_queries, "n_queries", least=1), len(ids))
        sample = np.random.default_rng(seed).choice(ids, count, replace=False)
        queries = np.asarray(model._model.training_rows(np.sort(sample).tolist(), model._threads()))
    rows = model._query_rows(queries)
    if len(rows) == 0:
        raise FewRowsError("queries is empty: give at least one row")
    found, distances = store.neighbors(rows, k)
    try:
        measured = model.measure(rows, found)
    except UnknownIdError as error:
        raise StoreError(
            f"the ids that the store returned are not valid: {error}. The store must contain each training row once, with its id in the "
            "model (model.training_ids_)"
        ) from error
    last = model.kneighbors(rows, k)[0][:, -1:] ** 2
    # The factor allows for rounding: the distances of kneighbors are rounded square roots.
    recall = float((measured <= last * (1 + 1e-12)).mean())
    distance_error = 0.0
    if not rerank:
        squared = _neighbor_table.squared(distances, store.metric, found.shape, model._fitted("normalize"))
        differences = np.abs(squared - measured)
        distance_error = float(differences.max()) / (float(np.median(last)) or 1.0)
        if not distance_error <= _MAX_DISTANCE_ERROR:
            row, column = np.unravel_index(np.argmax(differences), differences.shape)
            raise StoreError(
                f"the squared distance of query {row} to the training row {found[row, column]} is {squared[row, column]:.6g} in the store "
                f"(metric {store.metric!r}) and {measured[row, column]:.6g} in the model: compare ids, rows, normalize and metric; if the "
                "store has compressed rows, use rerank=True"
            )
    return Verification(recall, distance_error, len(rows), k)


def _grouped(n: int, numbers: Sequence[int], ids: Sequence[Any], distances: Sequence[float]) -> list[_Found]:
    """Ids and distances of each query. ``numbers`` contains the number of the query of each pair."""
    groups: list[tuple[list[Any], list[float]]] = [([], []) for _ in range(n)]
    for number, row, distance in zip(numbers, ids, distances):
        groups[number][0].append(row)
        groups[number][1].append(distance)
    return list(groups)
