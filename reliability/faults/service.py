"""Faults during the writes of `nuq serve --state`, during its recovery, and during its snapshots.

During writes and recovery (`ServiceFaults`), a client makes a fixed list of changes, one after the other: rows are added, removed and
relabeled, a threshold is chosen, and a change is undone. Every answer is recorded. After each fault, these statements must hold:

- the server has ended with exit code 0 after SIGTERM, or it did not start and its message names a file or folder;
- no thread has panicked, every change was answered, and an error other than 404 and 409 names a file or folder;
- a server that has started scores rows after the changes;
- a server without a fault then starts with the same folder, and has every acknowledged change;
- its model equals, byte for byte, the model of a server that made the stored changes without a fault.

During snapshots (`SnapshotFaults`), the client makes one large insertion. After each fault, the first three statements must hold, the
insertion was acknowledged, no temporary file is left (except after a failed unlink), and a later server has all rows.
"""

import http.client
import json
import re
import select
import shutil
import signal
import subprocess
import time
from pathlib import Path

import data
from commands import Outcome
from injector import KINDS, faults

COLUMNS = 4
# The state folder. This name occurs neither in a code nor in the fixed text of a message, so a message that contains it names the folder.
STATE = "state-7f3a"
# Time limit in seconds for the start of a server, for each answer, and for the end of the server.
TIMEOUT = 10.0


class Server:
    """A running `nuq serve`."""

    def __init__(self, nuq, words, environment=None, cwd=None, **options):
        command = [nuq, "serve", "--address", "127.0.0.1:0", "--threads", "2", "--drain-timeout", "2", *words]
        self.process = subprocess.Popen(
            command, env=environment, cwd=cwd, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, **options
        )
        self.log, self.port = b"", None
        end = time.monotonic() + TIMEOUT
        while self.port is None and time.monotonic() < end:
            if not self.read(end - time.monotonic()):
                break
            found = re.search(rb"listening address=.*?:(\d+)\"?\s", self.log)
            self.port = int(found[1]) if found else None

    def read(self, seconds):
        """Reads a part of the log. Returns false at the end of the log, or if nothing arrives within `seconds`."""
        ready, _, _ = select.select([self.process.stderr], [], [], max(seconds, 0.0))
        part = self.process.stderr.read1(65536) if ready else b""
        self.log += part
        return bool(part)

    @property
    def has_started(self):
        """Whether the server has begun to answer requests."""
        return self.port is not None

    def request(self, method, path, body=None, timeout=TIMEOUT):
        """The status and the body of the answer. If there was no answer, the status is 0 and the body describes the problem."""
        if not self.has_started:
            return 0, b"the server has not started"
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)
        try:
            text = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
            connection.request(method, path, text, {} if body is None else {"content-type": "application/json"})
            answer = connection.getresponse()
            return answer.status, answer.read()
        except (OSError, http.client.HTTPException) as error:
            return 0, repr(error).encode()
        finally:
            connection.close()

    def stop(self):
        """Asks the server to end. Returns its exit code; `None` if it had to be killed."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            _, rest = self.process.communicate(timeout=TIMEOUT)
            self.log += rest
            return self.process.returncode
        except subprocess.TimeoutExpired:
            self.process.kill()
            _, rest = self.process.communicate()
            self.log += rest
            return None

    @property
    def text(self):
        """The log."""
        return self.log.decode(errors="replace")


def message(answer):
    """The message of an error; empty if the body is not that of an error."""
    try:
        return json.loads(answer)["error"]["message"]
    except (ValueError, KeyError, TypeError):
        return ""


def names_file(text):
    """Whether a text names the state folder or the model file."""
    return STATE in text or "m.nuq" in text


def matrix(count, seed, columns=COLUMNS):
    """Rows as lists."""
    values, _ = data.rows(count, columns, seed)
    return [values[i : i + columns] for i in range(0, len(values), columns)]


def changes():
    """The changes that the client makes: name, path and body. They do not depend on each other, except that the undo needs the threshold."""
    held_out = {"rows": matrix(20, seed=21), "coverage": 0.9, "name": "main"}
    return [
        ("insert 1", "rows", {"rows": matrix(2, seed=11), "labels": [0, 1]}),
        ("insert 2", "rows", {"rows": matrix(3, seed=12), "labels": [1, 0, 1]}),
        ("remove", "rows/remove", {"ids": [3, 4]}),
        ("relabel", "rows/relabel", {"ids": [5], "labels": [0]}),
        ("threshold", "thresholds", held_out),
        ("undo", None, None),
    ]


def change_all(server, names=None):
    """Makes the changes, or those with these names. Returns the answers by name."""
    answers, last = {}, None
    for name, path, body in changes():
        if names is not None and name not in names:
            continue
        if name == "undo":
            # The threshold is undone. If it was not made, there is nothing to undo.
            if last is None:
                continue
            path, body = f"changes/{last}/undo", None
        status, answer = server.request("POST", f"/v1/models/m/{path}", body)
        answers[name] = (status, answer)
        if name == "threshold" and status == 200:
            last = json.loads(answer)["change"]
    return answers


def kinds(server):
    """The stored changes, oldest first: kind, number of rows, and whether the change undoes another one."""
    status, answer = server.request("GET", "/v1/models/m/changes?limit=1000")
    assert status == 200, answer
    listed = sorted(json.loads(answer), key=lambda change: change["id"])
    return [(change["kind"], len(change["ids"]), change.get("undoes") is not None) for change in listed]


def names_of(stored):
    """The names of stored changes."""
    names = []
    for kind, count, undoes in stored:
        if undoes:
            names.append("undo")
        elif kind == "insert":
            names.append({2: "insert 1", 3: "insert 2"}[count])
        else:
            names.append(kind)
    return names


class ServiceFaults:
    """Injects faults into a server."""

    # The number of columns of the model.
    WIDTH = COLUMNS

    def __init__(self, nuq, injector, folder: Path, quick):
        self.nuq, self.injector, self.quick = nuq, injector, quick
        self.template, self.work = folder / "service", folder / "served"
        self.files = {}

    def prepare(self):
        """Fits the model."""
        for folder in (self.template, self.work):
            shutil.rmtree(folder, ignore_errors=True)
        self.template.mkdir()
        labels = data.write_npy(self.template / "x.npy", 40, self.WIDTH, seed=4)
        (self.template / "y.npy").write_bytes(data.npy(labels, (40,), "<i8"))
        fit = [self.nuq, "fit", "-e", "x.npy", "-l", "y.npy", "-k", "5", "-o", "m.nuq", "--quiet"]
        subprocess.run(fit, cwd=self.template, check=True)

    def fresh(self):
        """A new copy of the template."""
        shutil.rmtree(self.work, ignore_errors=True)
        shutil.copytree(self.template, self.work)

    def serve(self, environment=None, **options):
        """Starts a server of the folder."""
        words = ["-m", "m.nuq", "--state", STATE]
        return Server(self.nuq, words, environment, cwd=self.work, **options)

    def score(self, server):
        """The status and the body of the answer to a request that scores rows."""
        return server.request("POST", "/v1/models/m/score", {"rows": matrix(5, seed=31, columns=self.WIDTH)})

    def file_after(self, names):
        """The model file after the changes `names`, from a server without faults."""
        key = tuple(names)
        if key not in self.files:
            # The folder of the current fault is renamed here, and gets its name back below.
            kept = self.work.with_name("kept")
            shutil.rmtree(kept, ignore_errors=True)
            if self.work.exists():
                self.work.rename(kept)
            self.fresh()
            shutil.rmtree(self.work / STATE, ignore_errors=True)
            server = self.serve()
            # If the threshold was undone, `names` contains both the threshold and the undo.
            change_all(server, names)
            self.files[key] = server.request("GET", "/v1/models/m/file")[1]
            server.stop()
            shutil.rmtree(self.work)
            if kept.exists():
                kept.rename(self.work)
        return self.files[key]

    def run(self, name, recover):
        """Faults while changes are made, or with `recover`, while a server starts with stored changes."""
        outcome = Outcome(name)
        self.prepare()
        if recover:
            self.fresh()
            server = self.serve()
            change_all(server)
            # The server is killed, so that the next server must read the write-ahead log of the database.
            server.process.kill()
            server.process.wait()
            shutil.rmtree(self.template)
            shutil.copytree(self.work, self.template)
        self.fresh()
        server = self.serve(self.injector.environment([self.work]))
        made = {} if recover else change_all(server)
        self.score(server)
        if server.stop() != 0 or any(status != 200 for status, _ in made.values()):
            outcome.failures.append(f"without a fault: {made} {server.text}")
            return outcome
        outcome.calls = self.injector.calls
        for fault in faults(outcome.calls, self.quick):
            self.one(outcome, fault, recover)
        return outcome

    def one(self, outcome, fault, recover):
        """Injects one fault."""
        self.fresh()
        server = self.serve(self.injector.environment([self.work], fault))
        answers = {} if recover or not server.has_started else change_all(server)
        score, code = self.score(server), server.stop()
        if not self.injector.has_injected:
            return
        path, text = self.injector.path, server.text
        acknowledged = [name for name, _, _ in changes()] if recover else [n for n, (status, _) in answers.items() if status == 200]
        problem = self.check(server, code, answers, score) or self.check_recovery(acknowledged)
        if problem:
            lines = "\n".join(line for line in text.splitlines() if " INFO " not in line)
            outcome.failures.append(f"{fault} ({Path(path).name}): {problem}; exit code {code}\n{lines}")
        outcome.count(not server.has_started or any(status != 200 for status, _ in answers.values()))

    def check(self, server, code, answers, score):
        """What is wrong with a server after a fault; `None` if nothing is."""
        if "panicked" in server.text:
            return "a thread panicked"
        if code is None:
            return "the server did not end"
        if code < 0:
            return f"the server was ended by signal {-code}"
        if not server.has_started:
            messages = "\n".join(line for line in server.text.splitlines() if " INFO " not in line)
            if code not in (1, 3):
                return f"the server did not start, and ended with exit code {code}"
            return None if names_file(messages) else "the server did not start, and no message names a file"
        if code != 0:
            return "the server ended with an error"
        for name, (status, answer) in answers.items():
            if status == 0:
                return f"{name}: no answer: {answer}"
            if status not in (200, 404, 409) and not names_file(message(answer)):
                return f"{name}: the message of status {status} names no file: {answer}"
        if score[0] != 200:
            return f"rows are not scored any more: {score}"
        return None

    def check_recovery(self, acknowledged):
        """What is wrong with a server without faults that starts with the same folder; `None` if nothing is."""
        server = self.serve()
        if not server.has_started:
            server.stop()
            return f"a server without a fault does not start afterwards: {server.text}"
        stored = names_of(kinds(server))
        file = server.request("GET", "/v1/models/m/file")[1]
        server.stop()
        lost = [name for name in acknowledged if name not in stored]
        if lost:
            return f"acknowledged changes are lost: {lost} of {acknowledged}, stored: {stored}"
        if file != self.file_after(stored):
            return f"the model differs from the model of the same changes without a fault: {stored}"
        return None


class SnapshotFaults(ServiceFaults):
    """Injects faults while a snapshot is written. The server writes a snapshot after 16 MiB of changes; the one change here is larger."""

    ROWS, WIDTH = 2200, 2000

    def prepare(self):
        for folder in (self.template, self.work):
            shutil.rmtree(folder, ignore_errors=True)
        self.template.mkdir()
        labels = data.write_npy(self.template / "x.npy", 20, self.WIDTH, seed=4)
        (self.template / "y.npy").write_bytes(data.npy(labels, (20,), "<i8"))
        fit = [self.nuq, "fit", "-e", "x.npy", "-l", "y.npy", "-k", "5", "-o", "m.nuq", "--quiet", "--density", "kde"]
        subprocess.run(fit, cwd=self.template, check=True)
        row = b"[" + b",".join(b"%d" % (i % 7) for i in range(self.WIDTH)) + b"]"
        labels = b",".join(b"%d" % (i % 2) for i in range(self.ROWS))
        self.body = b'{"rows":[' + b",".join([row] * self.ROWS) + b'],"labels":[' + labels + b"]}"

    def insert(self, server):
        """Adds the rows. Returns the status and the body of the answer."""
        return server.request("POST", "/v1/models/m/rows", self.body, timeout=60.0)

    def run(self, name):
        """Faults while a snapshot is written: of all calls on files `*.nuq`, and of calls that write the folder or the database to the disk.
        `ServiceFaults` tests other calls on the database."""
        outcome = Outcome(name)
        self.prepare()
        self.inject(outcome, ".nuq", KINDS)
        self.inject(outcome, "", ("sync",))
        return outcome

    def inject(self, outcome, match, kinds):
        """Injects faults into calls on files whose paths contain `match`."""
        self.fresh()
        environment = lambda fault=None: self.injector.environment([self.work / STATE], fault, match)
        server = self.serve(environment())
        inserted, score, code = self.insert(server), self.score(server), server.stop()
        if (inserted[0], score[0], code) != (200, 200, 0) or not list((self.work / STATE).glob("*.nuq")):
            problem = f"an insertion with status {inserted[0]}, scores with status {score[0]}, exit code {code}, or no snapshot"
            outcome.failures.append(f"without a fault: {problem}: {server.text}")
            return
        outcome.calls = {kind: outcome.calls.get(kind, 0) + self.injector.calls[kind] * (kind in kinds) for kind in KINDS}
        for fault in faults(self.injector.calls, self.quick, kinds):
            self.fresh()
            server = self.serve(environment(fault))
            inserted, score, code = self.insert(server), self.score(server), server.stop()
            status = inserted[0]
            if not self.injector.has_injected:
                continue
            outcome.count("no snapshot was written" in server.text)
            problems = [self.check(server, code, {"insert": inserted}, score)]
            # The database must be on the disk before a change is acknowledged. An error of the snapshot does not concern the change.
            may_be_refused = "sqlite" in self.injector.path or fault.lasts and match == ""
            if status != 200 and server.has_started and not may_be_refused:
                problems.append(f"the change was refused with status {status}")
            left = [path.name for path in (self.work / STATE).iterdir() if path.name.endswith(".partial")]
            if left and fault.kind != "unlink":
                problems.append(f"temporary files are left: {left}")
            again = self.serve()
            rows = json.loads(again.request("GET", "/v1/models/m")[1]).get("rows") if again.has_started else None
            again.stop()
            if rows != 20 + self.ROWS and not (rows == 20 and status != 200):
                problems.append(f"a later server has {rows} rows: {again.text}")
            if problem := "; ".join(filter(None, problems)):
                outcome.failures.append(f"{fault} ({Path(self.injector.path).name}): {problem}; exit code {code}\n{server.text}")
