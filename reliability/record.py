"""Results of a command in target/reliability/COMMAND.json, from which docs/reliability.md is written."""

from __future__ import annotations

import json
import os
import platform
import subprocess
from datetime import datetime, timezone
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "target" / "reliability"


def record(command: str, lines: list[dict], **fields: object) -> Path:
    """Writes lines with `name`, `count`, `unit`, `failures` and `note`. They replace lines of the same name; others are kept."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    path = FOLDER / f"{command}.json"
    former = json.loads(path.read_text())["lines"] if path.exists() else []
    names = {line["name"] for line in lines}
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True)
    result = {
        "command": command,
        "commit": commit.stdout.strip(),
        "machine": f"{os.cpu_count()} cores, {platform.system()} {platform.machine()}",
        "finished": datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "lines": [line for line in former if line["name"] not in names] + lines,
        **fields,
    }
    partial = path.with_suffix(".json.new")
    partial.write_text(json.dumps(result, indent=1) + "\n")
    partial.replace(path)
    return path
