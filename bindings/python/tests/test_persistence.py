"""Model files, pickle, joblib, copies and other processes."""

from __future__ import annotations

import copy
import errno
import multiprocessing
import os
import pickle
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np
import pytest

import nuq
from nuq import NuqClassifier, NuqRegressor, _guard_files


def assert_same(first, second, x):
    one, other = first.predict_uncertainty(x), second.predict_uncertainty(x)
    for name in one:
        np.testing.assert_array_equal(one[name], other[name])


@pytest.mark.parametrize(
    "estimator, changes",
    [
        (NuqClassifier, {}),
        (NuqClassifier, {"index": "hnsw"}),
        (NuqClassifier, {"density": "gmm"}),
        (NuqClassifier, {"bandwidth": "adaptive"}),
        (NuqRegressor, {}),
    ],
    ids=str,
)
@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_pickles_keep_parameters_and_predictions(estimator, changes, blobs, protocol):
    model, (x, y) = estimator(**changes), blobs
    unfitted = pickle.loads(pickle.dumps(model, protocol))
    assert unfitted.get_params() == model.get_params() and not hasattr(unfitted, "bandwidth_")
    model.fit(x, y)
    restored = pickle.loads(pickle.dumps(model, protocol))
    assert_same(model, restored, x)
    assert restored.get_params() == model.get_params()
    assert np.array_equal(restored.bandwidth_, model.bandwidth_)


def test_joblib_keeps_the_predictions(blobs, tmp_path):
    joblib = pytest.importorskip("joblib")
    model = NuqClassifier().fit(*blobs)
    joblib.dump(model, tmp_path / "model.joblib")
    assert_same(model, joblib.load(tmp_path / "model.joblib"), blobs[0])


def test_a_copy_is_independent_of_the_original(blobs):
    model = NuqClassifier().fit(*blobs)
    copied = copy.deepcopy(model)
    model.partial_fit(blobs[0][:1], [9])
    assert 9 in model.classes_ and 9 not in copied.classes_
    assert_same(copied, NuqClassifier().fit(*blobs), blobs[0])


@pytest.mark.parametrize("n_jobs", [0, 1.5, "all"])
def test_an_estimator_with_an_invalid_n_jobs_can_be_copied(blobs, n_jobs):
    model = NuqClassifier().fit(*blobs).set_params(n_jobs=n_jobs)
    for copied in (copy.copy(model), copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert copied.n_jobs == n_jobs
        with pytest.raises(nuq.errors.InvalidParameterError, match="n_jobs="):
            copied.predict(blobs[0])
        assert_same(copied.set_params(n_jobs=None), NuqClassifier().fit(*blobs), blobs[0])


@pytest.mark.parametrize("method", multiprocessing.get_all_start_methods())
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # Python warns about a fork while threads run. This test needs such forks.
def test_process_pools_give_the_same_predictions(blobs, method):
    x, y = blobs
    model = NuqClassifier().fit(x, y)
    expected = model.predict(x)  # starts the threads of this process
    before = set(multiprocessing.active_children())
    pool = ProcessPoolExecutor(2, mp_context=multiprocessing.get_context(method))
    try:
        futures = [pool.submit(model.predict, x) for _ in range(4)]
        for future in futures:
            np.testing.assert_array_equal(future.result(timeout=600), expected)
        unfitted = pool.submit(NuqClassifier().predict, x)
        with pytest.raises(nuq.errors.NotFittedError):
            unfitted.result(timeout=600)
    finally:
        # A child that hangs must not block the test.
        for child in set(multiprocessing.active_children()) - before:
            child.kill()
        pool.shutdown(cancel_futures=True)


def test_pickles_and_copies_of_results_and_thresholds_are_equal(fitted, blobs):
    result = fitted.predict_uncertainty(blobs[0])
    restored = pickle.loads(pickle.dumps(result))
    assert list(restored) == list(result)
    np.testing.assert_array_equal(restored.total, result.total)
    threshold = fitted.calibrate(blobs[0], coverage=0.9)
    restored = pickle.loads(pickle.dumps(threshold))
    assert restored == threshold and hash(restored) == hash(threshold) and restored.statement == threshold.statement
    certified = fitted.calibrate(*blobs, risk=0.2)
    assert copy.deepcopy(certified) == certified != threshold


def test_scores_of_held_out_rows_are_saved_with_a_named_threshold(blobs, tmp_path):
    model = NuqClassifier().fit(*blobs)
    model.save(tmp_path / "without.nuq")
    assert b"held_out_scores" not in (tmp_path / "without.nuq").read_bytes()
    model.calibrate(blobs[0], coverage=0.9, name="main")
    model.save(tmp_path / "with.nuq")
    scores = np.sort(model.predict_uncertainty(blobs[0]).log_total)
    assert scores.astype("<f8").tobytes() in (tmp_path / "with.nuq").read_bytes()
    nuq.load(tmp_path / "with.nuq").save(tmp_path / "again.nuq")
    assert (tmp_path / "again.nuq").read_bytes() == (tmp_path / "with.nuq").read_bytes()


def test_an_opened_file_has_the_parameters_of_the_model(blobs, tmp_path):
    x, y = blobs
    model = NuqClassifier(n_neighbors=9, kernel="student", bandwidth=0.7, prior_weight=0.5, normalize=True).fit(x, y)
    model.save(tmp_path / "model.nuq")
    opened = nuq.load(str(tmp_path / "model.nuq"))
    assert isinstance(opened, NuqClassifier)
    for name in ("n_neighbors", "kernel", "bandwidth", "prior_weight", "normalize"):
        assert getattr(opened, name) == getattr(model, name), name
    assert_same(model, opened, x)
    NuqRegressor().fit(x, y).save(tmp_path / "model.nuq")
    assert isinstance(nuq.load(tmp_path / "model.nuq"), NuqRegressor)


@pytest.mark.parametrize(
    "model",
    [
        NuqClassifier(),
        NuqClassifier(bandwidth="adaptive"),
        NuqClassifier(bandwidth="silverman", index="hnsw"),
        NuqClassifier(density="gmm", covariance="tied", shrinkage=0.1),
        NuqClassifier.paper(),
        NuqRegressor(),
    ],
    ids=repr,
)
def test_parameters_of_an_opened_file_reproduce_the_fit(blobs, tmp_path, model):
    x, y = blobs
    model.fit(x, y).save(tmp_path / "model.nuq")
    opened = nuq.load(tmp_path / "model.nuq")
    assert_same(model, type(model)(**opened.get_params()).fit(x, y), x)


def test_invalid_files_are_errors(fitted, tmp_path):
    with pytest.raises(nuq.errors.MissingFileError) as caught:
        nuq.load(tmp_path / "none.nuq")
    assert isinstance(caught.value, FileNotFoundError)
    (tmp_path / "other.nuq").write_bytes(b"something else")
    with pytest.raises(nuq.errors.DamagedFileError):
        nuq.load(tmp_path / "other.nuq")
    fitted.save(tmp_path / "model.nuq")
    content = (tmp_path / "model.nuq").read_bytes()
    (tmp_path / "cut.nuq").write_bytes(content[: len(content) // 2])
    with pytest.raises(nuq.errors.DamagedFileError):
        nuq.load(tmp_path / "cut.nuq").predict(np.zeros((1, 5)))
    with pytest.raises(nuq.errors.FileError):
        fitted.save(tmp_path / "no folder" / "model.nuq")


def test_a_file_that_is_changed_in_place_is_an_error_and_not_a_wrong_prediction(fitted, tmp_path):
    path, rows = tmp_path / "model.nuq", np.zeros((1, fitted.n_features_in_))
    fitted.save(path)
    opened, changed = nuq.load(path), nuq.load(path)
    assert_same(fitted, changed, rows)
    changed.partial_fit(rows, fitted.classes_[:1])
    with open(path, "r+b") as file:
        file.truncate(path.stat().st_size - 1)
    with pytest.raises(nuq.errors.FileError, match="was changed while it was in use"):
        opened.predict(rows)
    with pytest.raises(nuq.errors.FileError, match="was changed while it was in use"):
        opened.save(tmp_path / "copy.nuq")
    assert not (tmp_path / "copy.nuq").exists()
    # After rows were added, the rows are in memory.
    changed.predict(rows)
    # Rows of a changed file are not copied into memory.
    for use in (lambda: opened.partial_fit(rows, fitted.classes_[:1]), lambda: opened.predict(rows)):
        with pytest.raises(nuq.errors.FileError, match="was changed while it was in use"):
            use()


def test_a_full_temporary_folder_is_an_error_that_names_it(fitted, monkeypatch):
    content = pickle.dumps(fitted)

    def full(path, content):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(nuq.errors.FileError, match="No space left on device.*TMPDIR"):
        pickle.loads(content)


def test_the_whole_file_is_verified_on_request(fitted, tmp_path):
    path = tmp_path / "model.nuq"
    fitted.save(path)
    assert_same(fitted, nuq.load(path, verify=True), np.zeros((1, fitted.n_features_in_)))
    content = bytearray(path.read_bytes())
    # The rows are the last section; they are verified before their first use.
    content[-100] ^= 1
    path.write_bytes(content)
    opened = nuq.load(path)
    with pytest.raises(nuq.errors.DamagedFileError, match="index.rows"):
        nuq.load(path, verify=True)
    with pytest.raises(nuq.errors.DamagedFileError, match="index.rows"):
        opened.predict(np.zeros((1, fitted.n_features_in_)))


@pytest.mark.parametrize("labels", [np.array([True, False]), np.array([True, False], dtype=object)], ids=["bool", "object"])
def test_boolean_labels_stay_booleans(blobs, tmp_path, labels):
    x, y = blobs
    y = labels[(y == 1).astype(int)]
    model = NuqClassifier().fit(x, y)
    model.save(tmp_path / "model.nuq")
    for restored in (model, nuq.load(tmp_path / "model.nuq"), pickle.loads(pickle.dumps(model))):
        assert restored.classes_.tolist() == [False, True]
        assert all(type(label) is bool for label in restored.classes_.tolist())
        assert restored.predict(x).tolist() == model.predict(x).tolist()
    opened = nuq.load(tmp_path / "model.nuq")
    assert opened.classes_.dtype == bool and opened.predict(x).dtype == bool
    # The integers 0 and 1 are the same labels as False and True.
    assert opened.score(x, y.astype(int)) == opened.score(x, y) > 0.9
    assert opened.partial_fit(x[:2], [0, 1]).classes_.tolist() == [False, True]
    assert nuq.evaluate(opened, x, y.astype(int), resamples=100).accuracy.value > 0.9
    with pytest.raises(nuq.errors.InvalidInputError, match="booleans"):
        opened.partial_fit(x[:1], [2])


def test_a_model_with_the_labels_0_and_1_accepts_booleans(blobs):
    x, y = blobs
    y = (y == 1).astype(int)
    model = NuqClassifier().fit(x, y).partial_fit(x[:2], [True, False])
    assert model.classes_.tolist() == [0, 1] and model.classes_.dtype == np.int64
    assert model.score(x, y == 1) > 0.9


@pytest.mark.parametrize("dtype", ["int8", "uint64", "float32", "S3", "U3", "object"])
def test_the_type_of_labels_is_kept(blobs, dtype):
    x, y = blobs
    labels = y.astype(dtype)
    model = NuqClassifier().fit(x, labels)
    restored = pickle.loads(pickle.dumps(model))
    for one in (model, restored, model.partial_fit(x[:1] + 50, np.array([7]).astype(dtype))):
        assert one.classes_.dtype.kind == labels.dtype.kind
        assert one.predict(x[:1]).dtype.kind == labels.dtype.kind


def test_the_command_line_writes_boolean_labels_as_words(binary, blobs, tmp_path):
    import subprocess

    x, y = blobs
    np.savez(tmp_path / "x.npz", x=x, y=y == 1)
    np.savetxt(tmp_path / "y.csv", np.where(y == 1, "True", "False"), fmt="%s")
    NuqClassifier().fit(x, y == 1).save(tmp_path / "python.nuq")
    for command in (
        "fit --embeddings x.npz:x --labels x.npz:y --out cli.nuq",
        "score --model cli.nuq --embeddings x.npz:x --out s.csv --output-neighbors 1",
        "score --model python.nuq --embeddings x.npz:x --out s.npz --output-neighbors 2",
        "evaluate --model python.nuq --test x.npz:x --labels y.csv --header no --resamples 100",
    ):
        done = subprocess.run([binary, *command.split()], capture_output=True, text=True, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
    assert (tmp_path / "cli.nuq").read_bytes() == (tmp_path / "python.nuq").read_bytes()
    assert {line.split(",")[1] for line in (tmp_path / "s.csv").read_text().splitlines()[1:]} == {"true", "false"}
    scored = np.load(tmp_path / "s.npz")
    assert scored["label"].dtype == bool and scored["neighbor_labels"].dtype == bool
    assert scored["neighbor_labels"].shape == (300, 2)


class Harmful:
    """Creates a file when it is unpickled."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return (open, (str(self.path), "w"))


def test_opening_files_unpickles_nothing(tmp_path):
    """Model files, array files and the folders of guards contain only data, so opening them never unpickles an object. Objects are unpickled
    only by ``pickle`` and by packages that use ``pickle``."""
    created = tmp_path / "created"
    content = pickle.dumps(Harmful(created))
    (tmp_path / "model.nuq").write_bytes(content)
    with pytest.raises(nuq.errors.DamagedFileError):
        nuq.load(tmp_path / "model.nuq")
    np.savez(tmp_path / "probe.npz", inputs=np.array([Harmful(created)], dtype=object))
    with pytest.raises(nuq.errors.DamagedFileError):
        _guard_files.read_arrays(tmp_path)
    assert not created.exists()
    # When the same pickle is loaded, the file is created. The check above is therefore meaningful.
    pickle.loads(content).close()
    assert created.exists()


@pytest.mark.skipif(os.name == "nt", reason="links need permissions")
def test_save_keeps_a_link_and_replaces_its_target(fitted, tmp_path):
    (tmp_path / "models").mkdir()
    link, target = tmp_path / "link.nuq", tmp_path / "models" / "a.nuq"
    link.symlink_to("models/a.nuq")
    fitted.save(link)
    assert link.is_symlink() and target.is_file() and not target.is_symlink()
    nuq.load(link)
    with pytest.raises(nuq.errors.FileError, match="folder"):
        fitted.save(tmp_path / "models")
