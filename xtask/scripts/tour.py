"""Runs the examples of the README with an installed program: every `nuq` command, the Python snippets, and the server.

    python tour.py NUQ [--python]

NUQ is the path of the program. With --python, the snippets run in this interpreter, which must have the package. The outputs must equal the
outputs in README.md. PATH has only the folder of the program. Only the standard library is needed.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import urllib.request
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
CONSOLE = re.compile(r"```console\n(.*?)```", re.DOTALL)
SNIPPET = re.compile(r"```python\n(.*?)```(?:\n\n```text\n(.*?)```)?", re.DOTALL)
#: Prefixes of the commands that run the program. Others build or install it.
PROGRAM = ("nuq ", "cargo run --release -- ")


def compare(what: str, printed: str, shown: str) -> None:
    """End with an error if the printed text differs from the text that README.md shows. If the shown text ends with a line `…`, the
    remaining printed lines are not compared."""
    if shown.rstrip().endswith("\n…"):
        shown = shown.rstrip()[:-1]
        printed = "\n".join(printed.splitlines()[: len(shown.splitlines())])
    if printed.rstrip() != shown.rstrip():
        sys.exit(f"tour: {what}\nprinted:\n{printed}\nREADME.md shows:\n{shown}")
    print(f"tour: {what[:90]}")


def run_commands(program: str) -> int:
    """Run the commands of the README and return their number."""
    count = 0
    for block in CONSOLE.findall(README):
        command, _, shown = block.replace("\\\n", " ").partition("\n")
        command = command.removeprefix("$ ")
        prefix = next((prefix for prefix in PROGRAM if command.startswith(prefix)), None)
        if prefix:
            words = shlex.split(command.removeprefix(prefix))
            run = subprocess.run([program, *words], capture_output=True, encoding="utf-8", stdin=subprocess.DEVNULL, timeout=600)
            if run.returncode != 0:
                sys.exit(f"tour: {command} ended with {run.returncode}: {run.stderr}")
            compare(command, run.stdout, shown)
            count += 1
    return count


def run_snippets() -> None:
    names: dict = {"__name__": "__main__"}
    for code, shown in SNIPPET.findall(README):
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            exec(compile(code, "README.md", "exec"), names)
        compare("Python: " + code.splitlines()[0], out.getvalue(), shown)


def run_server(program: str) -> None:
    """Start the demonstration on a free port, load its page and end it."""
    serve = [program, "serve", "--demo", "--address", "127.0.0.1:0", "--log-format", "json"]
    process = subprocess.Popen(serve, stderr=subprocess.PIPE, encoding="utf-8")
    try:
        address = next(entry["address"] for entry in map(json.loads, process.stderr) if "address" in entry)
        with urllib.request.urlopen(address, timeout=60) as page:
            if page.status != 200 or b"<title>" not in page.read():
                sys.exit("tour: the server does not answer with its page")
        print("tour: nuq serve --demo")
    finally:
        process.terminate()
        process.communicate(timeout=60)


def main() -> None:
    program = os.path.abspath(sys.argv[1])
    os.environ["PATH"] = os.path.dirname(program)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        shutil.copytree(ROOT / "examples/cifar10", Path(folder) / "examples/cifar10")
        os.chdir(folder)
        if run_commands(program) < 4:
            sys.exit("tour: README.md shows fewer commands than expected")
        if "--python" in sys.argv[2:]:
            run_snippets()
        run_server(program)
        os.chdir(ROOT)


if __name__ == "__main__":
    main()
