"""Kills commands by SIGKILL at random moments, and compares the files that they leave with the complete old and new ones.

    cargo xtask kills [fit | shards | score | calibrate | save | guard | serve] [--kills N]

After each kill the output is the old file or the complete new one, byte for byte. Before the first kill, it is checked that the complete
files can be opened. A third of the moments is spread over the whole run of a command; the others are spread over the periods in which it
writes a file. Such a period begins when the temporary file of the output has its first byte. A killed process leaves this temporary file
behind; the next run that writes the same output removes it when it is older than a minute. A sharded fit is killed too: its manifest is
the old or the new one, and the folder is opened and used after each kill. Shard files of a killed fit that no manifest lists stay until
someone deletes them. `save` and `guard` are the methods `save` of a model and of a guard in Python.

The service is killed by a test of crates/nuq-server, which compares all acknowledged changes with the state after the next start.
"""

from __future__ import annotations

import argparse
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from arrays import write_rows
from record import ROOT, record

COMMANDS = ["fit", "shards", "score", "calibrate", "save", "guard", "serve"]
# Kills of each command in a full run.
FULL_KILLS = 500
ROWS, COLUMNS = 6000, 64

# Seconds after which a run that was not killed has failed.
LIMIT = 120


class Failure(Exception):
    """A check that did not hold."""


def run(words: list[str]) -> None:
    """Runs a command that is not killed."""
    done = subprocess.run(words, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, errors="replace")
    if done.returncode != 0:
        raise Failure(f"{' '.join(words)} exited with {done.returncode}: {done.stderr}")


def partial_files(folder: Path) -> list[Path]:
    return list(folder.rglob("*.partial"))


def written_files(folder: Path) -> list[Path]:
    """Temporary files with bytes. Commands also create an empty one at their start, to see that the folder is writable."""
    files = []
    for path in partial_files(folder):
        try:
            if path.stat().st_size > 0:
                files.append(path)
        except FileNotFoundError:
            pass
    return files


class Command:
    """A command that replaces a file in the folder `outputs`."""

    def __init__(self, name: str, nuq: str, folder: Path) -> None:
        self.name, self.nuq, self.folder = name, nuq, folder
        # Only the output and its temporary files are in this folder.
        self.outputs = folder / "outputs"
        self.outputs.mkdir()

    def versions(self) -> list[tuple[Path, list[str]]]:
        """Outputs, and the arguments of the commands that write them. Consecutive outputs with the same path have different contents."""
        inputs = self.folder
        if self.name == "fit":
            return [
                (self.outputs / "model.nuq", [*self.fit(rows), "-o", f"{self.outputs}/model.nuq"])
                for rows in ("a", "b")
            ]
        if self.name == "shards":
            return [
                (self.outputs / "model/manifest.nuq", [*self.fit(rows), "--shards", "3", "-o", f"{self.outputs}/model"])
                for rows in ("a", "b")
            ]
        if self.name == "score":
            return [
                (
                    self.outputs / f"scores.{kind}",
                    ["score", "-m", f"{inputs}/a.nuq", "-e", f"{inputs}/{rows}.npy", "-o", f"{self.outputs}/scores.{kind}"],
                )
                for kind in ("csv", "npz")
                for rows in ("a", "b")
            ]
        # The model file is replaced in place.
        return [
            (
                self.outputs / "model.nuq",
                ["calibrate", "-m", f"{self.outputs}/model.nuq", "-e", f"{inputs}/b.npy", "--target", target, "--name", "main"],
            )
            for target in ("coverage=0.9", "coverage=0.8")
        ]

    def fit(self, rows: str) -> list[str]:
        return ["fit", "-e", f"{self.folder}/{rows}.npy", "-l", f"{self.folder}/{rows}-labels.npy"]

    def start(self, arguments: list[str]) -> subprocess.Popen:
        words = [self.nuq, "--quiet", *arguments]
        return subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)

    def prepare(self) -> None:
        for name, seed in (("a", 1), ("b", 2)):
            write_rows(self.folder, name, ROWS, COLUMNS, seed)
        if self.name in ("score", "calibrate"):
            model = self.folder / "a.nuq"
            run([self.nuq, "--quiet", *self.fit("a"), "-o", str(model)])
            if self.name == "calibrate":
                shutil.copy(model, self.outputs / "model.nuq")


class Observed:
    """A complete run: its duration, and for each temporary file the times at which it was first and last seen with bytes, in the order
    of the first times. All times are seconds since the start of the run."""

    def __init__(self) -> None:
        self.duration = 0.0
        self.writes: dict[Path, tuple[float, float]] = {}

    def see(self, files: list[Path], now: float) -> None:
        for path in files:
            first, _ = self.writes.get(path, (now, now))
            self.writes[path] = (first, now)


def finish(command: Command, arguments: list[str]) -> Observed:
    """Runs a command to its end and observes its temporary files."""
    observed, begin, process = Observed(), time.perf_counter(), command.start(arguments)
    while process.poll() is None:
        now = time.perf_counter() - begin
        observed.see(written_files(command.outputs), now)
        if now > LIMIT:
            process.kill()
            process.wait()
            raise Failure(f"{command.name} did not end within {LIMIT} s")
        time.sleep(0.0003)
    observed.duration = time.perf_counter() - begin
    message = process.stderr.read().decode()
    process.stderr.close()
    if process.returncode != 0:
        raise Failure(f"{command.name} exited with {process.returncode}: {message}")
    return observed


def check_opens(nuq: str, path: Path) -> None:
    """Opens a complete output with code other than the code that wrote it."""
    if path.name == "manifest.nuq":
        run([nuq, "--quiet", "inspect", str(path.parent)])
    elif path.suffix == ".nuq":
        run([nuq, "--quiet", "inspect", str(path)])
    elif path.suffix == ".npz":
        import zipfile

        with zipfile.ZipFile(path) as archive:
            if archive.testzip() is not None:
                raise Failure(f"{path} is damaged")
    elif len(path.read_text().splitlines()) != ROWS + 1:
        raise Failure(f"{path} does not have {ROWS} rows")


def kill_at(command: Command, arguments: list[str], rng: random.Random, complete: Observed) -> bool:
    """Starts a run and kills it at a random moment. Returns whether it was still running."""
    former = set(partial_files(command.outputs))
    begin, process = time.perf_counter(), command.start(arguments)
    if rng.random() < 1 / 3 or not complete.writes:
        delay = rng.uniform(0, 1.02 * complete.duration)
    else:
        # The moment is in the write of one of the files.
        number = rng.randrange(len(complete.writes))
        first, last = list(complete.writes.values())[number]
        wait_for_file(command, process, former, number + 1)
        begin = time.perf_counter()
        # A write to a loaded disk may take longer than the measured one; the margin also covers the rename and what follows.
        delay = rng.uniform(0, 1.3 * (last - first) + 0.002)
    while time.perf_counter() - begin < delay and process.poll() is None:
        time.sleep(min(0.0002, delay))
    process.send_signal(signal.SIGKILL)
    process.wait()
    message = process.stderr.read().decode()
    process.stderr.close()
    if process.returncode not in (0, -signal.SIGKILL):
        raise Failure(f"{command.name} exited with {process.returncode}: {message}")
    return process.returncode == -signal.SIGKILL


def wait_for_file(command: Command, process: subprocess.Popen, former: set[Path], count: int) -> None:
    """Waits until a run has written bytes to `count` temporary files that are not in `former`, or has ended."""
    begin, seen = time.perf_counter(), set(former)
    while process.poll() is None and len(seen) < len(former) + count:
        seen.update(written_files(command.outputs))
        if time.perf_counter() - begin > LIMIT:
            process.kill()
            process.wait()
            raise Failure(f"{command.name} did not write within {LIMIT} s")


def sharded_scores(nuq: str, path: Path, folder: Path) -> bytes:
    """The scores of some rows, computed by the sharded model with the manifest `path`. The computation reads all shards."""
    few, out = folder / "few.npy", folder / "few.csv"
    if not few.exists():
        write_rows(folder, "few", 20, COLUMNS, 9)
    words = [nuq, "--quiet", "score", "-m", str(path.parent), "-e", str(few), "-o", str(out)]
    done = subprocess.run(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    if done.returncode != 0:
        raise Failure(f"shards: the folder cannot be used: {done.stderr}")
    return out.read_bytes()


def damage(folder: Path, found: bytes | dict[str, bytes] | None) -> str:
    """Describes a wrong output for a message. A copy of its bytes, if there are any, is kept in the folder."""
    if found is None:
        return "it is absent"
    if isinstance(found, dict):
        return f"it has files of these lengths: { {name: len(bytes) for name, bytes in found.items()} }"
    copy = folder / "damaged"
    copy.write_bytes(found)
    return f"it has {len(found)} bytes, which are kept in {copy}"


def age(folder: Path) -> set[str]:
    """Makes temporary files and folders older than the minute for which they are kept. Returns their names."""
    # The name of the temporary folder of a guard begins with a dot.
    folders = [path for path in folder.iterdir() if path.name.startswith(".")]
    files = partial_files(folder) + [inner for path in folders for inner in path.rglob("*")] + folders
    for path in files:
        os.utime(path, (time.time() - 300, time.time() - 300))
    return {path.name for path in files}


def kill_command(name: str, nuq: str, kills: int, killed: Counter[str], rng: random.Random, folder: Path) -> dict:
    """Kills runs of a command until `kills` runs were killed before they ended by themselves. These runs are counted in `killed`."""
    command = Command(name, nuq, folder)
    command.prepare()
    versions = command.versions()
    complete, observed, scores = {}, {}, {}
    for number, (path, arguments) in enumerate(versions):
        observed[number] = finish(command, arguments)
        check_opens(nuq, path)
        complete[number] = path.read_bytes()
        if name == "shards":
            scores[complete[number]] = sharded_scores(nuq, path, folder)
        same = [other for other in range(number) if versions[other][0] == path]
        if any(complete[other] == complete[number] for other in same):
            raise Failure(f"{name}: two complete outputs are equal, so that the old and the new one cannot be told apart")
    outcomes: Counter[str] = Counter()
    runs = 0
    left: set[str] = set()
    while killed[name] < kills:
        # The bytes of the version differ from those of the file, so that the old file and the new one can be told apart.
        others = [number for number, (path, _) in enumerate(versions) if not path.exists() or path.read_bytes() != complete[number]]
        number = others[runs % len(others)]
        runs += 1
        path, arguments = versions[number]
        # Some runs start without an old file. The output of `calibrate` is also its input, so it is not removed.
        if name != "calibrate" and rng.random() < 0.1:
            path.unlink(missing_ok=True)
        old = path.read_bytes() if path.exists() else None
        was_running = kill_at(command, arguments, rng, observed[number])
        killed[name] += was_running
        found = path.read_bytes() if path.exists() else None
        if found == complete[number]:
            outcome = "new"
        elif found == old:
            outcome = "old"
        else:
            raise Failure(f"{name}: after kill {killed[name]}, {path} is neither the old file nor the new one: {damage(folder, found)}")
        if not was_running and outcome == "old":
            raise Failure(f"{name}: the command has ended with success, and {path} is the old file")
        if name == "shards" and found is not None and sharded_scores(nuq, path, folder) != scores[found]:
            raise Failure(f"shards: after kill {killed[name]}, the folder gives other scores than the complete model")
        outcomes[outcome] += was_running
        left |= age(command.outputs)
    # A run that is not killed removes what the killed ones have left.
    for path, arguments in versions:
        finish(command, arguments)
    remaining = len(partial_files(command.outputs))
    if remaining:
        raise Failure(f"{name}: {remaining} temporary files remain after a complete run")
    note = f"{outcomes['old']} old files, {outcomes['new']} new files, {len(left)} temporary files left, which later runs removed"
    return {"name": f"kills: {name}", "count": killed[name], "unit": "kills", "failures": 0, "note": note}


SAVE = """
import sys
import nuq
name, path, *models = sys.argv[1:]
models = [nuq.load(model) for model in models]
if name == "guard":
    models = [nuq.Guard(lambda rows: rows, model) for model in models]
number = 0
while True:
    print(number, flush=True)
    models[number % len(models)].save(path)
    number += 1
"""


FINISH_SAVE = """
import sys
import nuq
name, path, model = sys.argv[1:]
model = nuq.load(model)
(nuq.Guard(lambda rows: rows, model) if name == "guard" else model).save(path)
"""


def contents(path: Path) -> bytes | dict[str, bytes] | None:
    """The bytes of a file, or of the files of a folder by name; `None` if there is neither."""
    if path.is_dir():
        return {file.name: file.read_bytes() for file in path.iterdir()}
    return path.read_bytes() if path.exists() else None


def remove(path: Path) -> None:
    """Removes a file or a folder, if it exists."""
    if path.is_dir():
        shutil.rmtree(path)
    path.unlink(missing_ok=True)


def kill_save(
    name: str, nuq: str, python: str, kills: int, killed: Counter[str], rng: random.Random, folder: Path
) -> dict | None:
    """Kills a Python process that saves four different models or guards under one name, one after the other. A number is printed before the
    save of this number, and therefore after the former save was acknowledged. The kills are counted in `killed`."""
    if subprocess.run([python, "-c", "import nuq"], capture_output=True).returncode != 0:
        print(f"kills: skipped: {name} ({python} cannot import nuq; run `cargo xtask test python` first, or give --python)", flush=True)
        return None
    outputs = folder / "outputs"
    outputs.mkdir()
    models = []
    for seed in range(4):
        write_rows(folder, str(seed), ROWS, COLUMNS, seed)
        models.append(folder / f"{seed}.nuq")
        run([nuq, "--quiet", "fit", "-e", f"{folder}/{seed}.npy", "-l", f"{folder}/{seed}-labels.npy", "-o", str(models[-1])])
        calibrate = ["calibrate", "-m", str(models[-1]), "-e", f"{folder}/0.npy", "--target", "coverage=0.9", "--name", "guard"]
        run([nuq, "--quiet", *calibrate])
    path = outputs / "model"
    complete = []
    for model in models:
        run([python, "-c", FINISH_SAVE, name, str(path), str(model)])
        complete.append(contents(path))
    outcomes: Counter[str] = Counter()
    left: set[str] = set()
    while killed[name] < kills:
        if rng.random() < 0.1:
            remove(path)
        before = contents(path)
        words = [python, "-c", SAVE, name, str(path), *map(str, models)]
        process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        numbers = process.stdout.readline()
        time.sleep(rng.uniform(0, 0.1))
        process.kill()
        numbers += process.stdout.read()
        message = process.stderr.read().decode()
        process.wait()
        process.stdout.close(), process.stderr.close()
        if process.returncode != -signal.SIGKILL:
            raise Failure(f"{name} exited with {process.returncode}: {message}")
        killed[name] += 1
        # A line that the kill has cut off was not received.
        begun = int(numbers.decode().rsplit("\n", 1)[0].split("\n")[-1])
        old = complete[(begun - 1) % 4] if begun > 0 else before
        found = contents(path)
        if found == complete[begun % 4]:
            outcomes["new"] += 1
        elif found == old:
            outcomes["old"] += 1
        else:
            problem = f"{path} is neither that of save {begun} nor the former one: {damage(folder, found)}"
            raise Failure(f"{name}: after kill {killed[name]}, {problem}")
        left |= age(outputs)
    # Temporary folders are removed only if a former folder exists. The last kill may have left none, so the guard is saved twice.
    for _ in range(2):
        run([python, "-c", FINISH_SAVE, name, str(path), str(models[0])])
    remaining = len(list(outputs.iterdir())) - 1
    if remaining or contents(path) != complete[0]:
        raise Failure(f"{name}: after a complete save, {remaining} temporary files remain, or {path} is not what was saved")
    note = f"{outcomes['old']} old files, {outcomes['new']} new files, {len(left)} temporary files left, which a later save removed"
    return {"name": f"kills: {name}", "count": killed[name], "unit": "kills", "failures": 0, "note": note}


def kill_serve(kills: int, killed: Counter[str]) -> dict:
    """Runs the test of the server, which prints its counts. They are added to `killed`."""
    cargo = os.environ.get("CARGO", "cargo")
    # The packages and features of `cargo xtask test`, so that nothing is compiled again.
    words = [cargo, "test", "--workspace", "--features", "nuq-cli/parquet", "--test", "integration"]
    words += ["--", "kill::acknowledged_changes", "--nocapture"]
    done = subprocess.run(words, cwd=ROOT, env={**os.environ, "NUQ_KILLS": str(kills)}, capture_output=True, text=True)
    counts = re.findall(r"kills: (\d+) of (.*): (\d+) acknowledged changes", done.stdout)
    killed["serve"] += sum(int(count) for count, _, _ in counts)
    if done.returncode != 0 or not counts:
        raise Failure(f"serve: {done.stdout[-4000:]}\n{done.stderr[-4000:]}")
    note = "; ".join(f"{count} of {what}, {changes} acknowledged changes, none lost" for count, what, changes in counts)
    return {"name": "kills: serve", "count": killed["serve"], "unit": "kills", "failures": 0, "note": note}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("commands", nargs="*", metavar="COMMAND", help=f"one of {', '.join(COMMANDS)} (default: all)")
    parser.add_argument("--nuq", required=True, help="the program")
    parser.add_argument("--python", default=sys.executable, help="the interpreter of `save`, with the package nuq")
    parser.add_argument("--kills", type=int, default=FULL_KILLS, help="kills of each command (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=22)
    options = parser.parse_args()
    unknown = [name for name in options.commands if name not in COMMANDS]
    if unknown or options.kills < 1:
        parser.error(f"the commands are {', '.join(COMMANDS)}, and at least one kill is required")
    failures = 0
    for name in options.commands or COMMANDS:
        folder = Path(tempfile.mkdtemp(prefix=f"nuq-kills-{name}-"))
        rng = random.Random(f"{options.seed} {name}")
        begin = time.perf_counter()
        # This counter is also read after a failure, when fewer runs were killed than required.
        killed: Counter[str] = Counter()
        try:
            if name == "serve":
                line = kill_serve(options.kills, killed)
            elif name in ("save", "guard"):
                line = kill_save(name, options.nuq, options.python, options.kills, killed, rng, folder)
            else:
                line = kill_command(name, options.nuq, options.kills, killed, rng, folder)
        except Failure as failure:
            # The folder is kept, so that the files can be examined.
            failures += 1
            print(f"kills: FAILED: {failure}", flush=True)
            line = {"name": f"kills: {name}", "count": killed[name], "unit": "kills", "failures": 1, "note": "failed"}
        else:
            shutil.rmtree(folder)
        if line is not None:
            seconds = time.perf_counter() - begin
            print(f"{line['name']}: {line['count']} {line['unit']} in {seconds:.0f} s: {line['note']}", flush=True)
            # A short run takes no place in the documentation, unless it has failed.
            if line["failures"] or options.kills >= FULL_KILLS:
                record("kills", [line])
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
