"""Warnings that refer to the code that uses this package."""

from __future__ import annotations

import sys
import warnings
from pathlib import Path

_FOLDER = str(Path(__file__).parent)


def warn(text: str, category: type[Warning] = UserWarning) -> None:
    """Warn with the line of the first caller outside of this package, however many functions of the package are between them.

    Python shows a warning once per line, so a line of this package would hide the warnings of all other callers.
    """
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_FOLDER):
        frame, level = frame.f_back, level + 1
    warnings.warn(text, category, stacklevel=level)
