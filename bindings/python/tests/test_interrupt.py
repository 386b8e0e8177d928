"""A model is changed completely or not at all, at whatever point an interrupt arrives. Other threads never see a part of a change."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import nuq
from nuq import NuqClassifier, NuqRegressor, _remote

FOLDER = str(Path(nuq.__file__).parent)


def interrupted_at(line: int, call) -> bool:
    """Run ``call``, and raise KeyboardInterrupt when the package executes its ``line``-th line. Returns False if ``call`` ends before this
    line."""
    count = 0

    def trace(frame, event, _argument):
        nonlocal count
        if not frame.f_code.co_filename.startswith(FOLDER):
            return None
        if event in ("line", "return"):
            count += 1
            if count == line:
                raise KeyboardInterrupt
        return trace

    sys.settrace(trace)
    try:
        call()
    except KeyboardInterrupt:
        return True
    finally:
        sys.settrace(None)
    return False


def check(model, x, labels):
    """Check that the estimator and its model have the same classes and rows, and that the prediction for every training row is its label."""
    rows = model.n_samples_fit_
    classes = model.classes_.tolist()
    assert classes == model._model.classes()
    assert rows == len(labels) and set(classes) == set(labels)
    assert model.predict(x[:rows]).tolist() == labels
    assert model.predict_proba(x[:rows]).shape == (rows, len(classes))


@pytest.mark.parametrize("update", ["partial_fit", "remove"])
def test_an_interrupted_update_is_made_completely_or_not_at_all(update):
    x = 10 * np.arange(40, dtype=np.float32)[:, None] * np.ones((1, 2), dtype=np.float32)
    # The new label is the first of the sorted classes, so all class numbers change.
    y = ["m"] * 10 + ["z"] * 10 + ["a"] * 10
    line, outcomes = 1, set()
    while True:
        model = NuqClassifier(n_neighbors=1, bandwidth=1.0, density="kde", density_bandwidth=1.0, scale="ambient")
        if update == "partial_fit":
            model.fit(x[:20], y[:20])
            raised = interrupted_at(line, lambda: model.partial_fit(x[20:30], y[20:30]))
        else:
            model.fit(x[:30], y)
            raised = interrupted_at(line, lambda: model.remove(np.arange(20, 30)))
        assert model.n_samples_fit_ in (20, 30)
        outcomes.add(model.n_samples_fit_)
        check(model, x, y[: model.n_samples_fit_])
        if not raised:
            break
        line += 1
    assert line > 3 and outcomes == {20, 30}


def test_after_an_interrupted_update_a_guard_does_not_take_added_rows_for_rows_of_the_fit():
    x = 10 * np.arange(24, dtype=np.float32)[:, None] * np.ones((1, 2), dtype=np.float32)
    model = NuqClassifier(n_neighbors=1, bandwidth=1.0, density="kde", density_bandwidth=1.0, scale="ambient").fit(x[:20], [0, 1] * 10)
    model.calibrate(1.01 * x[1:20], coverage=0.9, measure="density", name="guard")
    guarded = nuq.Guard(lambda rows: rows, model)
    line, outcomes, raised = 1, set(), True
    while raised:
        # Two of the four new rows get the ids of the removed rows.
        model.fit(x[:20], [0, 1] * 10).remove([3, 5])
        raised = interrupted_at(line, lambda: model.partial_fit(x[20:], [0, 1, 0, 1]))
        np.testing.assert_array_equal(guarded.training_rows, np.delete(np.arange(20), [3, 5]))
        outcomes.add(model.n_samples_fit_)
        line += 1
    assert line > 3 and outcomes == {18, 22}


def test_an_interrupted_second_fit_is_made_completely_or_not_at_all():
    x = 10 * np.arange(40, dtype=np.float32)[:, None] * np.ones((1, 2), dtype=np.float32)
    before, after = ["b"] * 10 + ["c"] * 10, [7] * 20 + [9] * 20
    line = 1
    while True:
        model = NuqClassifier(n_neighbors=1, bandwidth=1.0, density="kde", density_bandwidth=1.0, scale="ambient").fit(x[:20], before)
        raised = interrupted_at(line, lambda: model.fit(x, after))
        check(model, x, before if model.n_samples_fit_ == 20 else after)
        if not raised:
            break
        line += 1
    assert model.n_samples_fit_ == 40


#: A program in which SIGINT arrives while an update waits for a query of another thread ("waiting"), or while the update runs ("running").
SIGNALED = """
import os, signal, sys, threading, time
import numpy as np
from nuq import NuqClassifier

what, delay = sys.argv[1], float(sys.argv[2])
signal.signal(signal.SIGINT, signal.default_int_handler)
rng = np.random.default_rng(0)
x = rng.normal(size=(30_000, 32)).astype(np.float32)
y = rng.integers(0, 5, len(x))
options = {"bandwidth": 1.0, "density": "kde", "density_bandwidth": 1.0, "scale": "ambient"}
model = NuqClassifier(index="exact" if what == "waiting" else "hnsw", **options).fit(x[:10_000], y[:10_000])
if what == "waiting":
    query = threading.Thread(target=lambda: model.predict(np.tile(x, (4, 1))))
    query.start()
    time.sleep(0.2)
threading.Timer(delay, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
try:
    model.partial_fit(x[10_000:], np.full(20_000, -1))
    time.sleep(60)
except KeyboardInterrupt:
    pass
rows = model.n_samples_fit_
assert rows in (10_000, 30_000), rows
assert model.classes_.tolist() == ([-1] if rows == 30_000 else []) + [0, 1, 2, 3, 4]
if what == "waiting":
    query.join()
time.sleep(0.5)
# The interrupted update does not take effect later.
assert model.n_samples_fit_ == rows
assert model.predict_proba(x[:10]).shape == (10, len(model.classes_))
print(rows)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no os.kill with SIGINT for one process")
@pytest.mark.parametrize("what, delay", [("waiting", 0.2), ("running", 0.05), ("running", 0.3)])
def test_after_a_signal_an_update_is_made_completely_or_not_at_all(what, delay):
    run = subprocess.run(
        [sys.executable, "-c", SIGNALED, what, str(delay)], capture_output=True, text=True, timeout=600
    )
    assert run.returncode == 0, run.stderr
    assert run.stdout.strip() in ("10000", "30000")


def test_labels_are_correct_while_another_thread_changes_the_classes(blobs):
    import threading

    x, y = blobs
    names = np.array(["m", "n", "o"])[y]
    model = NuqClassifier(bandwidth=1e-3, density="kde", density_bandwidth=1.0, scale="ambient").fit(x, names)
    stop = threading.Event()

    def change():
        while not stop.is_set():
            model.partial_fit(x[:1] + 100, ["a"])
            model.remove([300])

    thread = threading.Thread(target=change)
    thread.start()
    try:
        for _ in range(100):
            np.testing.assert_array_equal(model.predict(x), names)
    finally:
        stop.set()
        thread.join()


def test_an_interrupted_update_of_a_regressor_is_made_completely_or_not_at_all(blobs):
    x, _ = blobs
    model = NuqRegressor(bandwidth=0.8, density_bandwidth=0.5, scale="ambient").fit(x[:200], x[:200, 0])
    line = 1
    while interrupted_at(line, lambda: model.partial_fit(x[200:201], x[200:201, 0])):
        line += 1
        assert model.n_samples_fit_ == len(model._model.kneighbors(None, 1, None)[1])
    assert line > 3


@pytest.mark.parametrize("can_exchange", [True, False])
def test_an_interrupted_save_of_a_guard_leaves_the_previous_or_the_new_folder(blobs, tmp_path, monkeypatch, can_exchange):
    x, y = blobs
    if not can_exchange:
        monkeypatch.setattr("nuq._guard_files._exchange", lambda first, second: False)
    guards = [nuq.guard(lambda rows: rows, [(x, y)], predictor="nuq", random_state=seed) for seed in (0, 1)]
    folder = tmp_path / "parent" / "folder"
    seeds, line = set(), 1
    while True:
        guards[0].save(folder)
        if not interrupted_at(line, lambda: guards[1].save(folder)):
            break
        opened = nuq.load_guard(folder, lambda rows: rows)
        np.testing.assert_array_equal(opened.training_rows, guards[opened._split.seed].training_rows)
        seeds.add(opened._split.seed)
        # An interrupt at the end of the call can leave a temporary folder.
        shutil.rmtree(folder.parent)
        line += 1
    assert seeds == {0, 1}


def test_an_interrupted_copy_of_a_file_in_an_object_store_is_removed(blobs, tmp_path, monkeypatch):
    pytest.importorskip("pyarrow")
    memory = pytest.importorskip("fsspec").filesystem("memory")
    NuqClassifier().fit(*blobs).save(tmp_path / "model.nuq")
    content = (tmp_path / "model.nuq").read_bytes()
    memory.pipe("/interrupted/model.nuq", content)
    line, outcomes = 1, set()
    while True:
        cache = tmp_path / str(line)
        cache.mkdir()
        monkeypatch.setattr("tempfile.tempdir", str(cache))
        is_interrupted = interrupted_at(line, lambda: _remote.local("memory://interrupted/model.nuq"))
        files = [path for path in cache.rglob("*") if path.is_file()]
        # There is no copy, or the complete copy under its final name.
        assert [(path.suffix, path.read_bytes()) for path in files] in ([], [(".nuq", content)]), line
        outcomes.add(len(files))
        if not is_interrupted:
            break
        line += 1
    assert outcomes == {0, 1}
