"""The command ``nuq``: the command line of the extension, without numpy and the estimators."""

from __future__ import annotations

import sys

from . import _nuq


def main() -> None:
    """Run the command line with the arguments of the process, and end the process with its exit code."""
    _nuq.run_command_line(sys.argv[1:])
