"""Faults during all commands except `nuq serve` (`nuq fit`, `score`, `calibrate` and others), and during `save` of the Python package.

A scenario is a folder with files and a command. The command is run without a fault to count its system calls, and then once for each
fault. After each run with a fault, these statements must hold:

- the process has not panicked, was not ended by a signal, and took less than 10 seconds;
- exit code 0: all files are those of the run without a fault;
- after an interrupted or partial system call (`EINTR`, `short`): the exit code is 0;
- another exit code: it is 3, except after a failed `stat` or lock; the message names a file, and each file is the old one or the complete
  new one, byte for byte;
- no temporary file is left, unless its removal is what failed;
- the command without a fault then succeeds.
"""

import gzip
import re
import shutil
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

import data
from injector import faults

TIMEOUT = 10.0

# The folders that commands write. These names occur in no fixed text of a message, so a message that contains one names the folder.
SHARDS, GUARD = "shards-7f3a", "guard-7f3a"

NUMBER = re.compile(rb"\d[\d.,e-]*")

# The names of temporary files. A file `*.partial` is beside the output; the next write of this output removes it if it is older than a minute.
# A file `nuq-input-*` is in the system's folder of temporary files. The temporary folder of a guard begins with the name of the guard.
PARTIAL = re.compile(rf"(\.\d+-\d+\.partial|nuq-input-\d+-\d+)$|^\.{GUARD}-\d+-")

# The beginning of an error message of `nuq`, and of a Python program. The name in `model.nuq: ` does not begin a message.
ERROR = re.compile(r"(?<![\w.])nuq: |^[\w.]+Error: ", re.MULTILINE)

# Programs of Python. They generate their rows, because the faults are to be injected into calls of nuq. An error of the system must be an
# `OSError`, which ends the program with the same exit code as a command.
PYTHON = """
import sys
import numpy
import nuq
rng = numpy.random.default_rng(4)
rows, labels = rng.normal(size=(20, 4)).astype("float32"), numpy.arange(20) % 2
try:
    {}
except OSError as error:
    print(error, file=sys.stderr)
    sys.exit(3)
"""
SAVE = "nuq.load('model.nuq').save('new.nuq')"
PARTIAL_FIT = "nuq.load('model.nuq').partial_fit(rows, labels).save('model.nuq')"
SAVE_GUARD = f"nuq.Guard(lambda rows: rows, nuq.load('model.nuq')).save('{GUARD}')"
CHANGE_GUARD = f"nuq.load_guard('{GUARD}', lambda rows: rows).calibrate([(rows, None)], coverage=0.5).save('{GUARD}')"


@dataclass
class Outcome:
    """The result of one part (see `__main__.py`): numbers, and descriptions of what was wrong. `calls` are the numbers of system calls in a
    run without a fault, by kind. `skipped` is the reason why the part was not run, or empty."""

    name: str
    calls: dict = field(default_factory=dict)
    faults: int = 0
    errors: int = 0
    unaffected: int = 0
    failures: list = field(default_factory=list)
    seconds: float = 0.0
    skipped: str = ""

    def count(self, is_error):
        """Counts a fault that ended in an error, or in the right result."""
        self.faults += 1
        self.errors += is_error
        self.unaffected += not is_error


@dataclass
class Scenario:
    """A command in a folder. `prepare` writes the files; the paths among the arguments `words` are relative to the folder."""

    name: str
    words: list
    prepare: object
    # The folder of a sharded model that the command writes. After an error it may contain old and new files, and the predictions of the
    # model are compared too.
    model_folder: str = ""
    # The folder that the program writes as a whole. A message may name the folder in place of a file in it.
    guard_folder: str = ""
    # Whether `words` are the lines of a Python program, not the arguments of `nuq`.
    is_python: bool = False


def tree(folder: Path):
    """The contents of all files below a folder, by path; `None` for a folder."""
    return {str(path.relative_to(folder)): contents(path) if path.is_file() else None for path in folder.rglob("*")}


def contents(path: Path):
    """The bytes of a file. In an HTML report every number is replaced by 0, because the report shows times."""
    read = path.read_bytes()
    return NUMBER.sub(b"0", read) if path.suffix == ".html" else read


def arrays(folder: Path):
    """Writes the inputs of the commands."""
    values, labels = data.rows(60, 4, seed=1)
    data.npz(folder / "train.npz", x=data.npy(values, (60, 4)), y=data.npy(labels, (60,), "<i8"))
    (folder / "train.npz.gz").write_bytes(gzip.compress((folder / "train.npz").read_bytes(), mtime=0))
    (folder / "train.csv").write_bytes(data.csv(values, 4))
    held_out, held_out_labels = data.rows(40, 4, seed=2)
    (folder / "held_out.npy").write_bytes(data.npy(held_out, (40, 4)))
    (folder / "held_out_labels.npy").write_bytes(data.npy(held_out_labels, (40,), "<i8"))
    (folder / "held_out.csv").write_bytes(data.csv(held_out, 4))
    other, _ = data.rows(30, 4, seed=3)
    (folder / "other.npy").write_bytes(data.npy([value + 9 for value in other], (30, 4)))


def scenarios(nuq, python=None):
    """All scenarios. Those of the Python package require `python`, an interpreter with this package."""

    def run(folder, *words):
        subprocess.run([nuq, *words, "--quiet"], cwd=folder, check=True, capture_output=True)

    def old(name):
        def prepare(folder):
            arrays(folder)
            (folder / name).write_bytes(b"the former contents of the output")

        return prepare

    fit = ["fit", "-e", "train.npz:x", "-l", "train.npz:y", "-k", "5"]

    def model(folder, out=""):
        arrays(folder)
        run(folder, *fit, "-o", "model.nuq")
        if out:
            (folder / out).write_bytes(b"the former contents of the output")

    def with_model(out=""):
        return lambda folder: model(folder, out)

    def shards(folder):
        arrays(folder)
        # The old model has the same training rows as the new model, and therefore the same shard files. Only the manifests differ.
        run(folder, *fit, "--shards", "3", "-o", SHARDS, "--seed", "1", "--bandwidth", "0.5")

    def other_shards(folder):
        arrays(folder)
        run(folder, "fit", "-e", "held_out.npy", "-l", "held_out_labels.npy", "-k", "5", "--shards", "2", "-o", SHARDS)

    def table(folder):
        model(folder)
        run(folder, "score", "-m", "model.nuq", "-e", "held_out.npy", "-o", "table.parquet")

    def program(line):
        return ["-I", "-c", PYTHON.format(line)]

    def guard(folder):
        model(folder)
        run(folder, "calibrate", "-m", "model.nuq", "-e", "held_out.npy", "--target", "coverage=0.9", "--name", "guard")
        subprocess.run([python, *program(SAVE_GUARD)], cwd=folder, check=True, capture_output=True)

    score = ["score", "-m", "model.nuq"]
    python_scenarios = [
        Scenario("Python, save", program(SAVE), with_model("new.nuq"), is_python=True),
        Scenario("Python, partial_fit", program(PARTIAL_FIT), with_model(), is_python=True),
        Scenario("Python, guard", program(CHANGE_GUARD), guard, guard_folder=GUARD, is_python=True),
    ]
    return (python_scenarios if python else []) + [
        Scenario("fit", [*fit, "-o", "new.nuq"], arrays),
        Scenario("fit, replace", [*fit, "-o", "model.nuq", "--seed", "3"], with_model()),
        Scenario("fit, csv", ["fit", "-e", "train.csv:-x3", "--targets", "train.csv:x3", "-k", "5", "-o", "new.nuq"], old("new.nuq")),
        Scenario("fit, baseline", ["fit", "--method", "mahalanobis", "-e", "train.npz:x", "-l", "train.npz:y", "-o", "b.nuq"], old("b.nuq")),
        Scenario("fit, shards", [*fit, "--shards", "3", "-o", SHARDS], arrays, SHARDS),
        Scenario("fit, same shards", [*fit, "--shards", "3", "-o", SHARDS], shards, SHARDS),
        Scenario("fit, other shards", [*fit, "--shards", "3", "-o", SHARDS], other_shards, SHARDS),
        Scenario("score, csv", [*score, "-e", "held_out.npy", "-o", "s.csv"], with_model("s.csv")),
        Scenario("score, csv.gz", [*score, "-e", "held_out.npy", "-o", "s.csv.gz"], with_model("s.csv.gz")),
        Scenario("score, npz", [*score, "-e", "held_out.csv", "-o", "s.npz", "--ignore-column-names"], with_model("s.npz")),
        Scenario("score, parquet", [*score, "-e", "held_out.npy", "-o", "s.parquet"], with_model("s.parquet")),
        Scenario("score, jsonl", [*score, "-e", "train.npz:x", "-o", "s.jsonl"], with_model("s.jsonl")),
        Scenario("score, compressed npz", [*score, "-e", "train.npz.gz:x", "-o", "s.csv"], with_model("s.csv")),
        Scenario("score, shards", ["score", "-m", SHARDS, "-e", "held_out.npy", "-o", "s.csv"], shards),
        Scenario(
            "fit, parquet",
            ["fit", "-e", "table.parquet:-row,label", "-l", "table.parquet:label", "-k", "5", "-o", "new.nuq"],
            table,
        ),
        Scenario("calibrate", ["calibrate", "-m", "model.nuq", "-e", "held_out.npy", "--target", "coverage=0.9"], with_model()),
        Scenario(
            "calibrate, sets",
            ["calibrate", "-m", "model.nuq", "-e", "held_out.npy", "-l", "held_out_labels.npy", "--target", "sets=0.8", "-o", "c.nuq"],
            with_model("c.nuq"),
        ),
        Scenario(
            "calibrate, shards", ["calibrate", "-m", SHARDS, "-e", "held_out.npy", "--target", "coverage=0.9"], shards, SHARDS
        ),
        Scenario("inspect", ["inspect", "model.nuq", "--verify"], with_model()),
        Scenario("label-issues", ["label-issues", "model.nuq", "-o", "issues.csv"], with_model("issues.csv")),
        Scenario("suggest", ["suggest", "-m", "model.nuq", "-e", "other.npy", "-n", "5", "-o", "next.csv"], with_model("next.csv")),
        Scenario(
            "evaluate",
            ["evaluate", "-m", "model.nuq", "--test", "held_out.npy", "-l", "held_out_labels.npy", "--ood", "other=other.npy", "--resamples", "100",
             "--report", "report.html"],
            with_model("report.html"),
        ),
    ]


class CommandFaults:
    """Injects faults into the commands of scenarios."""

    def __init__(self, nuq, python, injector, folder: Path, quick):
        self.nuq, self.python, self.injector, self.quick = nuq, python, injector, quick
        self.template, self.work = folder / "template", folder / "work-7f3a"

    def start(self, scenario, environment):
        """Runs the command in a copy of the template. Returns the process, or `None` after the timeout."""
        if self.work.exists():
            shutil.rmtree(self.work)
        shutil.copytree(self.template, self.work)
        return self.again(scenario, environment)

    def again(self, scenario, environment):
        """Runs the command in the folder as it is."""
        command = [self.python, *scenario.words] if scenario.is_python else [self.nuq, *scenario.words, "--threads", "2"]
        # Temporary files are created in this folder, so that calls on them are counted too.
        environment["TMPDIR"] = str(self.work)
        try:
            return subprocess.run(command, cwd=self.work, env=environment, capture_output=True, timeout=TIMEOUT, stdin=subprocess.DEVNULL)
        except subprocess.TimeoutExpired:
            return None

    def predictions(self, folder):
        """The scores of a sharded model; `None` if it cannot be opened."""
        out = self.work.parent / "predictions.csv"
        command = [self.nuq, "score", "-m", folder, "-e", self.work / "held_out.npy", "-o", out, "--quiet"]
        return out.read_bytes() if subprocess.run(command, capture_output=True).returncode == 0 else None

    def run(self, scenario):
        """Injects all faults."""
        outcome = Outcome(scenario.name)
        if self.template.exists():
            shutil.rmtree(self.template)
        self.template.mkdir(parents=True)
        scenario.prepare(self.template)
        before = tree(self.template)
        counted = self.injector.environment([self.work])
        done = self.start(scenario, counted)
        if done is None or done.returncode != 0:
            text = "it did not end" if done is None else f"exit code {done.returncode}, {done.stderr.decode(errors='replace')}"
            outcome.failures.append(f"without a fault: {text}")
            return outcome
        after, outcome.calls = tree(self.work), self.injector.calls
        models = [self.predictions(self.template / scenario.model_folder), self.predictions(self.work / scenario.model_folder)]
        self.start(scenario, self.injector.environment([self.work]))
        if tree(self.work) != after:
            outcome.failures.append("without a fault: a second run writes other bytes")
        for fault in faults(outcome.calls, self.quick):
            done = self.start(scenario, self.injector.environment([self.work], fault))
            if not self.injector.has_injected:
                # The number of calls varies with the threads: this run made fewer calls than the counted run, and no call failed.
                continue
            path = Path(self.injector.path).name
            problem = self.check(scenario, fault, done, (before, after, models))
            if problem:
                stderr = "" if done is None else done.stderr.decode(errors="replace").strip()
                outcome.failures.append(f"{fault} ({path}): {problem}; exit code {done and done.returncode}, message: {stderr}")
            outcome.count(done is None or done.returncode != 0)
        return outcome

    def check(self, scenario, fault, done, expected):
        """What is wrong after a fault; `None` if nothing is."""
        before, after, models = expected
        if done is None:
            return f"the command did not end within {TIMEOUT:.0f} s"
        stderr = done.stderr.decode(errors="replace")
        if done.returncode < 0:
            return f"the process was ended by signal {-done.returncode}"
        if "panicked" in stderr:
            return "a thread panicked"
        now = tree(self.work)
        left = [name for name in now if PARTIAL.search(name)]
        if left and fault.kind != "unlink":
            return f"temporary files are left: {left}"
        now = {name: contents for name, contents in now.items() if name not in left}
        if done.returncode == 0:
            # A file that could not be removed does not affect the result.
            if now != after and not (fault.kind == "unlink" and {name: now.get(name) for name in after} == after):
                return f"exit code 0, but these files differ: {differences(now, after)}"
            return None
        if fault.is_repeated:
            return "the call was not repeated"
        hit = Path(self.injector.path).name
        # `new` and `old` are ordinary words. They are folders in the temporary folder of a guard, whose path contains the name of the guard.
        named = {PARTIAL.sub("", hit) or hit, scenario.model_folder, scenario.guard_folder} - {"", "new", "old"}
        if fault.lasts or fault.kind == "stat" or hit.startswith("nuq-input-"):
            # The command may continue and fail at another file. An error of the temporary copy of a compressed input may name the input.
            named |= {Path(name).name for name in {*before, *after}} | {"nuq-input-"}
        is_folder = Path(self.injector.path).is_dir()
        if is_folder:
            # The name of a file is written to the disk with its folder.
            named |= {Path(name).name for name in {*before, *after}}
        if not any(name in error_of(stderr) for name in named):
            return f"the message names none of {sorted(named)}"
        if done.returncode != 3 and fault.kind not in ("stat", "lock"):
            return "an error of the system has an exit code other than 3"
        if now not in (before, after):
            wrong = self.mixture(scenario, fault, now, before, after, models)
            if wrong:
                return wrong
        if is_folder and now == after:
            # Only the last step has failed. A command that changes its input would change it a second time.
            return None
        again = self.again(scenario, self.injector.environment([self.work]))
        now = {name: contents for name, contents in tree(self.work).items() if not PARTIAL.search(name)}
        if again is None or again.returncode != 0 or {name: now.get(name) for name in after} != after:
            return "the command without a fault does not succeed afterwards"
        return None

    def mixture(self, scenario, fault, now, before, after, models):
        """What is wrong with files that are neither all old nor all new; `None` if nothing is."""
        if not scenario.model_folder:
            return f"these files are neither the old nor the new ones: {differences(now, before)}"
        unknown = [name for name, contents in now.items() if contents not in (before.get(name, b""), after.get(name, b""))]
        if unknown:
            return f"these files are neither the old nor the new ones: {unknown}"
        # The manifest decides which model the folder contains. Without a manifest there is no model, and no predictions.
        manifest = f"{scenario.model_folder}/manifest.nuq"
        is_new = now.get(manifest) == after[manifest]
        if self.predictions(self.work / scenario.model_folder) != models[is_new]:
            return f"the folder has the {'new' if is_new else 'old'} manifest, but not the predictions of this model"
        added = [name for name in now if name not in before]
        if added and fault.kind not in ("unlink", "list", "stat") and not is_new:
            return f"files of the new model are left: {added}"
        return None


def error_of(stderr):
    """The last error message of `nuq` or of a Python program, without what is printed before it: progress messages and tracebacks contain file
    names too. The whole text if it has no such message."""
    begins = [match.start() for match in ERROR.finditer(stderr)]
    return stderr[begins[-1] :] if begins else stderr


def differences(a, b):
    """The names of files that differ."""
    return sorted(name for name in {*a, *b} if a.get(name, b"") != b.get(name, b""))
