"""Runs a command for a limited time, and ends all processes that it has started.

    python bounded.py SECONDS COMMAND…

Engines such as Ray and Spark start servers. If the process that started a server is killed, the server continues to run. On Linux, the
process of this script becomes the parent of such servers and can therefore find them.
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

#: Seconds between SIGTERM and SIGKILL, in which processes can end by themselves.
GRACE = 5.0
#: A constant of linux/prctl.h.
PR_SET_CHILD_SUBREAPER = 36


def descendants(root: int) -> list[int]:
    """The children of a process, their children, and so on."""
    children: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            # The line is split after the name of the program, which is in parentheses and may contain spaces.
            parent = int(stat.read_text().rpartition(")")[2].split()[1])
        except (OSError, ValueError):
            continue
        children.setdefault(parent, []).append(int(stat.parent.name))
    found, next_ones = [], [root]
    while next_ones:
        next_ones = [child for parent in next_ones for child in children.get(parent, [])]
        found += next_ones
    return found


def end_descendants() -> None:
    """End all descendants of this process."""
    for number, wait in ((signal.SIGTERM, GRACE), (signal.SIGKILL, 1.0)):
        for pid in descendants(os.getpid()):
            try:
                os.kill(pid, number)
            except OSError:
                pass
        deadline = time.monotonic() + wait
        while descendants(os.getpid()) and time.monotonic() < deadline:
            try:
                while os.waitpid(-1, os.WNOHANG)[0]:
                    pass
            except ChildProcessError:
                return
            time.sleep(0.05)


def main() -> int:
    limit, command = float(sys.argv[1]), sys.argv[2:]
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    try:
        return subprocess.Popen(command).wait(timeout=limit)
    except subprocess.TimeoutExpired:
        print(f"bounded.py: ended after {limit:.0f} s: {' '.join(command)}", file=sys.stderr)
        return 124
    finally:
        if sys.platform == "linux":
            end_descendants()


if __name__ == "__main__":
    sys.exit(main())
