"""Many at once, and an end to waiting."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from nuq import NuqClassifier


def test_eight_threads_get_identical_answers(cifar10):
    train, queries = cifar10["train"], cifar10["test"]["embeddings"]
    model = NuqClassifier().fit(train["embeddings"], train["labels"])
    expected = model.predict_uncertainty(queries)
    with ThreadPoolExecutor(8) as pool:
        for said in pool.map(lambda _: model.predict_uncertainty(queries), range(16)):
            for name in expected:
                np.testing.assert_array_equal(said[name], expected[name])


@pytest.mark.parametrize("n_jobs", [None, 2])
def test_readers_and_writers(blobs, n_jobs):
    x, y = blobs
    model = NuqClassifier(n_jobs=n_jobs).fit(x, y)
    rows = np.tile(x, (20, 1))

    def learn(_):
        model.partial_fit(x[:2], y[:2])

    with ThreadPoolExecutor(8) as pool:
        learned = [pool.submit(learn, i) for i in range(20)]
        asked = [pool.submit(model.predict_proba, rows) for _ in range(20)]
        for future in learned:
            future.result()
        for future in asked:
            assert future.result().shape == (6000, 3)
    assert model.n_samples_fit_ == 340


def test_others_run_meanwhile(blobs):
    """The interpreter's lock is free while a model works."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(20_000, 128)).astype(np.float32)
    model = NuqClassifier(bandwidth=1.0, index="exact").fit(x, rng.integers(0, 3, len(x)))
    ticks, done = [], threading.Event()

    def tick():
        while not done.is_set():
            ticks.append(time.monotonic())
            time.sleep(0.001)

    other = threading.Thread(target=tick)
    other.start()
    model.predict(x)
    done.set()
    other.join()
    assert len(ticks) > 20


LONG = """
import sys, threading, time
import numpy as np
from nuq import NuqClassifier

rng = np.random.default_rng(0)
x = rng.normal(size=(400_000, 64)).astype(np.float32)
y = rng.integers(0, 5, len(x))
model = NuqClassifier(index="hnsw")
print("ready", flush=True)
try:
    model.fit(x, y)
except KeyboardInterrupt:
    print("interrupted", time.monotonic(), flush=True)
    # Whatever the worker still does, the session is usable and nothing was kept.
    assert not hasattr(model, "bandwidth_")
    print(NuqClassifier().fit(x[:100], y[:100]).n_samples_fit_, flush=True)
    sys.exit(7)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="signals are another matter there")
def test_an_interrupt_is_heard_within_a_second():
    child = subprocess.Popen([sys.executable, "-c", LONG], stdout=subprocess.PIPE, text=True)
    try:
        assert child.stdout.readline().strip() == "ready"
        time.sleep(1.0)
        sent = time.monotonic()
        os.kill(child.pid, signal.SIGINT)
        word, when = child.stdout.readline().split()
        assert word == "interrupted"
        assert float(when) - sent < 1.0
        assert child.stdout.readline().strip() == "100"
        assert child.wait(timeout=60) == 7
    finally:
        child.kill()
        child.wait()


def test_progress_is_shown_on_stderr_only(capfd, blobs):
    x, y = blobs
    model = NuqClassifier(verbose=True).fit(x, y)
    out, err = capfd.readouterr()
    assert out == "" and "fitting 300 rows" in err and "bandwidth" in err
    model.predict(np.tile(x, (60, 1)))
    out, err = capfd.readouterr()
    assert out == "" and "NuqClassifier" in err
    NuqClassifier().fit(x, y).predict(x)
    assert capfd.readouterr() == ("", "")


def test_blocks_change_nothing(blobs):
    x, y = blobs
    rows = np.tile(x, (60, 1))
    shown, silent = NuqClassifier(verbose=True).fit(x, y), NuqClassifier().fit(x, y)
    one, other = shown.predict_uncertainty(rows), silent.predict_uncertainty(rows)
    for name in one:
        np.testing.assert_array_equal(one[name], other[name])
