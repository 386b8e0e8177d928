"""Threads, forks, interrupts and progress."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from nuq import NuqClassifier


def test_eight_threads_get_identical_results(cifar10):
    train, queries = cifar10["train"], cifar10["test"]["embeddings"]
    model = NuqClassifier().fit(train["embeddings"], train["labels"])
    expected = model.predict_uncertainty(queries)
    with ThreadPoolExecutor(8) as pool:
        for result in pool.map(lambda _: model.predict_uncertainty(queries), range(16)):
            for name in expected:
                np.testing.assert_array_equal(result[name], expected[name])


@pytest.mark.parametrize("n_jobs", [None, 2])
def test_concurrent_queries_and_updates_are_all_completed(blobs, n_jobs):
    x, y = blobs
    model = NuqClassifier(n_jobs=n_jobs).fit(x, y)
    rows = np.tile(x, (20, 1))

    with ThreadPoolExecutor(8) as pool:
        updates = [pool.submit(model.partial_fit, x[:2], y[:2]) for _ in range(20)]
        queries = [pool.submit(model.predict_proba, rows) for _ in range(20)]
        for future in updates:
            future.result()
        for future in queries:
            assert future.result().shape == (6000, 3)
    assert model.n_samples_fit_ == 340


def test_other_python_threads_run_during_a_call():
    """A call releases the interpreter lock."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(2_000, 64)).astype(np.float32)
    model = NuqClassifier(bandwidth=1.0, index="exact").fit(x, rng.integers(0, 3, len(x)))._model
    ready, ran = threading.Event(), []

    def other():
        ready.wait()
        ran.append(True)

    thread = threading.Thread(target=other)
    thread.start()
    interval = sys.getswitchinterval()
    try:
        # With this long interval, the other thread runs only while a call of this thread releases the lock.
        sys.setswitchinterval(1e4)
        ready.set()
        for _ in range(1000):
            model.predict(x, None, None)
            if ran:
                break
        assert ran
    finally:
        sys.setswitchinterval(interval)
        thread.join()


ONE_THREAD = """
import os
import pickle
import sys
from pathlib import Path
import numpy as np
import nuq
from nuq import _sharded, stores
from nuq.outliers import NuqOutlierDetector

folder = Path(sys.argv[1])
rng = np.random.default_rng(0)
x = rng.normal(size=(200, 4)).astype(np.float32)
y = rng.integers(0, 3, len(x))
new = x + np.float32(0.5)
kinds = (nuq.NuqClassifier, nuq.NuqRegressor, nuq.NuqClassifier, NuqOutlierDetector)
classifier, regressor, sharded, detector = (kind(n_jobs=1, device="cpu") for kind in kinds)
neighbors = lambda: classifier.kneighbors(new, return_distance=False)
class Rows(stores.Store):
    metric = "l2"
    def _search(self, queries, k):
        distances = np.linalg.norm(queries[:, None] - x, axis=2)
        return [(near := np.argsort(row)[:k], row[near]) for row in distances]
calls = {
    "fit": lambda: classifier.fit(x, y),
    "fit of a regressor": lambda: regressor.fit(x, y.astype(float)),
    "predict_uncertainty": lambda: classifier.predict_uncertainty(new, logits=new[:, :3]),
    "measure": lambda: classifier.measure(new, neighbors()),
    "rerank": lambda: classifier.predict_from(new, neighbors(), rerank=True),
    "suggest": lambda: classifier.suggest(new, 3),
    "label_issues": lambda: classifier.label_issues(),
    "calibrate": lambda: classifier.calibrate(new, coverage=0.9, name="default"),
    "evaluate": lambda: nuq.evaluate(classifier, new, y, logits=new[:, :3], resamples=10, device="cpu"),
    "fit_temperature": lambda: classifier.fit_temperature(new[:, :3], y),
    "save": lambda: classifier.save(folder / "model.nuq"),
    "save of a regressor without rows": lambda: regressor.save(folder / "without-rows.nuq", rows=False),
    "pickle": lambda: pickle.loads(pickle.dumps(classifier)),
    "save of an opened model": lambda: pickle.loads(pickle.dumps(regressor)).save(folder / "copy.nuq"),
    "stores.verify": lambda: stores.verify(Rows(), classifier),
    "fit to shards": lambda: _sharded.fit(sharded, folder, [_sharded.write(folder, 0, x, y, None, False, 1)]),
    "fit of a detector": lambda: detector.fit(x),
    "save of a detector": lambda: detector.save(folder / "detector.nuq"),
    "partial_fit": lambda: classifier.partial_fit(new, y),
    "partial_fit of a regressor": lambda: regressor.partial_fit(new, y.astype(float)),
    "remove": lambda: classifier.remove([0]),
}
before = len(os.listdir("/proc/self/task"))
for name, call in calls.items():
    call()
    # With n_jobs=1, one thread is added, and a few threads of earlier calls may not have ended yet. A pool for all processors adds ten.
    started = len(os.listdir("/proc/self/task")) - before
    assert started < 10, f"after {name} there are {started} more threads"
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the threads are counted in /proc")
def test_calls_of_an_estimator_use_n_jobs_threads(tmp_path):
    # With this variable, "all processors" means ten threads on every machine.
    environment = {**os.environ, "RAYON_NUM_THREADS": "10"}
    command = [sys.executable, "-c", ONE_THREAD, str(tmp_path)]
    run = subprocess.run(command, capture_output=True, text=True, timeout=600, env=environment)
    assert run.returncode == 0, run.stderr


@pytest.mark.skipif(os.name != "posix", reason="the message is that of pthread_create")
@pytest.mark.parametrize("n_jobs", [None, -1, 2])
def test_threads_that_cannot_be_started_are_an_error_of_the_package(n_jobs):
    code = f"from nuq import NuqClassifier; NuqClassifier(n_jobs={n_jobs}).fit([[0.0], [1.0]], [0, 1])"
    # This variable is the size of the stack of a thread. No address space has 2**60 bytes.
    environment = {**os.environ, "RUST_MIN_STACK": str(2**60)}
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=600, env=environment)
    start = "n_jobs=2: " if n_jobs == 2 else "the threads could not be started: "
    assert run.returncode == 1 and f"nuq.errors.NuqError: {start}" in run.stderr, run.stderr


INTERRUPTED = """
import os, signal, sys
import numpy as np
import nuq._progress
from nuq import NuqClassifier

# A parent may have started this process with SIGINT ignored.
signal.signal(signal.SIGINT, signal.default_int_handler)
# The extension calls `tick` while it computes. The interrupt therefore arrives during the computation.
nuq._progress.Timer.tick = lambda self: os.kill(os.getpid(), signal.SIGINT)

rng = np.random.default_rng(0)
x = rng.normal(size=(400_000, 64)).astype(np.float32)
y = rng.integers(0, 5, len(x))
model = NuqClassifier(index="hnsw", verbose=True)
try:
    model.fit(x, y)
except KeyboardInterrupt:
    # The model is not fitted, and the process remains usable.
    assert not hasattr(model, "bandwidth_")
    assert NuqClassifier().fit(x[:100], y[:100]).n_samples_fit_ == 100
    sys.exit(7)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no os.kill with SIGINT for one process")
@pytest.mark.parametrize("ignored", [False, True], ids=["default SIGINT", "SIGINT ignored by the parent"])
def test_an_interrupt_ends_a_fit(ignored):
    def ignore() -> None:
        signal.signal(signal.SIGINT, signal.SIG_IGN)

    run = subprocess.run(
        [sys.executable, "-c", INTERRUPTED],
        capture_output=True, text=True, timeout=600, preexec_fn=ignore if ignored else None,
    )
    assert run.returncode == 7, run.stderr


STOPPED = """
import os, signal, sys, tempfile, threading, time
import numpy as np
import nuq
from nuq import NuqClassifier

signal.signal(signal.SIGINT, signal.default_int_handler)
rng = np.random.default_rng(0)

def rows(count, columns):
    return rng.normal(size=(count, columns)).astype(np.float32)

def model_of(x, density="kde", **options):
    if density == "kde":
        options["density_bandwidth"] = 1.0
    return NuqClassifier(bandwidth=1.0, density=density, scale="ambient", **options).fit(x, np.arange(len(x)) % 5)

what = sys.argv[1]
if what == "graph":
    x = rows(300_000, 64)
    call = lambda: NuqClassifier(index="hnsw").fit(x, np.arange(len(x)) % 5)
elif what == "bandwidth":
    x = rows(100_000, 64)
    call = lambda: NuqClassifier(index="exact", bandwidth="adaptive").fit(x, np.arange(len(x)) % 5)
elif what == "covariance":
    x = rows(30_000, 1024)
    call = lambda: model_of(x, density="gmm")
elif what == "predict":
    model, x = model_of(rows(100_000, 64), index="exact"), rows(200_000, 64)
    call = lambda: model.predict(x)
elif what == "label_issues":
    model = model_of(rows(200_000, 64), index="exact")
    call = model.label_issues
elif what == "evaluate":
    model, x = model_of(rows(20_000, 64), index="exact"), rows(20_000, 64)
    call = lambda: nuq.evaluate(model, x, np.arange(len(x)) % 5)
elif what == "bootstrap":
    scores = rng.normal(size=400_000)
    call = lambda: nuq.metrics.interval("roc_auc", scores, scores, resamples=100_000)
elif what == "insert":
    model, x = model_of(rows(2_000, 64), index="hnsw"), rows(300_000, 64)
    call = lambda: model.partial_fit(x, np.arange(len(x)) % 5)
elif what in ("save", "load", "remove"):
    x = rows(100_000, 64)
    model, path = model_of(x, index="exact"), os.path.join(tempfile.mkdtemp(), "model.nuq")
    model.save(path)

    def replace_rows():
        for _ in range(100):
            model.remove(model.training_ids_[:1])
            model.partial_fit(x[:1], [0])

    call = {"save": lambda: model.save(path), "load": lambda: nuq.load(path, verify=True), "remove": replace_rows}[what]

threading.Timer(1.5, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
try:
    # On a fast machine, a call may end before the interrupt.
    for _ in range(1000):
        call()
    sys.exit("the calls ended before the interrupt: their data are too small")
except KeyboardInterrupt:
    pass
before = os.times()
time.sleep(2)
after = os.times()
used = (after.user - before.user) + (after.system - before.system)
assert used < 0.5, f"{used} s of processor time after the interrupt"
if what == "insert":
    # Each insertion is complete or has not happened.
    assert (model.n_samples_fit_ - 2_000) % len(x) == 0 and model.predict(x[:10]).shape == (10,)
elif what in ("save", "load", "remove"):
    assert os.listdir(os.path.dirname(path)) == ["model.nuq"] and nuq.load(path, verify=True).n_samples_fit_ == len(x)
    assert len(x) - 1 <= model.n_samples_fit_ <= len(x) and model.predict(x[:10]).shape == (10,)
assert model_of(rows(100, 4)).predict(rows(3, 4)).shape == (3,)
print("done")
"""


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no os.kill with SIGINT for one process")
@pytest.mark.parametrize(
    "what", ["graph", "bandwidth", "covariance", "predict", "label_issues", "evaluate", "bootstrap", "insert", "save", "load", "remove"]
)
def test_an_interrupt_stops_the_computation(what):
    run = subprocess.run([sys.executable, "-c", STOPPED, what], capture_output=True, text=True, timeout=600)
    assert run.stdout == "done\n", run.stderr


FORK = """
import os, sys, tempfile, threading, time
import numpy as np
from nuq import NuqClassifier

what, index = sys.argv[1:]
rng = np.random.default_rng(0)
x = rng.normal(size=(3000, 16)).astype(np.float32)
y = rng.integers(0, 3, len(x))
model = NuqClassifier(bandwidth=1.0, index=index).fit(x, y)
stop, busy = threading.Event(), threading.Event()
path = os.path.join(tempfile.mkdtemp(), "model.nuq")

def work():
    while not stop.is_set():
        if what == "partial_fit":
            model.partial_fit(x[:50], y[:50])
        elif what == "save":
            model.save(path)
        else:
            model.predict_proba(x)
        busy.set()

thread = threading.Thread(target=work)
thread.start()
busy.wait()
for _ in range(10):
    child = os.fork()
    if child == 0:
        assert model.predict_proba(x[:10]).shape == (10, 3)
        model.partial_fit(x[:1], y[:1])
        model.remove([0])
        os._exit(0)
    # If a child hangs, the test fails by its timeout.
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
stop.set()
thread.join()
print("done")
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
@pytest.mark.parametrize("index", ["exact", "hnsw"])
@pytest.mark.parametrize("what", ["partial_fit", "save", "predict_proba"])
def test_a_child_forked_while_another_thread_uses_the_model_can_use_it(what, index):
    run = subprocess.Popen(
        [sys.executable, "-W", "ignore", "-c", FORK, what, index],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
    )
    try:
        out, err = run.communicate(timeout=120)
        assert run.returncode == 0 and out == "done\n", err
    finally:
        # The group includes the forked children, so they end too.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(run.pid, signal.SIGKILL)
        run.wait()


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


def test_blocks_do_not_change_results(blobs):
    """With ``verbose=True``, predictions are computed in blocks of rows, so that progress can be shown."""
    x, y = blobs
    rows = np.tile(x, (60, 1))
    shown, silent = NuqClassifier(verbose=True).fit(x, y), NuqClassifier().fit(x, y)
    one, other = shown.predict_uncertainty(rows), silent.predict_uncertainty(rows)
    for name in one:
        np.testing.assert_array_equal(one[name], other[name])
