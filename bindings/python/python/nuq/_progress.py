"""How a long run shows that it lives: a bar of tqdm where it is installed (in notebooks too), plain lines otherwise."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from typing import Any


class Waiting:
    """Ticks while the extension works, and says at the end how long that took."""

    def __init__(self, what: str):
        self._what, self._start = what, time.monotonic()
        self._bar = _tqdm(desc=what, bar_format="{desc}: {elapsed}")
        if self._bar is None:
            print(f"{what} …", file=sys.stderr, flush=True)

    def tick(self) -> None:
        if self._bar is not None:
            self._bar.refresh()

    def done(self, said: str) -> None:
        seconds = time.monotonic() - self._start
        if self._bar is not None:
            self._bar.close()
        print(f"{self._what}: {said}, {seconds:.2f} s", file=sys.stderr, flush=True)


def blocks(total: int, size: int, what: str, shown: bool) -> Iterator[slice]:
    """Slices of so many rows, with a bar."""
    bar = _tqdm(total=total, desc=what, unit="row", unit_scale=True) if shown else None
    for first in range(0, total, size):
        yield slice(first, min(total, first + size))
        if bar is not None:
            bar.update(min(total, first + size) - first)
        elif shown:
            print(f"{what}: {min(total, first + size)} of {total} rows", file=sys.stderr, flush=True)
    if bar is not None:
        bar.close()


def _tqdm(**options: Any) -> Any:
    try:
        from tqdm.auto import tqdm
    except ImportError:
        return None
    return tqdm(file=sys.stderr, **options)
