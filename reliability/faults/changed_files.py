"""Files that are shortened while a process uses them, and clocks that jump.

A file is cut to half of its length directly after the process has mapped or opened it. A command that notices the cut ends with exit code 3
and a message that names the file, and writes nothing; the exit code is 1 if the command begins to read the file only after the cut and
finds it damaged. With exit code 0 the outputs are those of a run without a fault. Only a text table may also give the outputs of a table that
was cut before the start, because a shorter table is valid. A server continues with the model that it has already read, and with its other
models.
"""

import json
import shutil
import subprocess
import time
from pathlib import Path

import data
from commands import PARTIAL, SHARDS, TIMEOUT, Outcome, arrays, differences, tree
from injector import Fault
from service import Server, matrix, message

# The size of the large array. nuq maps arrays of at least 64 MiB.
LARGE_ROWS, LARGE_COLUMNS = 70_000, 256


def large_npy(path: Path):
    """Writes an array that is large enough to be mapped. A block of 64 rows is repeated, so that the array is written quickly."""
    values, labels = data.rows(64, LARGE_COLUMNS, seed=8)
    block = data.npy(values, (LARGE_ROWS, LARGE_COLUMNS))
    start = len(block) - 4 * len(values)
    header, rows = block[:start], block[start:]
    with open(path, "wb") as file:
        file.write(header)
        # The lowest bytes of the first two columns contain the number of the block, so that no two rows are equal.
        left = LARGE_ROWS
        for i in range(-(-LARGE_ROWS // 64)):
            part = bytearray(rows)
            for row in range(64):
                part[row * 4 * LARGE_COLUMNS] = i % 251
                part[row * 4 * LARGE_COLUMNS + 4] = i // 251
            file.write(part[: 4 * LARGE_COLUMNS * min(64, left)])
            left -= 64


def cut(contents):
    """What `inject.c` leaves of a file."""
    return contents[: len(contents) // 2]


def check(done, hit, before, now, results):
    """What is wrong with a run in which the file `hit` was cut; `None` if nothing is. `before` and `now` are the files before and after the run,
    and `results` the standard outputs and files that it may leave with exit code 0."""
    if done is None:
        return "it did not end"
    stderr = done.stderr.decode(errors="replace")
    if done.returncode < 0:
        return f"it was ended by signal {-done.returncode}"
    if "panicked" in stderr:
        return "a thread panicked"
    if [path for path in now if PARTIAL.search(path)]:
        return "temporary files are left"
    if done.returncode == 0:
        if (done.stdout, now) in results:
            return None
        return f"exit code 0, but the outputs are not those of a run without a fault; other files: {differences(now, results[0][1])}"
    permitted = (1, 3) if hit in before else (3,)
    if done.returncode not in permitted:
        return f"the exit code is not {' or '.join(map(str, permitted))}"
    changed = sorted(path for path in {*before, *now} if before.get(path) != now.get(path) and path != hit)
    if changed:
        return f"an error, but files have changed: {changed}"
    if PARTIAL.sub("", Path(hit).name) not in stderr and not any(part in stderr for part in Path(hit).parts[:-1]):
        return "the message does not name the file"
    return None


class ChangedFiles:
    """Shortens files and changes the clock while commands and servers run."""

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
            "score, shards": ["score", "-m", SHARDS, "-e", "held_out.npy", "-o", "s.csv"],
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
        # The model file has several memory pages, so that whole pages are missing after it is cut to half of its length.
        values, labels = data.rows(3000, 16, seed=6)
        data.npz(template / "train.npz", x=data.npy(values, (3000, 16)), y=data.npy(labels, (3000,), "<i8"))
        held_out, _ = data.rows(40, 16, seed=2)
        (template / "held_out.npy").write_bytes(data.npy(held_out, (40, 16)))
        (template / "held_out.csv").write_bytes(data.csv(held_out, 16))
        if not self.quick:
            large_npy(template / "large.npy")
            (template / "large_labels.npy").write_bytes(data.npy([i % 2 for i in range(LARGE_ROWS)], (LARGE_ROWS,), "<i8"))
        for out in (["-o", "model.nuq"], ["--shards", "3", "-o", SHARDS]):
            subprocess.run([self.nuq, *fit, *out, "--quiet"], cwd=template, check=True)
        work = self.folder / "work"
        for command, words in commands.items():
            used = [path for path in template.iterdir() if "large" not in path.name or "large" in command]

            def fresh():
                shutil.rmtree(work, ignore_errors=True)
                work.mkdir()
                for path in used:
                    (shutil.copytree if path.is_dir() else shutil.copy)(path, work / path.name)
                return tree(work)

            before = fresh()
            done = self.start(words, work, self.injector.environment([work]))
            printed, complete = done and done.stdout, tree(work)
            if done is None or done.returncode != 0:
                text = "it did not end" if done is None else f"exit code {done.returncode}, {done.stderr.decode(errors='replace')}"
                outcome.failures.append(f"{command}, without a fault: {text}")
                continue
            for kind in ("map", "open"):
                for number in range(1, 100):
                    fresh()
                    fault = Fault(kind, number, "shrink")
                    done = self.start(words, work, self.injector.environment([work], fault))
                    if not self.injector.has_injected:
                        break
                    # The next run resets the report of the injector.
                    hit, now = str(Path(self.injector.path).relative_to(work)), tree(work)
                    # A file that the command does not write stays cut.
                    is_input = hit in before and before[hit] == complete.get(hit)
                    results = [(printed, complete | {hit: cut(before[hit])} if is_input else complete)]
                    if done is not None and done.returncode == 0 and is_input and hit.endswith(".csv"):
                        fresh()
                        (work / hit).write_bytes(cut(before[hit]))
                        shorter = self.start(words, work, self.injector.environment([work]))
                        results.append((shorter and shorter.stdout, tree(work)))
                    problem = check(done, hit, before, now, results)
                    if problem:
                        message = "" if done is None else done.stderr.decode(errors="replace").strip()
                        outcome.failures.append(
                            f"{command}, {fault} ({hit}): {problem}; exit code {done and done.returncode}, message: {message}"
                        )
                    outcome.count(done is None or done.returncode != 0)
        return outcome

    def start(self, words, work, environment):
        """Runs a command; `None` after the timeout."""
        try:
            return subprocess.run(
                [self.nuq, *words], cwd=work, env=environment, capture_output=True, timeout=6 * TIMEOUT, stdin=subprocess.DEVNULL
            )
        except subprocess.TimeoutExpired:
            return None

    def serve(self, name):
        """A server of two models: the file of `m` is shortened, overwritten and removed, and `other` is not changed."""
        outcome = Outcome(name)
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir()
        values, labels = data.rows(3000, 16, seed=6)
        data.npz(self.folder / "train.npz", x=data.npy(values, (3000, 16)), y=data.npy(labels, (3000,), "<i8"))
        fit = ["fit", "-e", "train.npz:x", "-l", "train.npz:y", "--quiet"]
        subprocess.run([self.nuq, *fit, "-k", "9", "-o", "other.nuq"], cwd=self.folder, check=True)
        for index in ("exact", "hnsw"):
            subprocess.run([self.nuq, *fit, "-k", "5", "-o", "m.nuq", "--index", index], cwd=self.folder, check=True)
            contents = (self.folder / "m.nuq").read_bytes()
            # The server has a state folder, in which the rows that are added below are stored.
            server = Server(self.nuq, ["-m", "m.nuq", "-m", "other.nuq", "--state", f"state-{index}"], cwd=self.folder)
            body = {"rows": matrix(20, seed=3, columns=16)}
            expected = {model: server.request("POST", f"/v1/models/{model}/score", body) for model in ("m", "other")}
            if any(status != 200 for status, _ in expected.values()):
                outcome.failures.append(f"without a fault: {expected} {server.text}")
            for length in (len(contents) - 1, len(contents) // 2, 4096, 100, 0):
                with open(self.folder / "m.nuq", "r+b") as file:
                    file.truncate(length)
                self.compare(outcome, f"{index}, cut to {length} bytes", server, body, expected)
                status, answer = server.request("POST", "/v1/models/m/reload")
                if status == 200 or "m.nuq" not in message(answer):
                    outcome.failures.append(f"{index}: a file of {length} bytes was reloaded, or the error does not name it: {status} {answer}")
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
        self.serve_shards(outcome)
        return outcome

    def serve_shards(self, outcome):
        """A server whose shards are shortened or overwritten in place: requests are errors and not wrong scores, the other model gives the same
        scores as before, and the restored files can be reloaded."""
        fit = ["fit", "-e", "train.npz:x", "-l", "train.npz:y", "-k", "5", "--shards", "3", "-o", "m", "--quiet"]
        subprocess.run([self.nuq, *fit], cwd=self.folder, check=True)
        files = {path: path.read_bytes() for path in (self.folder / "m").glob("rows-*")}
        server = Server(self.nuq, ["-m", "m", "-m", "other.nuq", "--state", "state-shards"], cwd=self.folder)
        body = {"rows": matrix(20, seed=3, columns=16)}
        former = server.request("POST", "/v1/models/m/score", body)
        # The labels are part of the manifest, and a change of labels must not be lost.
        relabeled = server.request("POST", "/v1/models/m/rows/relabel", {"ids": list(range(1500)), "labels": [1] * 1500})
        expected = server.request("POST", "/v1/models/m/score", body)
        other = {"other": server.request("POST", "/v1/models/other/score", body)}
        if {former[0], relabeled[0], expected[0], other["other"][0]} != {200} or former[1] == expected[1]:
            outcome.failures.append(f"shards, without a fault: {relabeled} {expected} {server.text}")
        length = len(next(iter(files.values())))
        changes = {f"cut to {cut_to} bytes": lambda contents, cut_to=cut_to: contents[:cut_to] for cut_to in (length - 1, length - 5000, 4096, 100, 0)}
        # The second half of a file contains rows only.
        changes["overwritten"] = lambda contents: contents[: length // 2] + bytes(255 - byte for byte in contents[length // 2 :])
        for what, change in changes.items():
            for path, contents in files.items():
                with open(path, "r+b") as file:
                    file.write(changed := change(contents))
                    file.truncate(len(changed))
            status, answer = server.request("POST", "/v1/models/m/score", body)
            if status != 500:
                outcome.failures.append(f"shards, {what}: {status} {answer[:200]}; exit code {server.process.poll()}")
            self.compare(outcome, f"shards, {what}", server, body, other, is_error=True)
            status, answer = server.request("POST", "/v1/models/m/reload")
            if status == 200 or not any(path.name in message(answer) for path in files):
                outcome.failures.append(f"shards, {what}: the file was reloaded, or the error does not name it: {status} {answer}")
            for path, contents in files.items():
                path.write_bytes(contents)
            status, answer = server.request("POST", "/v1/models/m/reload")
            if status != 200:
                outcome.failures.append(f"shards: the restored files cannot be reloaded: {answer}")
            self.compare(outcome, f"shards, restored after they were {what}", server, body, {"m": expected, **other})
        code = server.stop()
        if code != 0 or "panicked" in server.text:
            outcome.failures.append(f"shards: exit code {code}: {server.text}")

    def compare(self, outcome, what, server, body, expected, is_error=False):
        """Compares the scores of models with those before a file was changed: `expected` are the former answers by model. Counts the change."""
        for model, former in expected.items():
            answer = server.request("POST", f"/v1/models/{model}/score", body)
            if answer != former:
                outcome.failures.append(f"{what}, model {model}: {answer[0]} {answer[1][:200]}; exit code {server.process.poll()}")
        outcome.count(is_error)

    def clocks(self, name):
        """A server while the time of day jumps: it answers and accepts changes with the changed time, and the next server has these changes."""
        outcome = Outcome(name)
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir()
        arrays(self.folder)
        fit = ["fit", "-e", "train.npz:x", "-l", "train.npz:y", "-k", "5", "-o", "m.nuq", "--quiet"]
        subprocess.run([self.nuq, *fit], cwd=self.folder, check=True)
        day = 86400
        # The two largest jumps lead to a time before 1970 and to a time after the year 2300. A jump of 0 is the real time.
        jumps = [1, -1, 3600, -3600, day, -day, 40 * day, -40 * day, 0, -70 * 365 * day, 0, 280 * 365 * day, 0]
        # The folder `none` does not exist, so no system call is counted. Only the offset of the clock is used.
        environment = self.injector.environment([self.folder / "none"])
        words = ["-m", "m.nuq", "--state", "state"]
        server = Server(self.nuq, words, environment, cwd=self.folder)
        body, acknowledged = {"rows": matrix(20, seed=3)}, 0
        calibrate = {"rows": matrix(40, seed=21), "false_alarm": 0.1, "name": "main"}
        expected = None
        for i, jump in enumerate(jumps):
            self.injector.report.clock_offset = jump
            changed_at = None
            requests = [("POST", "score", body), ("POST", "thresholds", calibrate)]
            requests += [("GET", path, None) for path in ("activity", "distribution", "drift", "recent", "changes", "")]
            for method, path, sent in requests:
                status, answer = server.request(method, f"/v1/models/m/{path}".rstrip("/"), sent)
                if status != 200:
                    outcome.failures.append(f"clock {jump:+} s, {path}: {status} {answer[:300]}; exit code {server.process.poll()}")
                if path == "thresholds" and status == 200:
                    acknowledged += 1
                    # A time before 1970 is stored as 0.
                    changed_at = max(time.time() + jump, 0.0)
                if path == "changes" and status == 200 and changed_at is not None:
                    # The newest change is the first one. Its answer has arrived within the time limit of a request.
                    times = [change["time"] / 1000 for change in json.loads(answer)]
                    if not times or abs(times[0] - changed_at) > TIMEOUT:
                        outcome.failures.append(f"clock {jump:+} s: a change at {changed_at:.0f} s is stored with the time {times[:1]}")
                if path == "score" and status == 200:
                    # Only the totals are compared: the decisions depend on the threshold, which is set after the first scores.
                    totals = [row["total"] for row in json.loads(answer)["rows"]]
                    expected = expected or totals
                    if totals != expected:
                        outcome.failures.append(f"clock {jump:+} s: the scores differ")
            if i % 4 == 3 or i == len(jumps) - 1:
                # The next server starts while the clock has this offset. The last one reads all changes, which are counted below.
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
        if len(listed) != acknowledged or code != 0 or "panicked" in server.text:
            outcome.failures.append(f"{acknowledged} changes were acknowledged, and {len(listed)} are stored; exit code {code}: {server.text}")
        return outcome
