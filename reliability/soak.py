"""Runs the service under load for a long time and watches its answers, memory, descriptors, threads and latencies.

    cargo xtask soak --minutes N [--release]

The service has three models: `fixed`, which never changes; `live`, into which writers insert rows and from which they remove them; and
`swapped`, whose file is replaced by the files of two models in turn, each time followed by SIGHUP. The capacity of the service, in requests
per second, is measured first; the readers then send 80 % of it. In addition, some clients break the protocol, and some readers are killed.

Every answer of `fixed` and `swapped` is compared with that of `nuq score`, to the last digit. The model `live` is downloaded every few
seconds while the writers wait, and its answers are compared with those of `nuq score` for the downloaded file. At the end the service is
started again: it must answer as before.

The results are written to target/reliability/soak.json and soak.svg. Those of a run of less than 30 minutes that has not failed are written to
files with the same names in target/reliability/short.
"""

from __future__ import annotations

import argparse
import csv
import json
import multiprocessing
import os
import random
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
from collections import Counter
from multiprocessing.connection import wait as wait_for
from pathlib import Path

import soak_clients
import soak_figure
from arrays import npy, rows, write_rows
from connection import Connection, ConnectionEnded, request
from record import FOLDER, record
from soak_clients import Question, Second, without_version

ROWS, COLUMNS = 2000, 64

# Minutes of the shortest run whose results are copied into the documentation.
FULL_MINUTES = 30

# A question is a request whose answer is known. Rows of each question, and number of questions per model and format.
BATCH, BATCHES = 64, 8

# One reader for each entry: the format of its requests to `fixed`, or `swapped` for requests of all formats to `swapped`.
READERS = ["JSON", "JSON", "binary", "binary", "npy", "swapped"]
WRITERS = 2

# Changes per second of each writer, and messages per second of the bad client, which breaks the protocol.
CHANGES_PER_SECOND, BAD_PER_SECOND = 8.0, 12.0

# Option of `nuq score`. The service uses this threshold without an option, because it is the only threshold of the model.
THRESHOLD = ["--threshold", "main"]

# Share of the measured capacity at which the readers send.
LOAD = 0.8
CAPACITY_SECONDS = 10

# Seconds between two replacements of the file of `swapped`, two comparisons of `live`, and two kills of readers.
SWAP_EVERY, COMPARE_EVERY, KILL_EVERY = 7, 11, 17

# Largest permitted growth of the resident memory after the warm-up, in MiB. The growth is that of a line fitted to the memory over time.
# The limit is the same for all durations. docs/reliability.md states it.
GROWTH_MIB = 16.0

# The statuses of 500 and above that docs/serving.md documents: 503 for an exceeded limit or a folder that cannot be written, and 507 for a
# full disk.
DOCUMENTED = {503, 507}


class Failure(Exception):
    """A check that did not hold."""


class Service:
    """`nuq serve` with a state folder."""

    def __init__(self, nuq: str, folder: Path) -> None:
        self.nuq, self.folder = nuq, folder
        self.log = open(folder / "log", "ab")
        self.start()

    def start(self) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        words = [self.nuq, "serve", "--address", f"127.0.0.1:{self.port}", "--state", str(self.folder / "state")]
        for name in ("fixed", "live", "swapped"):
            words += ["--model", f"{name}={self.folder}/{name}.nuq"]
        words += ["--log-level", "warn", "--request-timeout", "5", "--client-timeout", "5"]
        self.process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log)
        for _ in range(600):
            if self.process.poll() is not None:
                raise Failure(f"the service has ended: {(self.folder / 'log').read_text()[-2000:]}")
            try:
                if self.request("GET", "/v2/health/ready").status == 200:
                    return
            except (OSError, ConnectionEnded):
                pass  # The service does not accept connections yet, or has closed this one.
            time.sleep(0.1)
        self.kill()
        raise Failure("the service is not ready after a minute")

    def request(self, method: str, path: str, body: bytes = b"", **headers: object):
        connection = Connection(self.port)
        try:
            return connection.exchange(request(method, path, body, connection="close", **headers))
        finally:
            connection.close()

    def stop(self) -> None:
        self.process.send_signal(signal.SIGTERM)
        if self.process.wait(60) != 0:
            raise Failure(f"the service ended with {self.process.returncode}: {(self.folder / 'log').read_text()[-2000:]}")

    def kill(self) -> None:
        """Ends the process if it is still running, such as after a failure."""
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()

    def observe(self) -> dict:
        """Memory in MiB, descriptors and threads."""
        if self.process.poll() is not None:
            raise Failure(f"the service has ended: {(self.folder / 'log').read_text()[-2000:]}")
        folder = Path(f"/proc/{self.process.pid}")
        status = dict(line.split(":", 1) for line in (folder / "status").read_text().splitlines())
        number = lambda name: int(status[name].split()[0])  # noqa: E731
        return {
            "memory": number("VmRSS") / 1024,
            "anonymous": number("RssAnon") / 1024,
            "descriptors": len(os.listdir(folder / "fd")),
            "threads": number("Threads"),
        }

    def idle(self, seconds: float) -> dict:
        """The numbers of `observe` when all connections have ended. Idle threads of the service end after ten seconds."""
        time.sleep(seconds)
        return self.observe()


def score(nuq: str, model: Path, queries: Path, *options: str) -> bytes:
    """The output of `nuq score`, as a csv file."""
    out = queries.with_suffix(f".{model.stem}.csv")
    words = [nuq, "--quiet", "score", "-m", str(model), "-e", str(queries), "-o", str(out), *options]
    done = subprocess.run(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, errors="replace")
    if done.returncode != 0:
        raise Failure(f"{' '.join(words)} ended with {done.returncode}: {done.stderr}")
    return out.read_bytes()


def write_models(nuq: str, folder: Path) -> None:
    """Writes the models a and b, both with a threshold, and the files that are served."""
    run = lambda *words: subprocess.run([nuq, "--quiet", *words], check=True, stdout=subprocess.DEVNULL)  # noqa: E731
    for name, seed in (("a", 1), ("b", 2), ("held-out", 3)):
        write_rows(folder, name, ROWS if name != "held-out" else 500, COLUMNS, seed)
    for name in ("a", "b"):
        run("fit", "-e", f"{folder}/{name}.npy", "-l", f"{folder}/{name}-labels.npy", "-o", f"{folder}/{name}.nuq")
    # `live` has no threshold, because a change of its rows would remove the threshold.
    shutil.copy(folder / "a.nuq", folder / "live.nuq")
    for name in ("a", "b"):
        run("calibrate", "-m", f"{folder}/{name}.nuq", "-e", f"{folder}/held-out.npy", "--target", "coverage=0.9", "--name", "main")
    for name in ("fixed", "swapped"):
        shutil.copy(folder / "a.nuq", folder / f"{name}.nuq")


def columns_of_json(response) -> dict[str, list]:
    answered = json.loads(response.body)["rows"]
    return {name: [row[name] for row in answered] for name in answered[0]}


def columns_of_tensors(response) -> dict[str, list]:
    length = int(response.headers[b"inference-header-content-length"])
    head, rest, columns = json.loads(response.body[:length]), response.body[length:], {}
    for tensor in head["outputs"]:
        size, count = tensor["parameters"]["binary_data_size"], tensor["shape"][0]
        data, rest = rest[:size], rest[size:]
        if tensor["datatype"] == "FP64":
            columns[tensor["name"]] = list(struct.unpack(f"<{count}d", data))
        elif tensor["datatype"] == "BOOL":
            columns[tensor["name"]] = [bool(byte) for byte in data]
        else:
            labels = []
            while data:
                end = 4 + int.from_bytes(data[:4], "little")
                labels.append(data[4:end].decode())
                data = data[end:]
            columns[tensor["name"]] = labels
    return columns


def columns_of_csv(response) -> dict[str, list]:
    lines = list(csv.DictReader(response.body.decode().splitlines()))
    return {name: [line[name] for line in lines] for name in lines[0]}


def check_columns(answered: dict[str, list], expected: bytes, what: str) -> None:
    """Compares the columns of an answer with those of `nuq score`, to the last digit."""
    lines = list(csv.DictReader(expected.decode().splitlines()))
    shared = [name for name in answered if name in lines[0] and name != "row"]
    if not {"label", "probability", "aleatoric", "epistemic", "total", "log_density", "accept"} <= set(shared):
        raise Failure(f"{what}: the answer has the columns {sorted(answered)}, `nuq score` has {sorted(lines[0])}")
    for name in shared:
        for row, (value, line) in enumerate(zip(answered[name], lines, strict=True)):
            text = line[name]
            same = float(text) == value if isinstance(value, float) else text.lower() == str(value).lower()
            if not same:
                raise Failure(f"{what}: {name} of row {row} is {value}, and {text} by `nuq score`")


class Questions:
    """Requests with the answers of the service. Each answer was compared with the output of `nuq score`."""

    def __init__(self, service: Service) -> None:
        self.service, self.nuq = service, service.nuq
        self.batches: list[Path] = []
        self.values = []
        for number in range(BATCHES):
            values, _ = rows(BATCH, COLUMNS, 100 + number, 1.0 + number / 4)
            path = service.folder / f"queries-{number}.npy"
            path.write_bytes(npy(values, (BATCH, COLUMNS)))
            self.batches.append(path)
            self.values.append(values)

    def message(self, kind: str, model: str, number: int) -> bytes:
        values = self.values[number]
        if kind == "JSON":
            body = json.dumps([list(values[i : i + COLUMNS]) for i in range(0, len(values), COLUMNS)])
            return request("POST", f"/v1/models/{model}/score", body.encode())
        if kind == "npy":
            return request("POST", f"/v1/models/{model}/score", self.batches[number].read_bytes(), accept="text/csv")
        tensor = {"name": "embeddings", "shape": [BATCH, COLUMNS], "datatype": "FP32", "parameters": {"binary_data_size": 4 * len(values)}}
        head = json.dumps({"inputs": [tensor], "parameters": {"binary_data_output": True}}).encode()
        return request("POST", f"/v2/models/{model}/infer", head + values.tobytes(), inference_header_content_length=len(head))

    def answer(self, kind: str, model: str, number: int, expected: bytes) -> bytes:
        """The answer of the service without the version of the model, after it was compared with the output of `nuq score`."""
        connection = Connection(self.service.port)
        response = connection.exchange(self.message(kind, model, number))
        connection.close()
        what = f"{model}, {kind}, batch {number}"
        if response.status != 200:
            raise Failure(f"{what}: status {response.status}: {response.body[:300]!r}")
        columns = {"JSON": columns_of_json, "binary": columns_of_tensors, "npy": columns_of_csv}[kind](response)
        check_columns(columns, expected, what)
        return without_version(response.body)[1]

    def fixed(self, kind: str) -> list[Question]:
        """Questions of one format to `fixed`."""
        questions = []
        for number, path in enumerate(self.batches):
            expected = score(self.nuq, self.service.folder / "a.nuq", path, *THRESHOLD)
            questions.append(Question(self.message(kind, "fixed", number), [self.answer(kind, "fixed", number, expected)]))
        return questions

    def swapped(self) -> list[Question]:
        """Questions of all formats to `swapped`, with the answers of a and of b."""
        answers: dict[tuple[str, int], list[bytes]] = {}
        for model in ("a", "b"):
            if model == "b":
                swap(self.service, 2)
            for kind in ("JSON", "binary", "npy"):
                for number, path in enumerate(self.batches):
                    expected = score(self.nuq, self.service.folder / f"{model}.nuq", path, *THRESHOLD)
                    answers.setdefault((kind, number), []).append(self.answer(kind, "swapped", number, expected))
        return [Question(self.message(kind, "swapped", number), pair) for (kind, number), pair in answers.items()]


def version_of(service: Service, model: str) -> int:
    return json.loads(service.request("GET", f"/v1/models/{model}").body)["version"]


def swap(service: Service, version: int) -> None:
    """Replaces the file of `swapped` and waits until the new file is served. Odd versions are model a, even versions are model b."""
    partial = service.folder / "swapped.new"
    shutil.copy(service.folder / ("b.nuq" if version % 2 == 0 else "a.nuq"), partial)
    partial.replace(service.folder / "swapped.nuq")
    service.process.send_signal(signal.SIGHUP)
    for _ in range(200):
        found = version_of(service, "swapped")
        if found == version:
            return
        if found > version:
            raise Failure(f"swapped has version {found} after version {version - 1}")
        time.sleep(0.05)
    raise Failure(f"swapped does not have version {version} ten seconds after SIGHUP")


def compare_live(service: Service, path: Path, locks: list) -> None:
    """Downloads `live` while no writer changes it, and compares its answers with those of `nuq score` for the downloaded file."""
    for lock in locks:
        lock.acquire()
    try:
        answer = service.request("POST", "/v1/models/live/score", path.read_bytes(), accept="text/csv")
        file = service.request("GET", "/v1/models/live/file")
    finally:
        for lock in locks:
            lock.release()
    model = service.folder / "downloaded.nuq"
    model.write_bytes(file.body)
    if (answer.status, file.status) != (200, 200):
        raise Failure(f"live: scoring ended with status {answer.status}, and the download with status {file.status}")
    if answer.body != score(service.nuq, model, path):
        kept = service.folder / f"differs-{int(time.time())}.nuq"
        shutil.copy(model, kept)
        raise Failure(f"live: the answer differs from that of the downloaded model {kept}")


class Clients:
    """The processes of all clients, and what they report."""

    def __init__(self, service: Service, questions: dict[str, list[Question]]) -> None:
        self.service, self.questions = service, questions
        # A forked process would inherit the connections of the driver.
        self.context = multiprocessing.get_context("spawn")
        self.locks = [self.context.Lock() for _ in range(WRITERS)]
        self.processes: list[tuple] = []
        self.restarts = 0

    def start(self, rate: float | None) -> None:
        """Starts all clients; `rate` is that of each reader in requests per second, or None for as many as possible."""
        self.rate = rate
        for kind in READERS:
            self._start_reader(kind)
        for lock in self.locks:
            self._start("writer", soak_clients.write, (lock, COLUMNS, CHANGES_PER_SECOND, random.getrandbits(32)))
        self._start("bad", soak_clients.misbehave, (COLUMNS, BAD_PER_SECOND, random.getrandbits(32)))

    def _start_reader(self, kind: str) -> None:
        self._start(kind, soak_clients.read, (kind, self.questions[kind], self.rate, random.getrandbits(32)))

    def _start(self, kind: str, target, arguments: tuple) -> None:
        receiver, sender = self.context.Pipe(duplex=False)
        process = self.context.Process(target=target, args=(self.service.port, sender, *arguments), daemon=True)
        process.start()
        sender.close()
        self.processes.append((kind, process, receiver))

    def collect(self, until: float) -> list[Second]:
        """What the clients report until a time."""
        seconds = []
        while (left := until - time.time()) > 0:
            for receiver in wait_for([receiver for _, _, receiver in self.processes], left):
                try:
                    seconds.append(receiver.recv())
                except EOFError:
                    kind, process = next((kind, process) for kind, process, other in self.processes if other is receiver)
                    raise Failure(f"a client ({kind}) has ended with {process.exitcode}") from None
        return seconds

    def restart_reader(self) -> None:
        """Kills a reader, possibly in the middle of a request, and starts another one."""
        index = random.choice([i for i, (kind, _, _) in enumerate(self.processes) if kind in READERS])
        kind, process, receiver = self.processes.pop(index)
        process.kill()
        process.join()
        receiver.close()
        self._start_reader(kind)
        self.restarts += 1

    def stop(self) -> None:
        """Ends all clients. The locks are acquired first, so that no writer is ended during a change."""
        # The timeout is for a writer that has failed and still holds its lock.
        taken = [lock for lock in self.locks if lock.acquire(timeout=10)]
        for _, process, receiver in self.processes:
            process.kill()
            process.join()
            receiver.close()
        for lock in taken:
            lock.release()
        self.processes = []


def percentile(values: list[float], share: float) -> float | None:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else None


def measure_capacity(clients: Clients) -> float:
    """Answers per second while each reader sends its next request directly after an answer, and writers and bad clients run too."""
    clients.start(None)
    # Processes of Python need a second to start.
    clients.collect(time.time() + 3)
    seconds = clients.collect(time.time() + CAPACITY_SECONDS)
    clients.stop()
    wrong = [text for second in seconds for text in second.wrong]
    if wrong:
        raise Failure(f"during the measurement of the capacity: {wrong[0]}")
    answers = sum(len(second.latencies) for second in seconds if second.kind in READERS)
    return answers / CAPACITY_SECONDS


class History:
    """The numbers of each second."""

    def __init__(self) -> None:
        self.seconds: dict[int, dict] = {}
        self.latencies: dict[int, list[float]] = {}
        self.write_latencies: list[float] = []
        self.statuses: dict[str, Counter] = {}
        self.compared = self.changes = self.bad = 0
        self.wrong: list[str] = []

    def observe(self, now: int, numbers: dict) -> None:
        self.seconds[now] = {"time": now, **{name: round(value, 2) for name, value in numbers.items()}}

    def add(self, second: Second) -> None:
        kind = "readers" if second.kind in READERS else second.kind
        self.statuses.setdefault(kind, Counter()).update({str(status): count for status, count in second.statuses.items()})
        if kind == "readers":
            self.latencies.setdefault(second.time, []).extend(second.latencies)
        elif kind == "writer":
            self.changes += len(second.latencies)
            self.write_latencies += second.latencies
        else:
            self.bad += sum(second.statuses.values())
        self.compared += second.compared
        self.wrong += second.wrong

    def series(self, first: int, last: int) -> list[dict]:
        """One record per second, without the first and the last one, which are not complete."""
        records = []
        for now in range(first + 1, last):
            if now in self.seconds:
                latencies = self.latencies.get(now, [])
                p50, p99 = percentile(latencies, 0.5), percentile(latencies, 0.99)
                rounded = lambda value: None if value is None else round(value, 3)  # noqa: E731
                records.append({**self.seconds[now], "requests": len(latencies), "p50": rounded(p50), "p99": rounded(p99)})
        return records


def slope(points: list[tuple[float, float]]) -> float:
    """The slope of the line that is fitted by least squares."""
    count = len(points)
    mean_x, mean_y = sum(x for x, _ in points) / count, sum(y for _, y in points) / count
    spread = sum((x - mean_x) ** 2 for x, _ in points)
    return sum((x - mean_x) * (y - mean_y) for x, y in points) / spread if spread else 0.0


def run_load(service: Service, clients: Clients, history: History, minutes: float, batches: list[Path]) -> tuple[int, int]:
    """Runs the clients for some minutes. Returns the first and the last second."""
    clients.collect(time.time() + 3)
    begin = int(time.time())
    swapped = version_of(service, "swapped")
    compared = 0
    while (now := time.time()) < begin + 60 * minutes:
        elapsed = int(now) - begin
        history.observe(int(now), service.observe())
        for second in clients.collect(int(now) + 1):
            history.add(second)
        if elapsed % SWAP_EVERY == SWAP_EVERY - 1:
            swapped += 1
            swap(service, swapped)
        if elapsed % COMPARE_EVERY == COMPARE_EVERY - 1:
            compare_live(service, batches[compared % len(batches)], clients.locks)
            compared += 1
        if elapsed % KILL_EVERY == KILL_EVERY - 1:
            clients.restart_reader()
    # `swapped` is a version. Versions 1 and 2 were served before the load.
    history.swaps, history.live_comparisons = swapped - 2, compared
    return begin, int(time.time())


def check_restart(service: Service, batches: list[Path]) -> None:
    """Stops the service and starts it again: `live` must have the same version and give the same answers as before."""
    def state() -> tuple[int, list[bytes]]:
        answers = [service.request("POST", "/v1/models/live/score", path.read_bytes(), accept="text/csv").body for path in batches]
        return version_of(service, "live"), answers

    before = state()
    service.stop()
    service.start()
    if state() != before:
        raise Failure("live: the version or the answers differ after the next start")
    service.stop()


def verdict(history: History, series: list[dict], idle: tuple[dict, dict], warm_up: float) -> dict:
    """The checks, each as true or false, and the numbers that they use. After a failure during the warm-up, the growth of the memory is not
    known and not checked."""
    begin = series[0]["time"]
    warm = [(second["time"] - begin, second["memory"]) for second in series if second["time"] - begin >= warm_up]
    per_second = slope(warm) if warm else None
    growth = None if per_second is None else round(per_second * (warm[-1][0] - warm[0][0]), 3)
    other_errors = sum(
        count
        for statuses in history.statuses.values()
        for status, count in statuses.items()
        if status.isdigit() and int(status) >= 500 and int(status) not in DOCUMENTED
    )
    numbers = {
        "warm_up_seconds": warm_up,
        "memory_slope_mib_per_hour": None if per_second is None else round(3600 * per_second, 3),
        "memory_growth_mib": growth,
        "idle_before": idle[0],
        "idle_after": idle[1],
        "wrong_answers": len(history.wrong),
        "undocumented_server_errors": other_errors,
    }
    checks = {
        **({} if growth is None else {f"the memory grows by at most {GROWTH_MIB:g} MiB after the warm-up": growth <= GROWTH_MIB}),
        "the number of descriptors is the same before and after the load": idle[1]["descriptors"] == idle[0]["descriptors"],
        "the number of threads is not larger after the load than before": idle[1]["threads"] <= idle[0]["threads"],
        "no wrong answers": not history.wrong,
        "no undocumented server errors": other_errors == 0,
    }
    return {"checks": checks, **numbers}


def soak(nuq: str, minutes: float, folder: Path) -> int:
    write_models(nuq, folder)
    service = Service(nuq, folder)
    try:
        return soak_service(service, minutes)
    finally:
        service.kill()


def soak_service(service: Service, minutes: float) -> int:
    questions = Questions(service)
    known = {kind: questions.fixed(kind) for kind in ("JSON", "binary", "npy")}
    known["swapped"] = questions.swapped()
    clients, history, failures = Clients(service, known), History(), []
    capacity = measure_capacity(clients)
    # Idle threads of the service end after ten seconds.
    before = service.idle(13)
    print(f"soak: capacity {capacity:.0f} requests/s of {BATCH} rows; {LOAD:.0%} of it for {minutes:g} minutes", flush=True)
    clients.start(LOAD * capacity / len(READERS))
    first = last = int(time.time())
    try:
        first, last = run_load(service, clients, history, minutes, questions.batches)
        clients.stop()
        after = service.idle(13)
        check_restart(service, questions.batches)
    except Failure as failure:
        failures.append(str(failure))
        after, last = before, int(time.time())
    finally:
        clients.stop()
    log = (service.folder / "log").read_text(errors="replace")
    if "panicked" in log:
        failures.append(f"the log has a panic: {log[log.index('panicked') - 200 :][:1000]}")
    series = history.series(first, last)
    if len(series) < 10:
        raise Failure(f"fewer than ten seconds were observed: {failures}")
    result = verdict(history, series, (before, after), min(600.0, 20 * minutes))
    failures += [f"this does not hold: {name}" for name, is_right in result["checks"].items() if not is_right]
    report(minutes, capacity, history, series, result, failures, clients.restarts)
    return 1 if failures else 0


def report(minutes, capacity, history, series, result, failures, restarts) -> None:
    """Writes soak.json and soak.svg, and prints the verdict."""
    requests = sum(second["requests"] for second in series)
    latencies = [latency for values in history.latencies.values() for latency in values]
    p50, p99 = percentile(latencies, 0.5), percentile(latencies, 0.99)
    memory = [second["memory"] for second in series]
    note = f"{requests / len(series):.0f} requests/s, {LOAD:.0%} of the capacity; "
    if latencies:
        note += f"p50 {p50:.1f} ms, p99 {p99:.1f} ms; "
    note += f"memory {min(memory):.0f} to {max(memory):.0f} MiB"
    if result["memory_slope_mib_per_hour"] is not None:
        note += f", slope {result['memory_slope_mib_per_hour']:.1f} MiB/h"
    events = ""
    if hasattr(history, "swaps"):
        events = f"{history.swaps} replaced files, {history.live_comparisons} comparisons of the changing model, {restarts} killed readers"
    wrong = lambda kind: sum(text.startswith(f"{kind}:") for text in history.wrong)  # noqa: E731
    lines = [
        {"name": "soak", "count": round(len(series) / 60, 1), "unit": "minutes", "failures": len(failures), "note": note},
        {"name": "soak: answers", "count": history.compared - history.changes, "unit": "requests", "failures": len(history.wrong) - wrong("writer") - wrong("bad client"), "note": events},
        {"name": "soak: changes", "count": history.changes, "unit": "changes", "failures": wrong("writer"), "note": "each change is checked by the next request"},
        {"name": "soak: bad clients", "count": history.bad, "unit": "requests", "failures": wrong("bad client"), "note": "truncated, slow, oversized, wrong"},
    ]
    title = f"nuq serve for {len(series) / 60:.0f} minutes at {LOAD:.0%} of its capacity"
    statuses = {kind: dict(counts) for kind, counts in history.statuses.items()}
    # A short run takes no place in the documentation, unless it has failed.
    folder = FOLDER if failures or minutes >= FULL_MINUTES else FOLDER / "short"
    path = record(
        "soak", lines, folder, capacity=round(capacity, 1), verdict=result, failures=failures, wrong=history.wrong[:20], statuses=statuses,
        write_p99=percentile(history.write_latencies, 0.99), seconds=series,
    )
    figure = folder / "soak.svg"
    if latencies:
        figure.write_text(soak_figure.draw(series, title, result["warm_up_seconds"]))
    for line in lines:
        print(f"{line['name']}: {line['count']} {line['unit']}, {line['failures']} failures; {line['note']}")
    for kind, counts in statuses.items():
        print(f"  {kind}: " + ", ".join(f"{status} × {count}" for status, count in sorted(counts.items())))
    for text in failures + history.wrong[:5]:
        print(f"soak: FAILED: {text}")
    print(f"soak: {'failed' if failures else 'passed'}; {path}{f', {figure}' if latencies else ''}", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nuq", required=True, help="the program")
    parser.add_argument("--minutes", type=float, required=True, help="duration of the load")
    options = parser.parse_args()
    if not options.minutes >= 0.5:
        parser.error("--minutes must be at least 0.5")
    folder = Path(tempfile.mkdtemp(prefix="nuq-soak-"))
    try:
        result = soak(options.nuq, options.minutes, folder)
    except Failure as failure:
        # The service has failed before the load, or in its first seconds: there is nothing else to record.
        line = {"name": "soak", "count": 0, "unit": "minutes", "failures": 1, "note": "failed"}
        path = record("soak", [line], failures=[str(failure)])
        print(f"soak: FAILED: {failure}\nsoak: failed; {path}", flush=True)
        result = 1
    if result == 0:
        shutil.rmtree(folder)
    return result


if __name__ == "__main__":
    sys.exit(main())
