"""Generates rows from a seed, as arrays and as npy files, with the standard library only."""

from __future__ import annotations

import random
from array import array
from pathlib import Path


def rows(count: int, columns: int, seed: int, spread: float = 1.0) -> tuple[array, list[int]]:
    """Rows of five overlapping clusters as f32 in row-major order, and the cluster of each row."""
    rng = random.Random(seed)
    values, labels = array("f"), []
    for row in range(count):
        label = row % 5
        values.extend(rng.gauss(0.5 * ((label >> (column % 3)) & 1), spread) for column in range(columns))
        labels.append(label)
    return values, labels


def npy(values: array, shape: tuple[int, ...]) -> bytes:
    """An array of f32 or of i64 in the npy format."""
    descr = {"f": "<f4", "q": "<i8"}[values.typecode]
    header = f"{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape!r}, }}".encode()
    padding = -(10 + len(header) + 1) % 64
    header += b" " * padding + b"\n"
    return b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + values.tobytes()


def write_rows(folder: Path, name: str, count: int, columns: int, seed: int) -> None:
    """Writes NAME.npy and the labels NAME-labels.npy."""
    values, labels = rows(count, columns, seed)
    (folder / f"{name}.npy").write_bytes(npy(values, (count, columns)))
    (folder / f"{name}-labels.npy").write_bytes(npy(array("q", labels), (count,)))
