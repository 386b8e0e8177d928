"""The command ``nuq``. It runs the command line of the extension and imports neither numpy nor the estimators."""

from __future__ import annotations

import sys

from . import _nuq


def main() -> None:
    """Run the command line with the arguments of the process, and end the process with the exit code of the command line."""
    _nuq.run_command_line(sys.argv[1:])
