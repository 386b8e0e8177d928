"""Results of a command in target/reliability/COMMAND.json, from which docs/reliability.md is written."""

from __future__ import annotations

import fcntl
import json
import os
import platform
import subprocess
from datetime import datetime, timezone
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "target" / "reliability"


def git(*words: str) -> str:
    """What git prints; empty without git."""
    try:
        return subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True).stdout.strip()
    except FileNotFoundError:
        return ""


def current_commit() -> str:
    """The short name of the commit, followed by `+` if files differ from it. The function `commit` in xtask/src/reliability.rs returns the same text."""
    commit = git("rev-parse", "--short", "HEAD")
    return commit + "+" if commit and git("status", "--porcelain", "--untracked-files=no") else commit


def cores() -> str:
    """The number of processor cores, with the number that this process may use if it is smaller."""
    all_cores = os.cpu_count() or 1
    used = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else all_cores
    return f"{used} of {all_cores}" if used < all_cores else str(all_cores)


def record(command: str, lines: list[dict], folder: Path = FOLDER, **fields: object) -> Path:
    """Writes lines with `name`, `count`, `unit`, `failures` and `note`. A line takes the place of the line of the same name; others are kept.
    Kept lines may come from an older commit, so each line contains its commit. The function `record` in xtask/src/reliability.rs does the same."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{command}.json"
    # Other processes may record their lines at the same time. The lock ends when the file is closed.
    with open(path.with_suffix(".lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        write(path, command, lines, **fields)
    return path


def write(path: Path, command: str, lines: list[dict], **fields: object) -> None:
    """Writes the new lines and those of the former file that are kept."""
    former = json.loads(path.read_text()) if path.exists() else {"lines": []}
    commit = current_commit()
    # Lines of older files have no commit; the commit of their file is the last one that they can come from.
    old = [{"commit": former.get("commit", ""), **line} for line in former["lines"]]
    new = [{**line, "commit": commit} for line in lines]
    result = {
        "command": command,
        "commit": commit,
        "machine": f"{cores()} cores, {platform.system()} {platform.machine()}",
        "finished": datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
        # A name that occurs twice keeps its first place and its last value.
        "lines": list({line["name"]: line for line in old + new}.values()),
        **fields,
    }
    partial = path.with_suffix(".json.new")
    partial.write_text(json.dumps(result, indent=1) + "\n")
    partial.replace(path)
