"""The command ``nuq`` of the wheel, in an environment that contains only the wheel, compared with the Rust program (the binary).

The environment has no numpy, and ``PATH`` has no compiler. The tests therefore show that the command needs only Python.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import numpy as np
import pytest

on_unix = pytest.mark.skipif(sys.platform == "win32", reason="signals and descriptors of Unix")


@pytest.fixture(scope="session")
def environment(tmp_path_factory) -> Path:
    """The folder with the programs of a new environment that contains only the wheel."""
    wheel = os.environ.get("NUQ_WHEEL")
    if not wheel:
        pytest.skip("NUQ_WHEEL is not set to the wheel")
    folder = tmp_path_factory.mktemp("environment")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    programs = folder / ("Scripts" if sys.platform == "win32" else "bin")
    pip = [sys.executable, "-m", "pip", "--python", programs / "python", "install", "--quiet", "--no-deps", "--no-index", wheel]
    subprocess.run(pip, check=True)
    return programs


@pytest.fixture(scope="session")
def command(environment) -> str:
    return str(environment / "nuq")


@pytest.fixture
def folder(tmp_path, blobs) -> Path:
    """A folder with rows, labels and new rows."""
    x, y = blobs
    for name, array in (("x", x), ("y", y), ("new", x[::3] + np.float32(0.5))):
        np.save(tmp_path / f"{name}.npy", array)
    return tmp_path


def variables(program: str) -> dict[str, str]:
    return {"PATH": str(Path(program).parent), "SYSTEMROOT": os.environ.get("SYSTEMROOT", "")}


def run(program: str, arguments: str | list, folder: Path) -> tuple[int, bytes, bytes]:
    """Exit code, standard output and standard error."""
    words = arguments.split() if isinstance(arguments, str) else arguments
    done = subprocess.run(
        [program, *words], cwd=folder, env=variables(program), stdin=subprocess.DEVNULL, capture_output=True, timeout=120
    )
    return done.returncode, done.stdout, done.stderr


def start(program: str, arguments: str, folder: Path, **options) -> subprocess.Popen:
    return subprocess.Popen([program, *arguments.split()], cwd=folder, env=variables(program), text=True, **options)


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


FIT = "fit --embeddings x.npy --labels y.npy --out model.nuq"

#: Commands in the order of their use.
COMMANDS = [
    "--version",
    "--help",
    "serve --help",
    FIT,
    "calibrate --model model.nuq --embeddings new.npy --target coverage=0.9 --name main",
    "score --model model.nuq --embeddings new.npy --threshold main --out scores.csv",
    "score --model model.nuq --embeddings new.npy --out scores.parquet",
    "score --model model.nuq --embeddings new.npy --out -",
    "score --model model.nuq --embeddings new.npy --out scores.csv.zst --quiet",
    "inspect model.nuq --json --verify",
    "label-issues model.nuq",
    "suggest --model model.nuq --embeddings new.npy --count 5",
    "serve --model model.nuq --check",
    "demo --out figures",
    "man --out pages",
    "completions bash",
]

#: Commands that fail, with their exit codes.
FAILURES = [
    ("", 2),
    ("nosuch", 2),
    ("fit --embeddings x.npy", 2),
    ("fit --embeddings x.npy --json", 2),
    ("inspect none.nuq", 3),
    ("inspect none.nuq --json", 3),
    ("inspect x.npy", 1),
    ("fit --embeddings x.npy --labels new.npy --out m.nuq", 1),
    ("serve --model x.npy --check", 1),
    ("serve --check", 2),
    ("demo --out x.npy", 3),
]


def without_times(result: tuple[int, bytes, bytes]) -> tuple[int, bytes, bytes]:
    return result[0], *(re.sub(rb"[\d.]+ (ms|s|seconds|rows per second)\b", b"TIME", text) for text in result[1:])


def test_outputs_and_files_equal_those_of_the_binary(command, binary, folder, tmp_path_factory):
    other = tmp_path_factory.mktemp("binary")
    for name, content in contents(folder).items():
        (other / name).write_bytes(content)
    for arguments in COMMANDS:
        ours, theirs = run(command, arguments, folder), run(binary, arguments, other)
        assert without_times(ours) == without_times(theirs) and ours[0] == 0, arguments
    assert contents(folder) == contents(other)


@pytest.mark.parametrize("arguments, code", FAILURES)
def test_failures_equal_those_of_the_binary(command, binary, folder, arguments, code):
    ours = run(command, arguments, folder)
    assert ours == run(binary, arguments, folder)
    assert ours[0] == code
    assert b"Traceback" not in ours[2]


def test_python_m_nuq_equals_the_command(environment, command, folder):
    python = str(environment / "python")
    for arguments in ("--version", "inspect none.nuq"):
        assert run(python, f"-m nuq {arguments}", folder) == run(command, arguments, folder)


def test_an_evaluation_writes_a_page_that_shows_the_command(command, folder):
    assert run(command, FIT, folder)[0] == 0
    evaluate = "evaluate --model model.nuq --test x.npy --labels y.npy --report page.html"
    code, _, messages = run(command, evaluate, folder)
    assert (code, messages.decode().splitlines()[-1]) == (0, "page: page.html")
    page = (folder / "page.html").read_text()
    assert page.startswith("<!DOCTYPE html>") and page.rstrip().endswith("</html>")
    words = ["nuq", *evaluate.split()]
    assert " ".join(f"<span>{word}</span>" for word in words) in page


@on_unix
def test_file_names_that_are_not_unicode_are_accepted(command, folder):
    name = os.fsdecode(b"m\xff.nuq")
    assert run(command, ["fit", "--embeddings", "x.npy", "--labels", "y.npy", "--out", name], folder)[0] == 0
    assert os.listdir(os.fsencode(folder)).count(b"m\xff.nuq") == 1
    assert run(command, ["inspect", name], folder)[0] == 0


@on_unix
def test_ctrl_c_leaves_no_partial_file(command, folder):
    rng = np.random.default_rng(0)
    np.save(folder / "many.npy", rng.normal(size=(60_000, 64)).astype(np.float32))
    np.save(folder / "many_y.npy", np.arange(60_000) % 2)
    (folder / "model.nuq").write_bytes(b"old")
    before = contents(folder)
    fit = "fit --embeddings many.npy --labels many_y.npy --out model.nuq --progress plain"
    # In the background of a shell, this process ignores Ctrl-C, and its children would inherit this setting.
    previous = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        process = start(command, fit, folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    finally:
        signal.signal(signal.SIGINT, previous)
    lines = [process.stderr.readline() for _ in range(2)]
    assert lines[1].startswith("fitting: "), lines
    process.send_signal(signal.SIGINT)
    _, rest = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "Traceback" not in rest and "KeyboardInterrupt" not in rest
    assert contents(folder) == before


def wait_for_partial_file(folder: Path) -> None:
    deadline = time.monotonic() + 60
    while not any(name.endswith(".partial") for name in os.listdir(folder)):
        assert time.monotonic() < deadline, "no temporary file was created"
        time.sleep(0.01)


@on_unix
@pytest.mark.parametrize("module", [False, True], ids=["nuq", "python -m nuq"])
def test_signals_end_the_command_score_and_ignored_signals_stay_ignored(environment, command, folder, module):
    assert run(command, FIT, folder)[0] == 0
    # The file contains only zeros and takes no space on the disk, because it is sparse.
    rows = 50_000_000
    with open(folder / "many.npy", "wb") as file:
        header = {"descr": "<f4", "fortran_order": False, "shape": (rows, 5)}
        np.lib.format.write_array_header_1_0(file, header)
        file.truncate(file.tell() + rows * 5 * 4)
    names = sorted(os.listdir(folder))
    program, prefix = (str(environment / "python"), "-m nuq ") if module else (command, "")
    score = prefix + "score --model model.nuq --embeddings many.npy --out scores.csv --quiet"
    for number, ignored in ((signal.SIGINT, None), (signal.SIGTERM, signal.SIGINT), (signal.SIGHUP, None)):
        # Under nohup or in the background of a shell, this process ignores some signals, and its children would inherit this setting.
        inherited = {number: signal.SIG_DFL} | ({} if ignored is None else {ignored: signal.SIG_IGN})
        previous = {key: signal.signal(key, action) for key, action in inherited.items()}
        try:
            process = start(program, score, folder)
        finally:
            for key, action in previous.items():
                signal.signal(key, action)
        wait_for_partial_file(folder)
        if ignored is not None:
            process.send_signal(ignored)
            time.sleep(0.1)
            assert process.poll() is None
        process.send_signal(number)
        assert process.wait(60) == 128 + number
        assert sorted(os.listdir(folder)) == names


@on_unix
def test_a_closed_pipe_ends_the_command_quietly(command, folder):
    assert run(command, FIT, folder)[0] == 0
    np.save(folder / "many.npy", np.tile(np.load(folder / "x.npy"), (200, 1)))
    process = start(
        command, "score --model model.nuq --embeddings many.npy --out -", folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdout.readline().startswith("row,label,")
    process.stdout.close()
    # The exit code is 128 + SIGPIPE.
    assert (process.stderr.read(), process.wait(60)) == ("", 141)


@on_unix
def test_closed_standard_streams_do_not_change_the_output_file(command, folder):
    assert run(command, FIT, folder)[0] == 0
    score = [command, "score", "--model", "model.nuq", "--embeddings", "new.npy", "--out"]
    assert run(command, [*score[1:], "open.csv"], folder)[0] == 0
    closed = ["/bin/sh", "-c", 'exec "$@" <&- >&- 2>&-', "sh", *score, "closed.csv"]
    assert subprocess.run(closed, cwd=folder, env=variables(command)).returncode == 0
    assert (folder / "closed.csv").read_bytes() == (folder / "open.csv").read_bytes()


def test_parallel_calibrations_keep_all_thresholds(command, folder):
    assert run(command, FIT, folder)[0] == 0
    calibrate = "calibrate --model model.nuq --embeddings new.npy --target coverage=0.9 --quiet --name "
    processes = [start(command, calibrate + name, folder) for name in "abcd"]
    assert [process.wait(120) for process in processes] == [0] * 4
    inspected = json.loads(run(command, "inspect model.nuq --json --verify", folder)[1])
    assert sorted(threshold["name"] for threshold in inspected["thresholds"]) == list("abcd")


@on_unix
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_server_answers_requests_and_ends_after_a_signal(command, folder, number):
    process = start(command, "serve --demo --address 127.0.0.1:0 --log-format json", folder, stderr=subprocess.PIPE)
    try:
        address = next(entry["address"] for entry in map(json.loads, process.stderr) if "address" in entry)
        with urllib.request.urlopen(address, timeout=30) as page:
            assert (page.status, page.headers.get_content_type()) == (200, "text/html")
        with urllib.request.urlopen(f"{address}/v2/health/ready", timeout=30) as answer:
            assert answer.status == 200
        process.send_signal(number)
        _, log = process.communicate(timeout=60)
        assert process.returncode == 0 and '"ended"' in log
    finally:
        process.kill()
