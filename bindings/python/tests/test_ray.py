"""Scores and fits with a real Ray cluster: two nodes on one machine."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import numpy as np
import pytest

import nuq
import nuq._scatter
from nuq import NuqClassifier, NuqRegressor, _sharded
from nuq.errors import InvalidParameterError, MissingFileError, NuqError, OutOfRangeError, ParameterTypeError, UnknownNameError

ray = pytest.importorskip("ray")
pa = pytest.importorskip("pyarrow")
pytest.importorskip("ray.data")


@pytest.fixture(scope="module")
def cluster():
    from ray.cluster_utils import Cluster

    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 2, "include_dashboard": False})
    cluster.add_node(num_cpus=2)
    ray.init(address=cluster.address, log_to_driver=False, logging_level="error")
    ray.data.DataContext.get_current().enable_progress_bars = False
    yield cluster
    ray.shutdown()
    cluster.shutdown()


@pytest.fixture(scope="module")
def table(blobs):
    x, _ = blobs
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(x.ravel()), 5)
    return pa.table({"id": np.arange(1000, 1300), "embedding": vectors, "source": [f"file {i}" for i in range(300)]})


def check(scored, expected) -> None:
    """Compare a scored dataset with the results of one machine, bit for bit."""
    frame = pa.concat_tables([table for table in ray.get(scored.to_arrow_refs()) if len(table)]).to_pandas()
    frame = frame.sort_values("id").reset_index(drop=True)
    np.testing.assert_array_equal(frame["id"], np.arange(1000, 1300))
    for name in expected:
        np.testing.assert_array_equal(frame[name].to_numpy(), expected[name])


@pytest.mark.parametrize("estimator", [NuqClassifier(), NuqRegressor(), NuqClassifier(normalize=True)], ids=repr)
def test_scores_equal_the_scores_of_one_machine(cluster, blobs, table, tmp_path, estimator):
    x, y = blobs
    model = estimator.fit(x, y)
    model.save(tmp_path / "model.nuq")
    expected = model.predict_uncertainty(x)
    dataset = ray.data.from_arrow([table.slice(first, 43) for first in range(0, 300, 43)])
    for source in (model, tmp_path / "model.nuq", (tmp_path / "model.nuq").read_bytes()):
        scored = nuq.ray.score(dataset, source, column="embedding", id_column="id", batch_size=16, concurrency=2)
        check(scored, expected)
    assert scored.columns() == ["id", "source", *expected]


def test_thresholds_kept_columns_and_other_kinds_of_columns_are_supported(cluster, blobs, table):
    """Kept columns are the columns of the input that are copied to the output."""
    x, y = blobs
    model = NuqClassifier().fit(x, np.array(["first", "second", "third"])[y])
    model.calibrate(x[::2] + np.float32(0.01), coverage=0.8, name="guard")
    expected = model.predict_uncertainty(x)
    dataset = ray.data.from_arrow(table)
    scored = nuq.ray.score(dataset, model, column="embedding", id_column="id", keep_columns=[], threshold="guard", num_cpus=2)
    check(scored, {**dict(expected.items()), "accept": model.accept(x, "guard")})
    assert scored.columns() == ["id", *expected, "accept"]
    # The embeddings can also be columns of numbers, or tensors.
    names = list("abcde")
    wide = pa.table({"id": np.arange(1000, 1300), **{name: x[:, i].astype(np.float64) for i, name in enumerate(names)}})
    check(nuq.ray.score(ray.data.from_arrow(wide), model, column=names), expected)
    tensors = ray.data.from_numpy(x).map_batches(lambda batch: {"embedding": batch["data"], "id": np.arange(1000, 1300)}, batch_size=None)
    check(nuq.ray.score(tensors, model, column="embedding"), expected)


def test_rows_that_cannot_be_scored_are_skipped_or_named_in_the_error(cluster, blobs, table):
    x, y = blobs
    model = NuqClassifier().fit(x, y)
    rows = [row.tolist() for row in x[:10]]
    rows[3], rows[4], rows[5], rows[6] = None, [1.0, 2.0], [float("nan")] * 5, [1e300] * 5
    dataset = ray.data.from_arrow(pa.table({"id": np.arange(1000, 1010), "embedding": pa.array(rows, pa.list_(pa.float64()))}))
    frame = nuq.ray.score(dataset, model, column="embedding", on_bad_rows="skip").to_pandas().sort_values("id")
    assert frame["id"].tolist() == list(range(1000, 1010))
    assert frame["total"].isna().tolist() == [3 <= i <= 6 for i in range(10)]
    np.testing.assert_array_equal(frame["total"].dropna().to_numpy(float), np.delete(model.predict_uncertainty(x[:10]).total, range(3, 7)))
    with pytest.raises(Exception) as caught:
        nuq.ray.score(dataset, model, column="embedding", id_column="id").materialize()
    for part in ("column 'embedding'", "id=1003 is null", "id=1004 has 2 values: expected 5", "id=1005", "id=1006", 'on_bad_rows="skip"'):
        assert part in str(caught.value)


def test_invalid_arguments_are_errors(cluster, blobs, table, tmp_path):
    model = NuqClassifier().fit(*blobs)
    dataset = ray.data.from_arrow(table)
    for error, arguments in (
        (ParameterTypeError, {"dataset": table}),
        (ParameterTypeError, {"model": 5}),
        (ParameterTypeError, {"column": 5}),
        (InvalidParameterError, {"column": []}),
        (InvalidParameterError, {"on_bad_rows": "drop"}),
        (OutOfRangeError, {"num_cpus": 0}),
        (OutOfRangeError, {"batch_size": 0}),
        (OutOfRangeError, {"concurrency": 0}),
        (OutOfRangeError, {"concurrency": (3, 2)}),
        (ParameterTypeError, {"concurrency": "2"}),
        (ParameterTypeError, {"concurrency": 1.5}),
        (ParameterTypeError, {"concurrency": (1, 2.5)}),
        (ParameterTypeError, {"concurrency": (1, 2, 3)}),
        (NuqError, {"model": __file__}),
    ):
        with pytest.raises(error, match="concurrency=" if "concurrency" in arguments else None):
            nuq.ray.score(**{"dataset": dataset, "model": model, "column": "embedding", **arguments})
    for arguments, text in (
        ({"column": "vector"}, "there is no column 'vector'"),
        ({"column": "source"}, "expected lists of numbers"),
        ({"model": tmp_path / "missing.nuq"}, MissingFileError.__name__),
        ({"threshold": "unknown"}, "unknown"),
    ):
        with pytest.raises(Exception, match=text):
            nuq.ray.score(**{"dataset": dataset, "model": model, "column": "embedding", **arguments}).materialize()
    with pytest.raises(Exception, match="the column 'label' cannot be kept: this name is used or reserved"):
        nuq.ray.score(ray.data.from_arrow(table.append_column("label", table["id"])), model, column="embedding").materialize()


def test_the_number_of_threads_is_the_number_of_processors_that_ray_assigns(cluster):
    for cpus, threads in ((0.5, 1), (1, 1), (2, 2)):
        assert ray.get(ray.remote(num_cpus=cpus)(lambda: nuq.ray._threads()).remote()) == threads


def processes(cluster, name: bytes) -> list[int]:
    """The processes of the actors of the class ``name``."""
    raylets = [process.process.pid for node in cluster.list_all_nodes() for process in node.all_processes["raylet"]]
    children = [int(pid) for raylet in raylets for pid in Path(f"/proc/{raylet}/task/{raylet}/children").read_text().split()]
    found = []
    for pid in children:
        try:
            if name in Path(f"/proc/{pid}/cmdline").read_bytes():
                found.append(pid)
        except OSError:
            pass
    return found


def test_no_row_is_lost_or_repeated_if_a_worker_is_killed(cluster, blobs, table):
    model = NuqClassifier().fit(*blobs)

    def slow(batch):
        time.sleep(0.2)
        return batch

    dataset = ray.data.from_arrow([table.slice(first, 10) for first in range(0, 300, 10)]).map_batches(slow, batch_format="pyarrow")
    scored = nuq.ray.score(dataset, model, column="embedding", id_column="id", concurrency=2)
    killed, batches = [], []
    for batch in scored.iter_batches(batch_size=None, batch_format="pyarrow"):
        batches.append(batch)
        if not killed:
            killed = processes(cluster, b"NuqScorer")[:1]
            for pid in killed:
                os.kill(pid, signal.SIGKILL)
    assert killed, "no scoring process was running"
    frame = pa.concat_tables(batches).to_pandas().sort_values("id")
    assert frame["id"].tolist() == list(range(1000, 1300))
    np.testing.assert_array_equal(frame["total"].to_numpy(), model.predict_uncertainty(blobs[0]).total)


def sharded_model(folder: Path, x: np.ndarray, y: np.ndarray, sizes: list[int], estimator):
    """Fit ``estimator`` to shards of these sizes. Returns the model that one machine fits to all rows."""
    folder.mkdir()
    firsts = np.cumsum([0, *sizes])
    slices = [slice(first, first + size) for first, size in zip(firsts, sizes)]
    parts = [_sharded.write(folder, i, x[rows], y[rows], None, estimator.normalize, 1) for i, rows in enumerate(slices)]
    expected = type(estimator)(**estimator.get_params()).fit(x, y)
    _sharded.fit(estimator, folder, parts)
    return expected


@pytest.mark.parametrize("sizes", [[300], [100, 100, 100], [3, 17, 40, 40, 100, 80, 20]], ids=str)
def test_shards_are_searched_by_actors(cluster, blobs, table, tmp_path, monkeypatch, sizes):
    x, y = blobs[0].copy(), blobs[1]
    # Equal rows have equal distances. Their order must not depend on the shards.
    x[::7] = x[3]
    # The search results of seven shards are merged in a tree of three levels.
    monkeypatch.setattr(nuq._scatter, "FAN_IN", 2)
    for i, estimator in enumerate([NuqClassifier(index="exact"), NuqRegressor(index="exact", normalize=True, bandwidth="scott")]):
        folder = tmp_path / f"{i}"
        expected = sharded_model(folder, x, y, sizes, estimator).predict_uncertainty(blobs[0])
        dataset = ray.data.from_arrow([table.slice(first, 43) for first in range(0, 300, 43)])
        scored = nuq.ray.score(dataset, folder, column="embedding", id_column="id", batch_size=16, concurrency=1, num_cpus=0.5)
        check(scored, expected)
    assert scored.columns() == ["id", "source", *expected]


def test_a_sharded_model_is_read_from_an_object_store(cluster, blobs, table, tmp_path):
    """The test uses an address with ``local://``: it takes the same code path as the address of an object store, and all processes can read
    its files. An in-memory file system of this process could not be read by the workers."""
    expected = sharded_model(tmp_path / "m", *blobs, [100, 100, 100], NuqClassifier(index="exact"))
    uri = "local://" + str(tmp_path / "m")
    scored = nuq.ray.score(ray.data.from_arrow(table), uri, column="embedding", id_column="id")
    check(scored, expected.predict_uncertainty(blobs[0]))
    expected.save(tmp_path / "model.nuq")
    scored = nuq.ray.score(ray.data.from_arrow(table), "local://" + str(tmp_path / "model.nuq"), column="embedding", id_column="id")
    check(scored, expected.predict_uncertainty(blobs[0]))
    with pytest.raises(InvalidParameterError, match="a folder that all of them share"):
        nuq.ray.fit(ray.data.from_arrow(table), "s3://bucket/m", NuqClassifier(), column="embedding", y_column="source")


def test_a_killed_actor_that_searches_shards_is_replaced(cluster, blobs, table, tmp_path):
    expected = sharded_model(tmp_path / "m", *blobs, [100, 100, 100], NuqClassifier(index="exact")).predict_uncertainty(blobs[0])
    dataset = ray.data.from_arrow([table.slice(first, 10) for first in range(0, 300, 10)])
    scored = nuq.ray.score(dataset, tmp_path / "m", column="embedding", id_column="id", batch_size=10, concurrency=1)
    killed, batches = [], []
    for batch in scored.iter_batches(batch_size=None, batch_format="pyarrow", prefetch_batches=0):
        batches.append(batch)
        if not killed:
            killed = processes(cluster, b"NuqShards")[:1]
            for pid in killed:
                os.kill(pid, signal.SIGKILL)
    assert killed, "no actor was running"
    frame = pa.concat_tables(batches).to_pandas().sort_values("id")
    assert frame["id"].tolist() == list(range(1000, 1300))
    np.testing.assert_array_equal(frame["total"].to_numpy(), expected.total)


def train_table(x: np.ndarray, y: np.ndarray, weights: np.ndarray):
    """Training rows for the tests of fits."""
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(x.ravel()), x.shape[1])
    return pa.table({"id": np.arange(len(x)), "embedding": vectors, "class": [f"class {i}" for i in y], "target": y + 0.5, "weight": weights})


@pytest.mark.parametrize("sizes", [[300], [100, 100, 100], [3, 0, 57, 40, 100, 80, 20]], ids=str)
def test_a_fit_equals_the_fit_of_one_machine(cluster, blobs, tmp_path, sizes):
    x, y = blobs[0].copy(), blobs[1]
    # Equal rows have equal distances. Their order must not depend on the shards.
    x[::7] = x[3]
    weights = np.where(np.arange(300) % 2, 2.0, 0.5)
    table = train_table(x, y, weights)
    firsts = np.cumsum([0, *sizes])
    dataset = ray.data.from_arrow([table.slice(first, size) for first, size in zip(firsts, sizes)])
    for i, (estimator, name, weight) in enumerate([
        (NuqClassifier(index="exact", n_neighbors=8), "class", None),
        (NuqClassifier(index="exact", bandwidth="scott", density="gmm", normalize=True), "class", "weight"),
        (NuqRegressor(index="exact"), "target", "weight"),
    ]):
        folder = tmp_path / f"{i}"
        expected = type(estimator)(**estimator.get_params())
        expected.fit(x, table[name].to_numpy(zero_copy_only=False), sample_weight=None if weight is None else weights)
        fitted = nuq.ray.fit(dataset, folder, estimator, column="embedding", y_column=name, weight_column=weight, id_column="id")
        assert fitted is estimator
        for model in (fitted, nuq.load(folder)):
            for column, values in expected.predict_uncertainty(x + 0.1).items():
                np.testing.assert_array_equal(model.predict_uncertainty(x + 0.1)[column], values)
        fitted.save(tmp_path / "one.nuq")
        expected.save(tmp_path / "expected.nuq")
        assert (tmp_path / "one.nuq").read_bytes() == (tmp_path / "expected.nuq").read_bytes()


def test_a_fit_divides_the_rows_into_shards(cluster, blobs, tmp_path):
    x, y = blobs
    dataset = ray.data.from_arrow(train_table(x, y, np.ones(300)))
    model = nuq.ray.fit(dataset, tmp_path / "m", NuqClassifier(index="exact"), column="embedding", y_column="class", shards=7)
    assert len(list((tmp_path / "m").glob("rows-*.nuq"))) == 7
    expected = NuqClassifier(index="exact").fit(x, [f"class {i}" for i in y])
    np.testing.assert_array_equal(model.predict_proba(x), expected.predict_proba(x))


def test_a_killed_worker_of_a_fit_is_replaced(cluster, blobs, tmp_path):
    x, y = blobs
    died = tmp_path / "died"

    def kill_once(batch):
        if not died.exists() and 150 in batch["id"].to_pylist():
            died.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return batch

    table = train_table(x, y, np.ones(300))
    dataset = ray.data.from_arrow([table.slice(first, 60) for first in range(0, 300, 60)])
    dataset = dataset.map_batches(kill_once, batch_format="pyarrow", batch_size=None)
    model = nuq.ray.fit(dataset, tmp_path / "m", NuqClassifier(index="exact"), column="embedding", y_column="class")
    assert died.exists()
    expected = NuqClassifier(index="exact").fit(x, [f"class {i}" for i in y])
    np.testing.assert_array_equal(model.predict_proba(x), expected.predict_proba(x))


def test_invalid_arguments_of_a_fit_are_errors(cluster, blobs, tmp_path):
    x, y = blobs
    table = train_table(x, y, np.ones(300))
    dataset = ray.data.from_arrow(table)
    options = {"column": "embedding", "y_column": "class"}
    with pytest.raises(ParameterTypeError, match="dataset is of the type Table"):
        nuq.ray.fit(table, tmp_path, NuqClassifier(), **options)
    with pytest.raises(ParameterTypeError, match="estimator is of the type str"):
        nuq.ray.fit(dataset, tmp_path, "classifier", **options)
    with pytest.raises(InvalidParameterError, match="shards are searched exactly"):
        nuq.ray.fit(dataset, tmp_path, NuqClassifier(index="hnsw"), **options)
    with pytest.raises(NuqError, match="cannot be created"):
        nuq.ray.fit(dataset, tmp_path / "none" / "m", NuqClassifier(), **options)
    with pytest.raises(UnknownNameError, match="there is no column 'other'"):
        nuq.ray.fit(dataset, tmp_path, NuqClassifier(), column="embedding", y_column="other")
    assert not (tmp_path / "manifest.nuq").exists()
