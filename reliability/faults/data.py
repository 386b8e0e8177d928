"""Small arrays for the commands, written with the standard library."""

import array
import io
import random
import struct
import zipfile
from pathlib import Path

import arrays


def npy(values, shape, kind="<f4"):
    """The bytes of an npy file."""
    return arrays.npy(array.array({"<f4": "f", "<i8": "q"}[kind], values), shape)


def npz(path: Path, **members):
    """Writes an npz file without compression."""
    with zipfile.ZipFile(path, "w") as file:
        for name, contents in members.items():
            file.writestr(zipfile.ZipInfo(f"{name}.npy"), contents)


def rows(count, columns, seed):
    """Rows of two classes, and their labels."""
    rng = random.Random(seed)
    labels = [i % 2 for i in range(count)]
    values = [rng.gauss(3.0 * label if column == 0 else 0.0, 1.0) for label in labels for column in range(columns)]
    # As f32, so that a csv file has the same values.
    return list(struct.unpack(f"{len(values)}f", struct.pack(f"{len(values)}f", *values))), labels


def csv(values, columns):
    """A table with a header."""
    text = io.StringIO()
    text.write(",".join(f"x{column}" for column in range(columns)) + "\n")
    for start in range(0, len(values), columns):
        text.write(",".join(repr(value) for value in values[start : start + columns]) + "\n")
    return text.getvalue().encode()


def write_npy(path: Path, count, columns, seed):
    """Writes embeddings of `count` rows; returns their labels."""
    values, labels = rows(count, columns, seed)
    path.write_bytes(npy(values, (count, columns)))
    return labels
