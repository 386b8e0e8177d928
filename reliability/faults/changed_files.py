"""Files that are shortened while a process uses them, and clocks that jump.

A file is cut to half of its length directly after the process has mapped or opened it. A command ends with exit code 3 and a message that
names the file, and writes nothing; a server goes on with the model that it has read.
"""

import json
import shutil
import subprocess
from pathlib import Path

import data
from commands import PARTIAL, TIMEOUT, Outcome, arrays, tree
from injector import Fault
from service import Server, matrix

# A mapped array has at least 64 MiB.
LARGE_ROWS, LARGE_COLUMNS = 70_000, 256


def large_npy(path: Path):
    """Writes an array that is mapped: few different rows, so that it is written quickly."""
    values, labels = data.rows(64, LARGE_COLUMNS, seed=8)
    block = data.npy(values, (LARGE_ROWS, LARGE_COLUMNS))
    start = len(block) - 4 * len(values)
    header, rows = block[:start], block[start:]
    with open(path, "wb") as file:
        file.write(header)
        # Rows of different blocks differ by one byte, so that they are not equal.
        left = LARGE_ROWS
        for i in range(-(-LARGE_ROWS // 64)):
            part = bytearray(rows)
            for row in range(64):
                part[row * 4 * LARGE_COLUMNS] = i % 251
                part[row * 4 * LARGE_COLUMNS + 4] = i // 251
            file.write(part[: 4 * LARGE_COLUMNS * min(64, left)])
            left -= 64


class ChangedFiles:
    """Shortens files."""

    def __init__(self, nuq, injector, folder: Path, quick):
        self.nuq, self.injector, self.quick = nuq, injector, quick
        self.folder = folder / "changed"

    def run(self, name):
        """Commands whose inputs or models are shortened."""
        outcome = Outcome(name)
        fit = ["fit", "-e", "train.npz:x", "-l", "train.npz:y", "-k", "5"]
        large = ["fit", "-e", "large.npy", "-l", "large_labels.npy", "-k", "5", "--index", "exact", "--selection-rows", "50", "--density",
                 "kde", "-o", "new.nuq"]
        commands = {
            "score": ["score", "-m", "model.nuq", "-e", "held_out.npy", "-o", "s.csv"],
            "score, shards": ["score", "-m", "shards", "-e", "held_out.npy", "-o", "s.csv"],
            "score, csv": ["score", "-m", "model.nuq", "-e", "held_out.csv", "-o", "s.npz", "--ignore-column-names"],
            "calibrate": ["calibrate", "-m", "model.nuq", "-e", "held_out.npy", "--target", "coverage=0.9", "-o", "c.nuq"],
            "calibrate, in place": ["calibrate", "-m", "model.nuq", "-e", "held_out.npy", "--target", "coverage=0.9"],
            "inspect": ["inspect", "model.nuq", "--verify"],
            "label-issues": ["label-issues", "model.nuq", "-o", "i.csv"],
            "fit": [*fit, "-o", "new.nuq"],
            **({} if self.quick else {"fit, large array": large}),
        }
        template = self.folder / "template"
        shutil.rmtree(self.folder, ignore_errors=True)
        template.mkdir(parents=True)
        arrays(template)
        # A model of several pages, so that half of it is missing.
        values, labels = data.rows(3000, 16, seed=6)
        data.npz(template / "train.npz", x=data.npy(values, (3000, 16)), y=data.npy(labels, (3000,), "<i8"))
        held_out, _ = data.rows(40, 16, seed=2)
        (template / "held_out.npy").write_bytes(data.npy(held_out, (40, 16)))
        (template / "held_out.csv").write_bytes(data.csv(held_out, 16))
        if not self.quick:
            large_npy(template / "large.npy")
            (template / "large_labels.npy").write_bytes(data.npy([i % 2 for i in range(LARGE_ROWS)], (LARGE_ROWS,), "<i8"))
        for out in (["-o", "model.nuq"], ["--shards", "3", "-o", "shards"]):
            subprocess.run([self.nuq, *fit, *out, "--quiet"], cwd=template, check=True)
        work = self.folder / "work"
        for command, words in commands.items():
            used = [path for path in template.iterdir() if "large" not in path.name or "large" in command]
            for kind in ("map", "open"):
                for number in range(1, 100):
                    shutil.rmtree(work, ignore_errors=True)
                    work.mkdir()
                    for path in used:
                        (shutil.copytree if path.is_dir() else shutil.copy)(path, work / path.name)
                    before = tree(work)
                    fault = Fault(kind, number, "shrink")
                    environment = self.injector.environment([work], fault)
                    try:
                        done = subprocess.run(
                            [self.nuq, *words], cwd=work, env=environment, capture_output=True, timeout=6 * TIMEOUT, stdin=subprocess.DEVNULL
                        )
                    except subprocess.TimeoutExpired:
                        outcome.failures.append(f"{command}, {fault}: it did not end")
                        continue
                    if not self.injector.has_failed:
                        break
                    self.check(outcome, f"{command}, {fault}", done, before, tree(work))
        return outcome

    def check(self, outcome, what, done, before, now):
        """Counts a run in which a file was shortened."""
        hit, stderr = Path(self.injector.path).name, done.stderr.decode(errors="replace")
        name = PARTIAL.sub("", hit)
        # The file that was cut, and outputs of a successful run, are expected to differ.
        changed = {path for path in {*before, *now} if before.get(path) != now.get(path) and Path(path).name != hit}
        problem = None
        if done.returncode < 0:
            problem = f"it was ended by signal {-done.returncode}"
        elif "panicked" in stderr:
            problem = "a thread panicked"
        elif [path for path in now if PARTIAL.search(path)]:
            problem = "temporary files are left"
        elif done.returncode == 0 and PARTIAL.search(hit) is None and before.get(hit) == now.get(hit) is None:
            problem = "exit code 0 for a file that was shortened"
        elif done.returncode and changed:
            problem = f"an error, but files have changed: {sorted(changed)}"
        elif done.returncode and name not in stderr and Path(self.injector.path).parent.name not in stderr:
            problem = "the message does not name the file"
        if problem:
            outcome.failures.append(f"{what} ({hit}): {problem}; exit code {done.returncode}, message: {stderr.strip()}")
        outcome.count(done.returncode != 0)

    def serve(self, name):
        """A server whose model file is shortened, overwritten and removed."""
        outcome = Outcome(name)
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir()
        values, labels = data.rows(3000, 16, seed=6)
        data.npz(self.folder / "train.npz", x=data.npy(values, (3000, 16)), y=data.npy(labels, (3000,), "<i8"))
        fit = ["fit", "-e", "train.npz:x", "-l", "train.npz:y", "-k", "5", "-o", "m.nuq", "--quiet"]
        for index in ("exact", "hnsw"):
            subprocess.run([self.nuq, *fit, "--index", index], cwd=self.folder, check=True)
            contents = (self.folder / "m.nuq").read_bytes()
            # With changes in the state: a later start reads them and the model again.
            server = Server(self.nuq, ["-m", "m.nuq", "--state", f"state-{index}"], cwd=self.folder)
            body = {"rows": matrix(20, seed=3, columns=16)}
            expected = server.request("POST", "/v1/models/m/score", body)
            if expected[0] != 200:
                outcome.failures.append(f"without a fault: {expected} {server.text}")
            cuts = [len(contents) - 1, len(contents) // 2, 4096, 100, 0]
            for cut in cuts:
                with open(self.folder / "m.nuq", "r+b") as file:
                    file.truncate(cut)
                self.compare(outcome, f"{index}, cut to {cut} bytes", server, body, expected)
                status, answer = server.request("POST", "/v1/models/m/reload")
                if status == 200 or b"m.nuq" not in answer:
                    outcome.failures.append(f"{index}: a file of {cut} bytes was reloaded: {status} {answer}")
            (self.folder / "m.nuq").write_bytes(bytes(len(contents)))
            self.compare(outcome, f"{index}, overwritten", server, body, expected)
            (self.folder / "m.nuq").unlink()
            self.compare(outcome, f"{index}, removed", server, body, expected)
            insert = server.request("POST", "/v1/models/m/rows", {"rows": matrix(2, seed=9, columns=16), "labels": [0, 1]})
            if insert[0] != 200:
                outcome.failures.append(f"{index}: rows cannot be added: {insert}")
            (self.folder / "m.nuq").write_bytes(contents)
            status, answer = server.request("POST", "/v1/models/m/reload")
            if status != 200:
                outcome.failures.append(f"{index}: the restored file cannot be reloaded: {answer}")
            code = server.stop()
            if code != 0 or "panicked" in server.text:
                outcome.failures.append(f"{index}: exit code {code}: {server.text}")
        return outcome

    def compare(self, outcome, what, server, body, expected):
        """Compares the scores of a server with those before."""
        answer = server.request("POST", "/v1/models/m/score", body)
        if answer != expected:
            outcome.failures.append(f"{what}: {answer[0]} {answer[1][:200]}; exit code {server.process.poll()}")
        outcome.count(False)

    def clocks(self, name):
        """A server while the time of day jumps: it answers, changes are accepted, and the next server has them."""
        outcome = Outcome(name)
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir()
        arrays(self.folder)
        fit = ["fit", "-e", "train.npz:x", "-l", "train.npz:y", "-k", "5", "-o", "m.nuq", "--quiet"]
        subprocess.run([self.nuq, *fit], cwd=self.folder, check=True)
        day = 86400
        # The last ones are before 1970 and in the year 2300.
        jumps = [1, -1, 3600, -3600, day, -day, 40 * day, -40 * day, 0, -70 * 365 * day, 0, 280 * 365 * day, 0]
        environment = self.injector.environment([self.folder / "none"])
        words = ["-m", "m.nuq", "--state", "state"]
        server = Server(self.nuq, words, environment, cwd=self.folder)
        body, stored = {"rows": matrix(20, seed=3)}, 0
        calibrate = {"rows": matrix(40, seed=21), "false_alarm": 0.1, "name": "main"}
        expected = None
        for i, jump in enumerate(jumps):
            self.injector.report.clock_offset = jump
            requests = [("POST", "score", body), ("POST", "thresholds", calibrate)]
            requests += [("GET", path, None) for path in ("activity", "distribution", "drift", "recent", "changes", "")]
            for method, path, sent in requests:
                status, answer = server.request(method, f"/v1/models/m/{path}".rstrip("/"), sent)
                if status != 200:
                    outcome.failures.append(f"clock {jump:+} s, {path}: {status} {answer[:300]}; exit code {server.process.poll()}")
                stored += status == 200 and path == "thresholds"
                if path == "score" and status == 200:
                    # The decision depends on the threshold.
                    totals = [row["total"] for row in json.loads(answer)["rows"]]
                    expected = expected or totals
                    if totals != expected:
                        outcome.failures.append(f"clock {jump:+} s: the scores differ")
            if i % 4 == 3 or self.quick and i == len(jumps) - 1:
                # The next server starts at this time.
                code = server.stop()
                if code != 0 or "panicked" in server.text:
                    outcome.failures.append(f"clock {jump:+} s: exit code {code}: {server.text}")
                server = Server(self.nuq, words, environment, cwd=self.folder)
                if not server.has_started:
                    outcome.failures.append(f"clock {jump:+} s: the server does not start: {server.text}")
                    return outcome
            outcome.count(False)
        listed = json.loads(server.request("GET", "/v1/models/m/changes?limit=1000")[1])
        code = server.stop()
        if len(listed) != stored or code != 0 or "panicked" in server.text:
            outcome.failures.append(f"{stored} changes were acknowledged, and {len(listed)} are stored; exit code {code}: {server.text}")
        return outcome
