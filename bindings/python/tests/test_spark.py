"""Scoring and fitting with a real Spark: a driver and workers on this machine."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

import nuq
import nuq._scatter
from nuq import NuqClassifier, NuqRegressor, _sharded
from nuq.errors import InvalidParameterError, MissingFileError, NotFittedError, NuqError, ParameterTypeError, UnknownNameError

pytest.importorskip("pyspark")
pytest.importorskip("pandas")


@pytest.fixture(scope="module")
def spark():
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    # A task that fails is tried up to four times, as in a cluster.
    builder = SparkSession.builder.master("local[2,4]").config("spark.ui.enabled", "false").config("spark.driver.memory", "1g")
    builder = builder.config("spark.driver.host", "127.0.0.1").config("spark.sql.execution.arrow.maxRecordsPerBatch", "16")
    spark = builder.config("spark.sql.shuffle.partitions", "2").getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    yield spark
    spark.stop()


@pytest.fixture(scope="module")
def frame(spark, blobs):
    rows = [(1000 + i, row.tolist(), f"file {i}") for i, row in enumerate(blobs[0])]
    return spark.createDataFrame(rows, "id bigint, embedding array<float>, source string").repartition(5)


def check(scored, expected) -> None:
    """Compare a scored data frame with the results that were computed without Spark, bit for bit."""
    frame = scored.toPandas().sort_values("id").reset_index(drop=True)
    np.testing.assert_array_equal(frame["id"], np.arange(1000, 1300))
    for name in expected:
        np.testing.assert_array_equal(frame[name].to_numpy(), expected[name])


@pytest.mark.parametrize("estimator", [NuqClassifier(), NuqRegressor(), NuqClassifier(normalize=True)], ids=repr)
def test_scores_equal_the_scores_of_one_machine(frame, blobs, tmp_path, estimator):
    x, y = blobs
    model = estimator.fit(x, y)
    model.save(tmp_path / "model.nuq")
    expected = model.predict_uncertainty(x)
    for source in (model, tmp_path / "model.nuq", str(tmp_path / "model.nuq")):
        scored = nuq.spark.score(frame, source, column="embedding", id_column="id")
        check(scored, expected)
    assert scored.columns == ["id", "source", *expected]
    # Another model with the same file name is sent to the workers again.
    other = type(model)().fit(x + 1, y)
    other.save(tmp_path / "model.nuq")
    check(nuq.spark.score(frame, tmp_path / "model.nuq", column="embedding"), other.predict_uncertainty(x))


def test_options_threshold_and_keep_columns_one_column_per_coordinate_and_other_label_types_are_supported(spark, frame, blobs):
    x, y = blobs
    model = NuqClassifier().fit(x, np.array(["first", "second", "third"])[y])
    model.calibrate(x[::2] + np.float32(0.01), coverage=0.8, name="guard")
    expected = model.predict_uncertainty(x)
    scored = nuq.spark.score(frame, model, column="embedding", id_column="id", keep_columns=[], threshold="guard")
    check(scored, {**dict(expected.items()), "accept": model.accept(x, "guard")})
    assert scored.columns == ["id", *expected, "accept"]
    # Names with a dot or a backtick must be quoted in Spark.
    names = ["a.1", "b`", "c", "d", "e"]
    rows = [(1000 + i, *map(float, row)) for i, row in enumerate(x)]
    wide = spark.createDataFrame(rows, ["id", *names])
    check(nuq.spark.score(wide, model, column=names), expected)
    booleans = NuqClassifier().fit(x, y > 0)
    check(nuq.spark.score(frame, booleans, column="embedding"), booleans.predict_uncertainty(x))


def test_rows_that_cannot_be_scored_are_skipped_or_named_in_the_error(spark, blobs):
    x, y = blobs
    model = NuqClassifier().fit(x, y)
    rows = [row.tolist() for row in x[:10]]
    rows[3], rows[4], rows[5], rows[6] = None, [1.0, 2.0], [float("nan")] * 5, [1e300] * 5
    frame = spark.createDataFrame([(1000 + i, row) for i, row in enumerate(rows)], "id bigint, embedding array<double>").coalesce(1)
    skipped = nuq.spark.score(frame, model, column="embedding", on_bad_rows="skip").toPandas().sort_values("id")
    assert skipped["id"].tolist() == list(range(1000, 1010))
    assert skipped["total"].isna().tolist() == [3 <= i <= 6 for i in range(10)]
    np.testing.assert_array_equal(skipped["total"].dropna(), np.delete(model.predict_uncertainty(x[:10]).total, range(3, 7)))
    with pytest.raises(Exception) as caught:
        nuq.spark.score(frame, model, column="embedding", id_column="id").collect()
    for part in ("column 'embedding'", "id=1003 is null", "id=1004 has 2 values: expected 5", "id=1005", "id=1006", 'on_bad_rows="skip"'):
        assert part in str(caught.value)


def test_invalid_arguments_are_errors(frame, blobs, tmp_path):
    model = NuqClassifier().fit(*blobs)
    for error, arguments in (
        (ParameterTypeError, {"df": blobs[0]}),
        (ParameterTypeError, {"model": 5}),
        (NotFittedError, {"model": NuqClassifier()}),
        (ParameterTypeError, {"column": 5}),
        (InvalidParameterError, {"column": []}),
        (InvalidParameterError, {"on_bad_rows": "drop"}),
        (UnknownNameError, {"column": "vector"}),
        (UnknownNameError, {"id_column": "key"}),
        (UnknownNameError, {"keep_columns": ["key"]}),
        (MissingFileError, {"model": tmp_path / "missing.nuq"}),
        (NuqError, {"model": __file__}),
        (NuqError, {"threshold": "unknown"}),
        # `label` is also the name of a column of the results.
        (InvalidParameterError, {"df": frame.withColumnRenamed("source", "label")}),
    ):
        with pytest.raises(error):
            nuq.spark.score(**{"df": frame, "model": model, "column": "embedding", **arguments})
    with pytest.raises(Exception, match="expected lists of numbers"):
        nuq.spark.score(frame, model, column="source").collect()


def workers(pid: int) -> list[int]:
    """Ids of the worker processes. The Java process of Spark (``pid``) starts a Python daemon, and this daemon forks the workers."""

    def children(pid: int) -> list[int]:
        tasks = Path(f"/proc/{pid}/task")
        return [int(child) for task in tasks.iterdir() for child in (task / "children").read_text().split()]

    try:
        return [worker for daemon in children(pid) for worker in children(daemon)]
    except OSError:
        return []


def test_killed_workers_neither_lose_nor_duplicate_rows(spark, frame, blobs):
    model = NuqClassifier().fit(*blobs)

    def slow(batches):
        for batch in batches:
            time.sleep(0.2)
            yield batch

    slowed = frame.repartition(10).mapInArrow(slow, frame.schema)
    scored = nuq.spark.score(slowed, model, column="embedding", id_column="id")
    java = spark.sparkContext._gateway.proc.pid
    killed: list[int] = []
    ended = threading.Event()

    def kill() -> None:
        tracker = spark.sparkContext.statusTracker()
        while not killed and not ended.wait(0.05):
            stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
            if any(stage and stage.numTasks == 10 and stage.numCompletedTasks > 1 for stage in stages):
                for pid in workers(java):
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)
                        killed.append(pid)

    thread = threading.Thread(target=kill)
    thread.start()
    try:
        frame = scored.toPandas().sort_values("id")
    finally:
        ended.set()
        thread.join()
    assert killed, "no worker was running"
    assert frame["id"].tolist() == list(range(1000, 1300))
    np.testing.assert_array_equal(frame["total"].to_numpy(), model.predict_uncertainty(blobs[0]).total)


@pytest.mark.parametrize("sizes", [[300], [100, 100, 100], [3, 17, 40, 40, 100, 80, 20]], ids=str)
def test_shards_are_searched_by_tasks(spark, frame, blobs, tmp_path, monkeypatch, sizes):
    x, y = blobs
    # The search results of seven shards are merged in a tree of three levels. The 300 rows are in blocks of 16, the size of an Arrow batch.
    monkeypatch.setattr(nuq._scatter, "FAN_IN", 2)
    spark.conf.set("spark.sql.shuffle.partitions", "7")
    estimator = NuqClassifier(index="exact", normalize=True, bandwidth="scott")
    expected = type(estimator)(**estimator.get_params()).fit(x, y)
    firsts = np.cumsum([0, *sizes])
    slices = [slice(first, first + size) for first, size in zip(firsts, sizes)]
    parts = [_sharded.write(tmp_path, i, x[rows], y[rows], None, True, 1) for i, rows in enumerate(slices)]
    _sharded.fit(estimator, tmp_path, parts)
    try:
        scored = nuq.spark.score(frame, tmp_path, column="embedding", id_column="id")
        check(scored, expected.predict_uncertainty(x))
        assert scored.columns == ["id", "source", *expected.predict_uncertainty(x)]
        # Some rows cannot be scored. Some blocks contain only such rows.
        bad = frame.selectExpr("id", "CASE WHEN id < 1100 THEN NULL ELSE embedding END AS embedding").coalesce(1).orderBy("id")
        skipped = nuq.spark.score(bad, f"file://{tmp_path}", column="embedding", id_column="id", on_bad_rows="skip").toPandas().sort_values("id")
        np.testing.assert_array_equal(skipped["total"].to_numpy()[100:], expected.predict_uncertainty(x[100:]).total)
        assert skipped["id"].tolist() == list(range(1000, 1300)) and skipped["total"].isna().sum() == 100
        with pytest.raises(Exception, match="id=1000 is null"):
            nuq.spark.score(bad, tmp_path, column="embedding", id_column="id").collect()
    finally:
        spark.conf.set("spark.sql.shuffle.partitions", "2")


def train_frame(spark, x: np.ndarray, y: np.ndarray, weights: np.ndarray, partitions: int):
    """Training rows for the tests of fits, in the order of their ids."""
    rows = [(i, row.tolist(), f"class {y[i]}", float(y[i]) + 0.5, float(weights[i])) for i, row in enumerate(x)]
    schema = "id bigint, embedding array<float>, class string, target double, weight double"
    return spark.createDataFrame(spark.sparkContext.parallelize(rows, partitions), schema)


@pytest.mark.parametrize("partitions", [1, 3, 7, 20])
def test_a_fit_equals_the_fit_of_one_machine(spark, blobs, tmp_path, partitions):
    x, y = blobs[0].copy(), blobs[1]
    x[::7] = x[3]
    weights = np.where(np.arange(300) % 2, 2.0, 0.5)
    # With 20 partitions, one partition is empty, and every partition has fewer rows than the model has neighbors.
    kept = (np.arange(300) < 100) | (np.arange(300) >= 130)
    frame = train_frame(spark, x, y, weights, partitions).filter("id < 100 or id >= 130")
    x, y, weights = x[kept], y[kept], weights[kept]
    labels = np.array([f"class {i}" for i in y])
    for i, (estimator, name, truth, weight) in enumerate([
        (NuqClassifier(index="exact", n_neighbors=30), "class", labels, None),
        (NuqRegressor(index="exact", normalize=True), "target", y + 0.5, "weight"),
    ]):
        folder = tmp_path / f"{i}"
        expected = type(estimator)(**estimator.get_params()).fit(x, truth, sample_weight=None if weight is None else weights)
        fitted = nuq.spark.fit(frame, folder, estimator, column="embedding", y_column=name, weight_column=weight, id_column="id")
        for model in (fitted, nuq.load(folder)):
            for column, values in expected.predict_uncertainty(x + 0.1).items():
                np.testing.assert_array_equal(model.predict_uncertainty(x + 0.1)[column], values)
        fitted.save(tmp_path / "one.nuq")
        expected.save(tmp_path / "expected.nuq")
        assert (tmp_path / "one.nuq").read_bytes() == (tmp_path / "expected.nuq").read_bytes()


def test_invalid_arguments_of_a_fit_are_errors(spark, blobs, tmp_path):
    x, y = blobs
    frame = train_frame(spark, x, y, np.ones(300), 2)
    with pytest.raises(ParameterTypeError, match="df is of the type list"):
        nuq.spark.fit([], tmp_path, NuqClassifier(), column="embedding", y_column="class")
    with pytest.raises(UnknownNameError, match="there is no column 'other'"):
        nuq.spark.fit(frame, tmp_path, NuqClassifier(), column="embedding", y_column="other")
    assert not list(tmp_path.iterdir())
