"""All uses of one model at the same time: threads that predict, insert, remove, save and load, with forks and signals."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys

import pytest

STRESS = """
import faulthandler, os, signal, sys, tempfile, threading, time
import numpy as np
import nuq
from nuq import NuqClassifier

faulthandler.enable()
SECONDS, INDEX, CHANGERS = float(sys.argv[1]), sys.argv[2], 3
rng = np.random.default_rng(0)
x = rng.normal(size=(1500, 16)).astype(np.float32)
y = rng.integers(0, 3, len(x))
# No parameter is estimated from the rows. Rows that are inserted far away therefore change neither the neighbors nor the predicted labels of `x`.
model = NuqClassifier(n_neighbors=5, bandwidth=1.0, index=INDEX, density="kde", density_bandwidth=1.0, scale="ambient").fit(x, y)
queries = x[:200]
labels = model.predict(queries)
distances, ids = model.kneighbors(queries)
path = os.path.join(tempfile.mkdtemp(), "model.nuq")
model.save(path)
stop, failures, missed, counts = threading.Event(), [], [], {}


def are_equal(found, expected):
    # The neighbors that a graph finds may change when rows are inserted or removed.
    return (found == expected).mean() >= (1.0 if INDEX == "exact" else 0.95)


def check(what, is_right):
    counts[what] = counts.get(what, 0) + 1
    if not is_right:
        raise AssertionError(what)


def new_row(number):
    # A graph may not find rows that are far from all others.
    return x[number : number + 1] + 0.5 if INDEX == "hnsw" else np.full((1, 16), 1000.0 * (1 + number), dtype=np.float32)


def id_of(row):
    # The id of a row that a graph did not find.
    while True:
        ids = model.training_ids_
        try:
            return ids[[model.measure(row, ids[None])[0].argmin()]]
        except nuq.errors.UnknownIdError:
            pass  # Another thread has removed a row since.


def predict(_):
    check("predict", are_equal(model.predict(queries), labels))
    found, numbers = model.kneighbors(queries)
    check("kneighbors", are_equal(found, distances) and are_equal(numbers, ids))


def change(number):
    # Each thread inserts its row at a different point.
    row = new_row(number)
    model.partial_fit(row, [number % 3])
    found, numbers = model.kneighbors(row)
    is_found = found[0, 0] == 0 and model.predict(row)[0] == number % 3
    if not is_found:
        missed.append(number)
    check("insert", is_found or INDEX == "hnsw")
    model.remove(numbers[0, :1] if found[0, 0] == 0 else id_of(row))
    check("remove", model.kneighbors(row)[0][0, 0] > 0)


def save_and_load(_):
    model.save(path)
    load(_)


def load(_):
    opened = nuq.load(path)
    check("load", are_equal(opened.predict(queries), labels) and len(x) <= opened.n_samples_fit_ <= len(x) + CHANGERS)


def repeat(work, number):
    try:
        while not stop.is_set():
            work(number)
    except BaseException as error:
        failures.append(repr(error))
        stop.set()


class Interrupted(Exception):
    pass


alarms, may_interrupt = 0, False


def on_alarm(*_):
    global alarms
    alarms += 1
    if may_interrupt and alarms % 5 == 0:
        raise Interrupted


def fork():
    child = os.fork()
    if child == 0:
        # The child has only the thread that called fork. Changes that the child makes to the model do not affect the parent.
        try:
            load(0), predict(0)
            before = model.n_samples_fit_
            model.partial_fit(new_row(10), [1])
            model.save(f"{path}.{os.getpid()}")
            opened = nuq.load(f"{path}.{os.getpid()}")
            os._exit(0 if opened.n_samples_fit_ == before + 1 and opened.predict(new_row(10))[0] == 1 else 1)
        except BaseException:
            import traceback
            traceback.print_exc()
            os._exit(2)
    end = time.monotonic() + 30
    while (ended := os.waitpid(child, os.WNOHANG)) == (0, 0):
        if time.monotonic() > end:
            # The child prints its stack.
            os.kill(child, signal.SIGABRT)
        time.sleep(0.005)
    check("fork", os.waitstatus_to_exitcode(ended[1]) == 0)


work = [(predict, 0), (predict, 0), (save_and_load, 0), (load, 0), *((change, number) for number in range(CHANGERS))]
threads = [threading.Thread(target=repeat, args=pair) for pair in work]
for thread in threads:
    thread.start()
signal.signal(signal.SIGALRM, on_alarm)
signal.setitimer(signal.ITIMER_REAL, 0.01, 0.01)
end, interrupts, turn = time.monotonic() + SECONDS, 0, 0


def is_enough():
    return min(counts.get(what, 0) for what in ("predict", "insert", "remove", "load", "fork")) >= 3 and alarms >= 50 and interrupts >= 1


# On a slow machine, the loop runs until everything has happened a few times.
while (time.monotonic() < end or not is_enough()) and not stop.is_set():
    turn += 1
    # A signal handler that raises an exception ends a call of `predict` or `save`. The model stays usable, and its file stays complete.
    try:
        try:
            may_interrupt = True
            predict(0)
            model.save(path)
        finally:
            may_interrupt = False
    except Interrupted:
        # The signal may also arrive before `finally` has set `may_interrupt` to False.
        may_interrupt = False
        interrupts += 1
    if turn % 3 == 0:
        fork()
signal.setitimer(signal.ITIMER_REAL, 0)
stop.set()
for thread in threads:
    thread.join()
assert not failures, failures
assert model.n_samples_fit_ == len(x), model.n_samples_fit_
predict(0)
left = [name for name in os.listdir(os.path.dirname(path)) if name.endswith(".partial")]
assert not left, left
assert is_enough(), counts
assert len(missed) <= 0.05 * counts["insert"], (len(missed), counts)
print("done", counts, "alarms", alarms, "interrupts", interrupts)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
@pytest.mark.parametrize("index", ["exact", "hnsw"])
def test_all_uses_of_a_model_at_once_give_correct_results(index):
    run = subprocess.Popen(
        [sys.executable, "-W", "ignore", "-c", STRESS, "3", index],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
    )
    try:
        # If the process hangs in a deadlock, the timeout makes the test fail.
        out, err = run.communicate(timeout=120)
        assert run.returncode == 0 and out.startswith("done"), out + err
    finally:
        # The group includes the forked children, so they end too.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(run.pid, signal.SIGKILL)
        run.wait()
