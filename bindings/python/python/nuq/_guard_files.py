"""The folder of a guard. It contains ``model.nuq`` (the model with its threshold) and ``guard.json`` (the description of the guard). The folder
of a guarded PyTorch network can also contain ``probe.npz``: a few inputs and their embeddings, which show later whether a network is the one
that was guarded.

The folder is written under another name and then renamed. The final name therefore never refers to an incomplete folder.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from . import _arrays, _nuq
from .errors import DamagedFileError, FileError, MissingFileError, NewerFormatError

FORMAT = 1
#: Entries that every description of a guard must have.
_ENTRIES = {"threshold", "predictor", "output", "classes", "split"}
MODEL, DESCRIPTION, ARRAYS = "model.nuq", "guard.json", "probe.npz"


def save(folder: Any, model: Any, description: dict[str, Any], arrays: dict[str, np.ndarray]) -> None:
    """Write the folder. An existing folder of a guard is replaced."""
    # A link is kept, and the folder to which it points is replaced.
    path = _arrays.path(folder, "folder").resolve()
    _check_replaceable(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=f".{path.name}-", dir=path.parent, ignore_cleanup_errors=True) as temporary:
            new, old = Path(temporary) / "new", Path(temporary) / "old"
            new.mkdir()
            model.save(new / MODEL)
            if arrays:
                with open(new / ARRAYS, "wb") as file:
                    np.savez(file, **arrays)  # type: ignore[arg-type]
            content = {"format": FORMAT, "nuq": _nuq.__version__, **description}
            (new / DESCRIPTION).write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
            _replace(path, new, old)
    except OSError as error:
        raise error if isinstance(error, FileError) else FileError(f"{path}: {error}") from None


def _check_replaceable(path: Path) -> None:
    """Raise an error if ``path`` exists and is neither an empty folder nor the folder of a guard without other files."""
    if not path.exists():
        return
    if Path.cwd().is_relative_to(path):
        raise FileError(f"{path} is the current working directory, or contains it, and save would replace it: choose another folder")
    names = {file.name for file in path.iterdir()} if path.is_dir() else set()
    if not path.is_dir() or (names and DESCRIPTION not in names):
        raise FileError(f"{path} exists and is not the folder of a guard: choose another folder")
    others = sorted(names - {MODEL, DESCRIPTION, ARRAYS})
    if others:
        raise FileError(f"{path} contains {', '.join(others[:5])}, which save would delete: choose another folder, or move these files")


def _replace(path: Path, new: Path, old: Path) -> None:
    """Move the complete folder ``new`` to ``path``. If that fails, the previous folder is moved back."""
    if not path.exists():
        os.rename(new, path)
        return
    # Where the system can exchange two folders in one step, ``path`` always exists.
    if _nuq.exchange_paths(path, new):
        shutil.rmtree(new, ignore_errors=True)
        return
    os.rename(path, old)
    try:
        os.rename(new, path)
    except OSError:
        os.rename(old, path)
        raise
    shutil.rmtree(old, ignore_errors=True)


def read_description(folder: Any) -> tuple[Path, dict[str, Any]]:
    """The path of a folder and the content of its description."""
    path = _arrays.path(folder, "folder")
    file = path / DESCRIPTION
    if not file.is_file():
        raise MissingFileError(f"{file} does not exist: {path} is not a folder that the method save of a guard has written")
    try:
        description = json.loads(file.read_text(encoding="utf-8"))
    except ValueError as error:
        raise DamagedFileError(f"{file}: {error}") from None
    number = description.get("format") if isinstance(description, dict) else None
    if not isinstance(number, int):
        raise DamagedFileError(f"{file} is not the description of a guard")
    if number > FORMAT:
        raise NewerFormatError(f"{file} has the format {number}, and this version of nuq reads formats up to {FORMAT}: update nuq")
    missing = sorted(_ENTRIES - set(description))
    if missing:
        raise DamagedFileError(f"{file}: the entries {', '.join(missing)} are missing")
    return path, description


def read_arrays(folder: Path) -> dict[str, np.ndarray]:
    """The arrays in the folder; empty if there are none."""
    file = folder / ARRAYS
    if not file.exists():
        return {}
    try:
        with np.load(file, allow_pickle=False) as arrays:
            return dict(arrays)
    except Exception as error:  # noqa: BLE001: numpy and zipfile raise many kinds of errors for a damaged file
        raise DamagedFileError(f"{file}: {error}") from None
