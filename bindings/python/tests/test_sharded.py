"""Models in shards (files with a part of the training rows each): fits by several workers, and the folder of a sharded model."""

import os
import subprocess
import sys
import warnings

import numpy as np
import pytest

import nuq
from nuq import _shard_tables, _sharded
from nuq.errors import DamagedFileError, DimensionMismatchError, EmptyError, FixedRowsError, InvalidInputError, NuqError

SIZES = [[300], [100, 100, 100], [40, 0, 3, 57, 100, 80, 20]]


def data(seed=0, n=300):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 3, n)
    x = (rng.normal(size=(n, 6)) + 2.0 * y[:, None]).astype(np.float32)
    # Equal rows have equal distances. Their order must not depend on the shards.
    x[::7] = x[3]
    return x, y


def parts(folder, x, y, sizes, weights=None, normalize=False):
    """Write shards of these sizes, and return them in a random order, as they may arrive from workers."""
    ends = np.cumsum(sizes)
    written = [
        _sharded.write(
            folder, i, x[end - size : end], y[end - size : end], None if weights is None else weights[end - size : end], normalize, 1
        )
        for i, (size, end) in enumerate(zip(sizes, ends))
        if size
    ]
    return np.random.default_rng(1).permutation(np.array(written, dtype=object)).tolist()


def in_any_order(folder):
    """A search whose results arrive in another order than the files."""

    def search_all(files, queries, k, scale):
        for i in reversed(range(len(files))):
            yield i, _sharded.search(folder, files[i], queries, k, scale, 1)

    return search_all


def as_parts(listed):
    return [_sharded.Part(*part) for part in listed]


@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize("by_workers", [False, True])
def test_sharded_models_equal_models_of_one_machine(tmp_path, sizes, by_workers):
    x, y = data()
    queries = data(5, 40)[0]
    weights = np.where(np.arange(300) % 2, 2.0, 0.5)
    for i, (estimator, truth, weight) in enumerate([
        (nuq.NuqClassifier(index="exact", n_neighbors=8), y, None),
        (nuq.NuqClassifier(index="exact", density="gmm", normalize=True), y.astype(str), weights),
        (nuq.NuqClassifier(index="exact", bandwidth="silverman", density="kde"), y, None),
        (nuq.NuqRegressor(index="exact"), y.astype(float), weights),
    ]):
        folder = tmp_path / f"{i}"
        folder.mkdir()
        written = as_parts(parts(folder, x, truth, sizes, weight, estimator.normalize))
        search_all = in_any_order(folder) if by_workers else None
        expected = type(estimator)(**estimator.get_params()).fit(x, truth, sample_weight=weight)
        fitted = _sharded.fit(estimator, folder, written, search_all)
        for model in (fitted, nuq.load(folder)):
            for name, column in expected.predict_uncertainty(queries).items():
                np.testing.assert_array_equal(model.predict_uncertainty(queries)[name], column, strict=True)
        fitted.save(tmp_path / "one.nuq")
        expected.save(tmp_path / "expected.nuq")
        assert (tmp_path / "one.nuq").read_bytes() == (tmp_path / "expected.nuq").read_bytes()


def test_a_function_that_searches_shards_may_call_nuq_with_a_single_thread(tmp_path):
    """The fit occupies the only thread of its pool while it waits for the function."""
    code = """if True:
        import pathlib, sys
        import numpy as np
        import nuq
        from nuq import _sharded
        folder = pathlib.Path(sys.argv[1])
        x, y = np.random.default_rng(0).normal(size=(60, 3)).astype(np.float32), np.arange(60) % 2
        part = _sharded.write(folder, 0, x, y, None, False, None)
        search_all = lambda files, queries, k, scale: [(0, _sharded.search(folder, files[0], queries, k, scale, None))]
        model = _sharded.fit(nuq.NuqClassifier(index="exact"), folder, [part], search_all)
        print(len(model.training_ids_))
    """
    environment = {**os.environ, "RAYON_NUM_THREADS": "1"}
    run = subprocess.run([sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, env=environment, timeout=300)
    assert run.returncode == 0 and run.stdout == "60\n", run.stderr


def test_the_rows_of_a_sharded_model_cannot_change_and_its_folder_is_checked(tmp_path):
    x, y = data()
    model = _sharded.fit(nuq.NuqClassifier(), tmp_path, as_parts(parts(tmp_path, x, y, SIZES[1])))
    with pytest.raises(FixedRowsError, match="the rows of a sharded model are fixed"):
        model.partial_fit(x, y)
    with pytest.raises(FixedRowsError):
        model.remove([1])
    # model.save(folder) writes the manifest again. A copy of the model that is saved as one file can be changed.
    model.save(tmp_path)
    model.save(tmp_path / "one.nuq")
    nuq.load(tmp_path / "one.nuq").partial_fit(x[:2], y[:2])
    shard = sorted(tmp_path.glob("rows-*"))[1]
    shard.rename(tmp_path / "elsewhere")
    with pytest.raises(DamagedFileError, match="the file is missing"):
        nuq.load(tmp_path)
    (tmp_path / "manifest.nuq").unlink()
    with pytest.raises(NuqError, match="it is a folder without manifest.nuq"):
        nuq.load(tmp_path)


def test_a_threshold_of_another_fit_is_reported(tmp_path):
    x, y = data()
    estimator = nuq.NuqClassifier()

    def fit(name, rows):
        folder = tmp_path / name
        folder.mkdir()
        _sharded.fit(estimator, folder, as_parts(parts(folder, rows, y, SIZES[1])))

    fit("first", x)
    threshold = estimator.calibrate(data(5, 100)[0], coverage=0.9)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        estimator.accept(x, threshold)
    fit("second", x + np.float32(0.5))
    with pytest.warns(UserWarning, match="was chosen for another model"):
        estimator.accept(x, threshold)


def test_errors_of_workers_and_invalid_lists_of_shards_are_raised(tmp_path):
    x, y = data()
    written = as_parts(parts(tmp_path, x, y, SIZES[1]))

    def failing(files, queries, k, scale):
        raise RuntimeError("a worker was lost")

    with pytest.raises(NuqError, match="the shards could not be searched: RuntimeError: a worker was lost") as caught:
        _sharded.fit(nuq.NuqClassifier(), tmp_path, written, failing)
    assert not isinstance(caught.value, ValueError)
    with pytest.raises(NuqError, match="has no result"):
        _sharded.fit(nuq.NuqClassifier(), tmp_path, written, lambda *_: [])
    with pytest.raises(EmptyError):
        _sharded.fit(nuq.NuqClassifier(), tmp_path, [])
    with pytest.raises(InvalidInputError, match="two shards have the same number"):
        _sharded.fit(nuq.NuqClassifier(), tmp_path, [written[0], written[0]])
    assert not (tmp_path / "manifest.nuq").exists()


def test_empty_lists_in_a_table_are_errors(tmp_path):
    pa = pytest.importorskip("pyarrow")
    columns = _shard_tables.Columns.checked("embedding", "label", None, None)

    def write(lists):
        vectors = pa.array(lists, type=pa.list_(pa.float32()))
        return _shard_tables.write_table(tmp_path, 0, pa.table({"embedding": vectors, "label": range(len(lists))}), columns, False, 1)

    # The expected length is that of the first list with values.
    with pytest.raises(DimensionMismatchError, match="row 0 of its shard has 0 values: expected 2.*there are 1 of them"):
        write([[], [1.0, 2.0], [3.0, 4.0]])
    with pytest.raises(EmptyError, match="the column 'embedding' has no values"):
        write([[], None])
    assert write([[1.0, 2.0], [3.0, 4.0]]).file[1] == 2


def test_a_killed_worker_leaves_no_incomplete_shard(tmp_path):
    """A file with the name of a shard is always complete."""
    # The time is counted from the end of the first write: at least one shard is complete, however slow the machine is.
    code = (
        "import os, sys, threading, numpy as np; from pathlib import Path; from nuq import _nuq\n"
        "def write(): _nuq.write_shard(Path(sys.argv[1]), 0, np.random.rand(20000, 64).astype('f'), False, 1)\n"
        "write()\n"
        "threading.Timer(0.05, os._exit, (9,)).start()\n"
        "while True: write()"
    )
    run = subprocess.run([sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=False)
    assert run.returncode == 9, run.stderr
    shards = list(tmp_path.glob("rows-*.nuq"))
    assert shards
    for path in shards:
        assert len(_nuq_search(tmp_path, path.name)[0]) == 1


def _nuq_search(folder, name):
    from nuq import _nuq

    return _nuq.Shards(folder, [(name, 20000)], [0], None).search(np.zeros((1, 64), np.float32), 1, False, 1)
