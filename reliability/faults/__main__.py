"""Faults of the operating system during commands of nuq and during the writes of its service.

    python reliability/faults NUQ [--python PYTHON] [--only PART] [--quick]

`cargo xtask faults` builds the program and runs this script. For each part, one line states the number of injected faults, how many of them
ended in an error, how many did not affect the result, and how many failed a check ("wrong"). With --quick, only some of the faults are
injected. Without it, these numbers are written to target/reliability/faults.json. The exit code is 1 if a check has failed or if there is
no part with the given name.

The parts are the commands of `commands.py`, the server of `service.py` (three parts whose names start with `serve`), the limits of
`limits.py`, and the files and clocks of `changed_files.py`. With --only, only the parts run whose name starts with PART. Parts that the
machine does not allow are skipped with a notice, and so are the parts of the Python package without an interpreter that has it.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

# The modules of the folder above.
sys.path.append(str(Path(__file__).resolve().parents[1]))

import commands
from changed_files import ChangedFiles
from injector import Injector
from limits import Limits
from service import ServiceFaults, SnapshotFaults

from record import record


def parts(nuq, python, injector, folder, quick):
    """The names of all parts, each with the function that runs it."""
    tester = commands.CommandFaults(nuq, python, injector, folder, quick)
    for scenario in commands.scenarios(nuq, python):
        yield scenario.name, lambda name, scenario=scenario: tester.run(scenario)
    service = ServiceFaults(nuq, injector, folder, quick)
    yield "serve, changes", lambda name: service.run(name, recover=False)
    yield "serve, recovery", lambda name: service.run(name, recover=True)
    yield "serve, snapshot", SnapshotFaults(nuq, injector, folder, quick).run
    limits = Limits(nuq, folder, quick)
    yield "full disk", limits.full_disk
    yield "read-only folder", limits.read_only
    yield "few descriptors", limits.descriptors
    yield "little memory", limits.memory
    changed = ChangedFiles(nuq, injector, folder, quick)
    yield "shortened files", changed.run
    yield "shortened model, serve", changed.serve
    yield "clocks, serve", changed.clocks


def line(outcome):
    """The result of a part. The first five fields are for the table of the documentation, the others for readers of faults.json."""
    kinds = ", ".join(kind for kind, count in outcome.calls.items() if count)
    note = f"skipped: {outcome.skipped}" if outcome.skipped else kinds
    numbers = {"name": outcome.name, "count": outcome.faults, "unit": "faults", "failures": len(outcome.failures), "note": note}
    return numbers | {
        "errors": outcome.errors,
        "unaffected": outcome.unaffected,
        "calls": outcome.calls,
        "seconds": outcome.seconds,
        "failed_checks": outcome.failures,
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("nuq", type=Path)
    parser.add_argument("--python", help="an interpreter with the package nuq")
    parser.add_argument("--only", default="")
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="nuq-faults-")).resolve()
    # The interpreter of a virtual environment is a link, which must not be followed.
    nuq, python, outcomes = options.nuq.resolve(), options.python and os.path.abspath(options.python), []
    if not python or subprocess.run([python, "-I", "-c", "import nuq"], capture_output=True).returncode != 0:
        print("the parts of the Python package are skipped: run `cargo xtask test python` first, or give --python", flush=True)
        python = None
    try:
        injector = Injector(folder)
        for name, run in parts(nuq, python, injector, folder, options.quick):
            if not name.startswith(options.only):
                continue
            start = time.monotonic()
            outcome = run(name)
            outcome.seconds = round(time.monotonic() - start, 1)
            outcomes.append(outcome)
            if outcome.skipped:
                print(f"{name:24} skipped: {outcome.skipped}", flush=True)
                continue
            if outcome.faults == 0 and not outcome.failures:
                outcome.failures.append("no call failed: the library that lets calls fail has no effect on this machine")
            print(
                f"{outcome.name:24} {outcome.faults:5} faults, {outcome.errors:5} errors, {outcome.unaffected:5} unaffected, "
                f"{len(outcome.failures):3} wrong, {outcome.seconds:6.1f} s",
                flush=True,
            )
            for failure in outcome.failures:
                print(f"    {failure}", flush=True)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    if outcomes and not options.quick:
        record("faults", [line(outcome) for outcome in outcomes])
    print(f"{sum(outcome.faults for outcome in outcomes)} faults, {sum(len(outcome.failures) for outcome in outcomes)} wrong")
    if not outcomes:
        print(f"there is no part {options.only}")
    return not outcomes or any(outcome.failures for outcome in outcomes)


if __name__ == "__main__":
    raise SystemExit(main())
