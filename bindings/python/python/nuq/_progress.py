"""Progress on stderr: a tqdm bar if tqdm is installed, lines of text otherwise."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from typing import Any


class Timer:
    """Shows the elapsed time of one long call."""

    def __init__(self, task: str):
        self._task, self._start = task, time.monotonic()
        self._bar = _tqdm(desc=task, bar_format="{desc}: {elapsed}")
        if self._bar is None:
            print(f"{task} …", file=sys.stderr, flush=True)

    def tick(self) -> None:
        """Update the display. This is called regularly during the computation, for example by the extension."""
        if self._bar is not None:
            self._bar.refresh()

    def done(self, result: str) -> None:
        """Print the result and the total time."""
        seconds = time.monotonic() - self._start
        if self._bar is not None:
            self._bar.close()
        print(f"{self._task}: {result}, {seconds:.2f} s", file=sys.stderr, flush=True)


def blocks(total: int, size: int, task: str) -> Iterator[slice]:
    """Slices of ``size`` rows, with a progress bar over all of them."""
    bar = _tqdm(total=total, desc=task, unit="row", unit_scale=True)
    for first in range(0, total, size):
        yield slice(first, min(total, first + size))
        if bar is not None:
            bar.update(min(total, first + size) - first)
        else:
            print(f"{task}: {min(total, first + size)} of {total} rows", file=sys.stderr, flush=True)
    if bar is not None:
        bar.close()


def _tqdm(**options: Any) -> Any:
    try:
        from tqdm.auto import tqdm
    except ImportError:
        return None
    return tqdm(file=sys.stderr, **options)
