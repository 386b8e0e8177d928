"""Neighbors from vector databases that Python packages run on this machine: PostgreSQL with pgvector, LanceDB, Qdrant and FAISS."""

from __future__ import annotations

import numpy as np
import pytest

from nuq import NuqClassifier, NuqRegressor, stores
from nuq.errors import FewNeighborsError, InvalidParameterError, NuqError, ParameterTypeError, StoreError

K = 7


@pytest.fixture(scope="module")
def data(blobs):
    """Training rows, labels and queries."""
    x, y = blobs
    return x[:250], y[:250], x[250:]


def unit(x: np.ndarray) -> np.ndarray:
    return x / np.linalg.norm(x, axis=1, keepdims=True)


def vector_text(row) -> str:
    return "[" + ",".join(map(str, row)) + "]"


@pytest.fixture(scope="module")
def postgres(data, tmp_path_factory):
    pgserver = pytest.importorskip("pgserver")
    psycopg = pytest.importorskip("psycopg")
    server = pgserver.get_server(tmp_path_factory.mktemp("postgres"), cleanup_mode="stop")
    with psycopg.connect(server.get_uri()) as connection:
        connection.execute("CREATE EXTENSION vector")
        connection.execute('CREATE TABLE "Items" (id bigint PRIMARY KEY, embedding vector(5))')
        connection.execute("CREATE TABLE texts (id text PRIMARY KEY, embedding vector(5))")
        with connection.cursor() as cursor:
            rows = [(i, vector_text(row)) for i, row in enumerate(data[0])]
            cursor.executemany('INSERT INTO "Items" VALUES (%s, %s)', rows)
            cursor.executemany("INSERT INTO texts VALUES (%s, %s)", [(f"item {i}", row) for i, row in rows])
        connection.commit()
        yield connection
    server.cleanup()


def lance_table(folder, x: np.ndarray):
    lancedb, pa = pytest.importorskip("lancedb"), pytest.importorskip("pyarrow")
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(x.ravel()), x.shape[1])
    return lancedb.connect(folder).create_table("items", pa.table({"id": np.arange(len(x)), "vector": vectors}))


def qdrant_collection(x: np.ndarray, distance: str):
    qdrant = pytest.importorskip("qdrant_client")
    client = qdrant.QdrantClient(":memory:")
    params = qdrant.models.VectorParams(size=x.shape[1], distance=qdrant.models.Distance[distance])
    client.create_collection("items", vectors_config=params)
    client.upsert("items", points=qdrant.models.Batch(ids=list(range(len(x))), vectors=x.tolist()))
    return client


def faiss_index(x: np.ndarray, metric: str):
    faiss = pytest.importorskip("faiss")
    index = faiss.IndexFlatL2(x.shape[1]) if metric == "l2sq" else faiss.IndexFlatIP(x.shape[1])
    index.add(x if metric == "l2sq" else unit(x))
    return index


@pytest.fixture(params=["pgvector", "lancedb", "qdrant", "faiss"])
def store_of(request, data, tmp_path):
    """A function that opens the store of an engine with Euclidean or cosine distances."""

    def open_store(is_cosine: bool) -> stores.Store:
        if request.param == "pgvector":
            return stores.PgVector(request.getfixturevalue("postgres"), "Items", metric="cosine" if is_cosine else "l2")
        if request.param == "lancedb":
            return stores.LanceDB(lance_table(tmp_path, data[0]), metric="cosine" if is_cosine else "l2sq")
        if request.param == "qdrant":
            return stores.Qdrant(qdrant_collection(data[0], "COSINE" if is_cosine else "EUCLID"), "items")
        return stores.Faiss(faiss_index(data[0], "cosine" if is_cosine else "l2sq"))

    return open_store


@pytest.mark.parametrize("is_cosine", [False, True], ids=["l2", "cosine"])
@pytest.mark.parametrize("estimator", [NuqClassifier, NuqRegressor])
def test_predictions_equal_the_predictions_of_the_model(data, store_of, estimator, is_cosine):
    x, y, queries = data
    model = estimator(n_neighbors=K, normalize=is_cosine).fit(x, y)
    store = store_of(is_cosine)
    store.batch_size = 16  # the queries need several requests, and the last request is smaller
    verified = stores.verify(store, model, queries)
    assert verified.recall == 1.0 and verified.distance_error < 1e-5
    assert (verified.n_queries, verified.n_neighbors) == (50, K)
    ids, distances = store.neighbors(queries, K)
    expected = model.predict_uncertainty(queries)
    result = model.predict_from(queries, ids, distances, metric=store.metric)
    np.testing.assert_allclose(result.log_density, expected.log_density, rtol=1e-4)
    # With rerank=True the distances are computed from the rows of the model, so the results are equal bit for bit.
    reranked = model.predict_from(queries, *store.neighbors(queries, 3 * K), rerank=True)
    for name in expected:
        np.testing.assert_array_equal(reranked[name], expected[name])
    assert store.neighbors(queries[:1], 3)[0].shape == (1, 3)


def test_fewer_rows_than_requested_are_an_error(data, store_of):
    with pytest.raises(FewNeighborsError, match="row 0: the database returned 250 neighbors, and 251 were requested"):
        store_of(False).neighbors(data[2], 251)


@pytest.mark.parametrize("count", [9, 11])
def test_neighbors_of_another_number_of_queries_are_an_error(data, count):
    class Other(stores.Store):
        metric = "l2"

        def _search(self, queries, k):
            return [(range(k), np.zeros(k))] * count

    with pytest.raises(StoreError, match=f"Other: the search of 10 queries returned neighbors of {count}"):
        Other().neighbors(data[2][:10], 3)


def test_a_wrong_number_of_columns_is_an_error(data, store_of):
    with pytest.raises(NuqError):
        store_of(False).neighbors(data[2][:, :4], 3)


def test_a_graph_of_pgvector_returns_at_most_ef_search_rows(data, postgres):
    x, y, queries = data
    postgres.execute('CREATE INDEX graph ON "Items" USING hnsw (embedding vector_l2_ops)')
    # Without this setting, the planner would scan the small table instead of using the index.
    postgres.execute("SET enable_seqscan = off")
    postgres.commit()
    try:
        with pytest.raises(FewNeighborsError, match="ef_search"):
            stores.PgVector(postgres, "Items", ef_search=5).neighbors(queries, 60)
        ids, _ = stores.PgVector(postgres, "public.Items").neighbors(queries, 60)
        assert ids.shape == (50, 60)
        assert stores.verify(stores.PgVector(postgres, "Items"), NuqClassifier(n_neighbors=K).fit(x, y)).recall > 0.8
    finally:
        postgres.execute("RESET enable_seqscan")
        postgres.execute("DROP INDEX graph")
        postgres.commit()


def test_errors_of_a_database_are_store_errors(data, postgres):
    queries = data[2]
    with pytest.raises(StoreError, match="nothing"):
        stores.PgVector(postgres, "nothing").neighbors(queries, 3)
    with pytest.raises(StoreError, match="'item"):
        stores.PgVector(postgres, "texts").neighbors(queries, 3)
    with pytest.raises(InvalidParameterError, match="metric"):
        stores.PgVector(postgres, "Items", metric="l2sq")
    # The connection can be used after an error.
    assert stores.PgVector(postgres, "Items").neighbors(queries, 3)[0].shape == (50, 3)


def test_configure_can_change_the_query_of_lancedb(data, tmp_path):
    table = lance_table(tmp_path, data[0])
    seen = []
    store = stores.LanceDB(table, configure=lambda query: seen.append(query) or query.where("id < 5"))
    with pytest.raises(FewNeighborsError, match="nprobes"):
        store.neighbors(data[2], 6)
    assert seen and store.neighbors(data[2], 5)[0].max() < 5


def test_qdrant_collections_with_dot_products_or_ambiguous_vectors_are_errors(data):
    qdrant = pytest.importorskip("qdrant_client")
    with pytest.raises(StoreError, match="Dot"):
        stores.Qdrant(qdrant_collection(data[0], "DOT"), "items")
    client = qdrant.QdrantClient(":memory:")
    params = qdrant.models.VectorParams(size=5, distance=qdrant.models.Distance.EUCLID)
    client.create_collection("items", vectors_config={"first": params, "second": params})
    with pytest.raises(StoreError, match="'first', 'second'"):
        stores.Qdrant(client, "items")
    points = [qdrant.models.PointStruct(id=i, vector={"first": row.tolist()}) for i, row in enumerate(data[0])]
    client.upsert("items", points)
    model = NuqClassifier(n_neighbors=K).fit(data[0], data[1])
    assert stores.verify(stores.Qdrant(client, "items", vector="first", exact=True, ef=64), model).recall == 1.0


def test_a_qdrant_collection_that_does_not_exist_is_an_error():
    qdrant = pytest.importorskip("qdrant_client")
    with pytest.raises(StoreError, match="collection='missing': it cannot be read .*not found.*: check the name"):
        stores.Qdrant(qdrant.QdrantClient(":memory:"), "missing")


def test_verify_finds_stores_that_do_not_match_the_model(data):
    x, y, _ = data
    model = NuqClassifier(n_neighbors=K).fit(x, y)
    assert stores.verify(stores.Faiss(faiss_index(x, "l2sq")), model, n_queries=10).n_queries == 10
    with pytest.raises(StoreError, match="compare ids, rows, normalize and metric"):
        stores.verify(stores.Faiss(faiss_index(x[::-1].copy(), "l2sq")), model)
    with pytest.raises(StoreError, match="is not among the 250 training rows. The store must contain each training row once"):
        stores.verify(stores.Faiss(faiss_index(np.concatenate([x + 50, x]), "l2sq")), model)

    class WithDuplicates(stores.Faiss):
        def _search(self, queries, k):
            return [(np.repeat(ids, 2)[:k], np.repeat(distances, 2)[:k]) for ids, distances in super()._search(queries, k)]

    with pytest.raises(StoreError, match="is listed twice. The store must contain each training row once"):
        stores.verify(WithDuplicates(faiss_index(x, "l2sq")), model)
    # With rerank=True distances are not compared. A store whose ids belong to other rows is then visible by its low recall.
    assert stores.verify(stores.Faiss(faiss_index(x[::-1].copy(), "l2sq")), model, rerank=True).recall < 0.3
    wrong_metric = stores.Faiss(faiss_index(x, "l2sq"))
    wrong_metric.metric = "l2"
    with pytest.raises(StoreError, match="metric 'l2'"):
        stores.verify(wrong_metric, model)
    with pytest.raises(ParameterTypeError, match="store="):
        stores.verify(faiss_index(x, "l2sq"), model)
    with pytest.raises(ParameterTypeError, match="model="):
        stores.verify(wrong_metric, "model.nuq")
    with pytest.raises(ParameterTypeError, match="index="):
        stores.Faiss("index")
