"""Limits of the system: a full disk, a read-only folder, few file descriptors, little address space.

Each command is run with each limit. It ends with the right result, or with an error code and a message; its output is the old file or the
complete new file, and no temporary file is left. A server with a limit either starts or ends with a message. A server that has started
answers requests or refuses them with a message, unless its memory is exhausted: it then ends with exit code 4. It keeps every change that it
acknowledges.
"""

import json
import os
import resource
import shutil
import subprocess
from pathlib import Path

import data
from commands import PARTIAL, SHARDS, TIMEOUT, Outcome, arrays, differences, error_of, tree
from service import Server, change_all, changes, matrix, message

# The arguments of `nuq fit` without the output.
FIT = ["fit", "-e", "train.npz:x", "-l", "train.npz:y", "-k", "5"]
# The files that the commands read.
INPUTS = ["train.npz", "held_out.npy", "model.nuq"]
NOBODY = 65534


def commands():
    """The commands: name and words. The last word is the output, and `{out}` is its folder."""
    return {
        "fit": [*FIT, "-o", "{out}/new.nuq"],
        "fit, shards": [*FIT, "--shards", "3", "-o", f"{{out}}/{SHARDS}"],
        "score, csv": ["score", "-m", "model.nuq", "-e", "held_out.npy", "-o", "{out}/s.csv"],
        "score, parquet": ["score", "-m", "model.nuq", "-e", "held_out.npy", "-o", "{out}/s.parquet"],
        "calibrate": ["calibrate", "-m", "model.nuq", "-e", "held_out.npy", "--target", "coverage=0.9", "-o", "{out}/c.nuq"],
    }


def output(words):
    """The name of the output of a command."""
    return Path(words[-1]).name


class Limits:
    """Runs commands with limits."""

    def __init__(self, nuq, folder: Path, quick):
        self.nuq, self.quick = nuq, quick
        self.folder = folder / "limits"

    def prepare(self):
        """Writes the inputs; the folder `out` is empty."""
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir()
        arrays(self.folder)
        subprocess.run([self.nuq, *FIT, "-o", "model.nuq", "--quiet"], cwd=self.folder, check=True)
        (self.folder / "out").mkdir()

    def start(self, words, **options):
        """Runs a command; `None` after the timeout."""
        words = [word.replace("{out}", "out") for word in words]
        try:
            return subprocess.run(
                [self.nuq, *words, "--threads", "2"],
                cwd=self.folder,
                capture_output=True,
                timeout=TIMEOUT,
                stdin=subprocess.DEVNULL,
                **options,
            )
        except subprocess.TimeoutExpired:
            return None

    def check(self, outcome, what, done, old, new, named):
        """Checks and counts a run. `old` are the files of the folder `out` before the run; `new` are those after a run without a limit.
        With exit code 3, the last message must contain one of the names `named`. Other errors need not concern a file: with exit code 4, the memory
        is exhausted or no thread can be started."""
        out = self.folder / "out"
        stderr = "" if done is None else done.stderr.decode(errors="replace")
        now = tree(out)
        problem = None
        if done is None:
            problem = "it did not end"
        elif done.returncode < 0:
            problem = f"it was ended by signal {-done.returncode}"
        elif "panicked" in stderr:
            problem = "a thread panicked"
        elif [name for name in now if PARTIAL.search(name)]:
            problem = f"temporary files are left: {sorted(now)}"
        elif done.returncode == 0 and now != new:
            problem = f"exit code 0, but these files differ: {differences(now, new)}"
        elif done.returncode not in (0, 1, 3, 4) or (done.returncode and "nuq: " not in stderr):
            # The message need not begin a line: another thread may print its failed allocation at the same time.
            problem = "the exit code is not 0, 1, 3 or 4, or the error has no message"
        elif done.returncode and now not in (old, new):
            problem = f"these files are neither the old nor the new ones: {differences(now, old)}"
        elif done.returncode == 3 and not any(name in error_of(stderr) for name in named):
            problem = f"the message names none of {named}"
        if problem:
            outcome.failures.append(f"{what}: {problem}; exit code {done and done.returncode}, message: {stderr.strip()}")
        outcome.count(done is None or done.returncode != 0)

    def expected(self, words):
        """The files of the folder `out` after a command without a limit. The folder is then emptied."""
        done = self.start(words)
        assert done is not None and done.returncode == 0, done
        new = tree(self.folder / "out")
        shutil.rmtree(self.folder / "out")
        (self.folder / "out").mkdir()
        return new

    def full_disk(self, name):
        """Outputs on a file system with few free pages of 4 KiB, for each number of pages until the output fits."""
        outcome = Outcome(name)
        self.prepare()
        out = self.folder / "out"
        for command, words in commands().items():
            new = self.expected(words)
            for pages in range(1, 40, 4 if self.quick else 1):
                mount = ["mount", "-t", "tmpfs", "-o", f"size={4096 * pages}", "nuq-faults", out]
                if subprocess.run(mount, capture_output=True).returncode:
                    outcome.skipped = "a tmpfs cannot be mounted: run it as root"
                    return outcome
                try:
                    done = self.start(words)
                    self.check(outcome, f"{command}, {pages} pages", done, {}, new, [output(words)])
                    if done and done.returncode == 0:
                        break
                finally:
                    subprocess.run(["umount", out], check=True)
            else:
                outcome.failures.append(f"{command}: the output does not fit into {pages} pages; a run with enough pages is missing")
        self.full_state(outcome)
        return outcome

    def full_state(self, outcome):
        """A server whose disk becomes full: changes are refused, rows are scored, and changes are accepted again when there is space."""
        state = self.folder / "state"
        state.mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "nuq-faults", state], check=True)
        try:
            server = Server(self.nuq, ["-m", "m=model.nuq", "--state", "state"], cwd=self.folder)
            try:
                (state / "filler").write_bytes(bytes(4 << 20))
            except OSError:
                pass
            insert = {"rows": matrix(400, seed=5), "labels": [0, 1] * 200}
            statuses = [server.request("POST", "/v1/models/m/rows", insert)[0] for _ in range(3)]
            score = server.request("POST", "/v1/models/m/score", {"rows": matrix(5, seed=6)})[0]
            (state / "filler").unlink()
            again = server.request("POST", "/v1/models/m/rows", insert)
            code = server.stop()
            later = Server(self.nuq, ["-m", "m=model.nuq", "--state", "state"], cwd=self.folder)
            rows = json.loads(later.request("GET", "/v1/models/m")[1])["rows"] if later.has_started else None
            later.stop()
            expected = 60 + 400 * (statuses.count(200) + (again[0] == 200))
            if statuses[-1] != 507 or score != 200 or again[0] != 200 or code != 0 or rows != expected or "panicked" in server.text:
                outcome.failures.append(f"full state: {statuses}, {score}, {again}, {code}, {rows} of {expected} rows: {server.text}")
            for status in statuses:
                outcome.count(status != 200)
        finally:
            subprocess.run(["umount", state], check=True)

    def read_only(self, name):
        """Outputs and states in a folder that cannot be written."""
        outcome = Outcome(name)
        self.prepare()
        out = self.folder / "out"
        options = {}
        if os.geteuid() == 0:
            # Root may write into every folder, so the commands run as another user, who must reach the folder. Only folders of this run are
            # opened for other users.
            options = {"user": NOBODY, "group": NOBODY}
            closed = [path for path in self.folder.parent.parents if not path.stat().st_mode & 1]
            if closed:
                outcome.skipped = f"other users cannot enter {closed[0]}: set TMPDIR to a folder that they can enter"
                return outcome
            for path in (self.folder.parent, self.folder):
                path.chmod(0o755)
        shutil.copy(self.nuq, self.folder / "nuq")
        nuq, self.nuq = self.nuq, self.folder / "nuq"
        try:
            for command, words in commands().items():
                # A user other than root could not write the expected files into the read-only folder of the former command.
                out.chmod(0o755)
                new = self.expected(words)
                out.chmod(0o555)
                self.check(outcome, command, self.start(words, **options), {}, new, [output(words)])
            # Rows are scored, and changes are refused.
            server = Server(self.nuq, ["-m", "m=model.nuq", "--state", "out/state"], cwd=self.folder, **options)
            score = server.request("POST", "/v1/models/m/score", {"rows": matrix(5, seed=6)})[0]
            answers = change_all(server, [name for name, _, _ in changes() if name != "undo"])
            code = server.stop()
            is_refused = all(status == 503 and b"out/state" in answer for status, answer in answers.values())
            if score != 200 or code != 0 or not is_refused or "panicked" in server.text:
                outcome.failures.append(f"a state in a read-only folder: {score}, {answers}, exit code {code}: {server.text}")
            for _ in answers:
                outcome.count(True)
        finally:
            self.nuq = nuq
            out.chmod(0o755)
        return outcome

    def descriptors(self, name):
        """Limits of the number of open files."""
        outcome = Outcome(name)
        self.prepare()
        # The limits start at 4, because the loader needs a descriptor to load the libraries.
        limits = range(4, 24, 4 if self.quick else 1)
        for command, words in commands().items():
            new = self.expected(words)
            for limit in limits:
                limited = lambda limit=limit: resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))
                self.check(outcome, f"{command}, {limit} files", self.start(words, preexec_fn=limited), {}, new, [*INPUTS, output(words)])
                self.empty()
        for limit in range(4, 40, 6 if self.quick else 1):
            limited = lambda limit=limit: resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))
            self.server(outcome, f"serve, {limit} files", limited)
        return outcome

    def memory(self, name):
        """Limits of the address space, from a size with which the program can be loaded."""
        outcome = Outcome(name)
        self.prepare()
        least = next(size for size in range(8, 4096, 4) if self.loads(size << 20))
        sizes = [least + 4 + 4 * i for i in range(16)] + [int(least * 1.25 * 1.2**i) for i in range(16)]
        sizes = sizes[::5] if self.quick else sizes
        for command, words in commands().items():
            new = self.expected(words)
            for size in sizes:
                limited = lambda size=size: resource.setrlimit(resource.RLIMIT_AS, (size << 20, size << 20))
                self.check(outcome, f"{command}, {size} MiB", self.start(words, preexec_fn=limited), {}, new, [*INPUTS, output(words)])
                self.empty()
        for size in sizes:
            limited = lambda size=size: resource.setrlimit(resource.RLIMIT_AS, (size << 20, size << 20))
            self.server(outcome, f"serve, {size} MiB", limited)
        return outcome

    def loads(self, size):
        """Whether the program can be loaded into this address space."""
        limited = lambda: resource.setrlimit(resource.RLIMIT_AS, (size, size))
        return subprocess.run([self.nuq, "--version"], preexec_fn=limited, capture_output=True).returncode == 0

    def empty(self):
        """Empties the folder of the outputs."""
        shutil.rmtree(self.folder / "out")
        (self.folder / "out").mkdir()

    def server(self, outcome, what, limited):
        """A server with a limit: it starts and answers every request, with a message if it refuses it, or it ends with a message; acknowledged
        changes are kept. The message need not name a file: the server may have no descriptor for its address, or no memory for an answer."""
        state = self.folder / "state"
        shutil.rmtree(state, ignore_errors=True)
        words = ["-m", "m=model.nuq", "--state", "state"]
        server = Server(self.nuq, words, cwd=self.folder, preexec_fn=limited)
        answers = change_all(server) if server.has_started else {}
        code = server.stop()
        problem = None
        if "panicked" in server.text:
            problem = "a thread panicked"
        elif code is None or code < 0:
            problem = "it did not end, or was ended by a signal"
        elif not server.has_started and (code not in (1, 3, 4) or "nuq: " not in server.text):
            problem = "it did not start, and has no message"
        elif server.has_started and (code not in (0, 4) or code == 4 and "nuq: " not in server.text):
            problem = "it ended with an error, or without a message"
        elif code == 0 and any(status != 200 and not message(answer) for status, answer in answers.values()):
            # After exit code 4, requests without an answer are right.
            problem = "a request has no answer, or was refused without a message"
        else:
            acknowledged = sum(status == 200 for status, _ in answers.values())
            later = Server(self.nuq, words, cwd=self.folder)
            stored = json.loads(later.request("GET", "/v1/models/m/changes?limit=100")[1]) if later.has_started else None
            later.stop()
            if stored is None or len(stored) < acknowledged:
                problem = f"{acknowledged} changes were acknowledged, and {stored and len(stored)} are stored"
        if problem:
            outcome.failures.append(f"{what}: {problem}; exit code {code}: {answers} {server.text}")
        outcome.count(not server.has_started or any(status != 200 for status, _ in answers.values()))
