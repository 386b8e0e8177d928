"""The folder of a guard. It contains ``model.nuq`` (the model with its threshold) and ``guard.json`` (the description of the guard). The folder
of a guarded PyTorch network can also contain ``probe.npz``: a few inputs and their embeddings, which show later whether a network is the one
that was guarded.

The folder is written under another name and then renamed. The final name therefore never refers to an incomplete folder. A process that is
killed leaves its temporary folder; except on Windows, a later save that replaces the same guard removes it.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any, TypeVar

import numpy as np

from . import _arrays, _files, _nuq
from .errors import DamagedFileError, FileError, MissingFileError, NewerFormatError

_Read = TypeVar("_Read")

FORMAT = 1
#: Entries that every description of a guard must have.
_ENTRIES = {"threshold", "predictor", "output", "classes", "split"}
MODEL, DESCRIPTION, ARRAYS = "model.nuq", "guard.json", "probe.npz"
#: Flag of the function ``renamex_np`` of macOS: the two names are exchanged.
_RENAME_SWAP = 2
#: A temporary folder whose process has ended is removed when nothing in it was changed for this number of seconds. On a file system that
#: several machines share, the process may run on another machine.
_STALE = 60.0


def save(folder: Any, model: Any, describe: Callable[[], dict[str, Any]], arrays: dict[str, np.ndarray]) -> None:
    """Write the folder. An existing folder of a guard is replaced. After every exception, also after Ctrl-C, ``folder`` is the previous or the new
    folder; if that is impossible, the error names the folders. ``describe`` returns the content of the description."""
    revision, description = model._fitted_state().revision, describe()
    # A link is kept, and the folder to which it points is replaced. `Path.resolve` raises a RuntimeError for a link to itself.
    path = Path(os.path.realpath(_arrays.path(folder, "folder")))
    try:
        _check_replaceable(path)
        _files.make_folder(path.parent, parents=True)
        _remove_stale_folders(path)
        temporary = Path(tempfile.mkdtemp(prefix=f".{path.name}-{os.getpid()}-", dir=path.parent))
        new, old = temporary / "new", temporary / "old"
        try:
            new.mkdir()
            with _files.synced(new):
                _write(new, model, description, arrays)
            # Another thread may have changed the model after it was described. A change of rows that removes a threshold changes the revision.
            if describe() != description or model._fitted_state().revision != revision:
                raise FileError(f"{path}: the model was changed while it was saved: save it again")
            with _files.synced(path.parent):
                _replace(path, new, old)
        finally:
            # Nothing is removed if this raises an error.
            _move_back(path, new, old)
            _remove(new)
            _remove(old)
            _remove_folder(temporary)
    except OSError as error:
        raise error if isinstance(error, FileError) else FileError(f"{path}: {error}") from None


def _write(folder: Path, model: Any, description: dict[str, Any], arrays: dict[str, np.ndarray]) -> None:
    """Write the files of a guard into an empty folder."""
    model.save(folder / MODEL)
    if arrays:
        with open(folder / ARRAYS, "wb") as file:
            np.savez(file, **arrays)  # type: ignore[arg-type]
            _flush(file)
    content = {"format": FORMAT, "nuq": _nuq.__version__, **description}
    with open(folder / DESCRIPTION, "w", encoding="utf-8", newline="\n") as file:
        file.write(json.dumps(content, indent=1, ensure_ascii=False) + "\n")
        _flush(file)


def _remove(folder: Path) -> None:
    """Remove the folder of a guard, if it exists. The names of its files are known, so that the folder is also removed if the process has too
    many open files to list it. An error is ignored: the folder is temporary."""
    for name in (MODEL, DESCRIPTION, ARRAYS):
        with contextlib.suppress(OSError):
            os.unlink(folder / name)
    _remove_folder(folder)


def _remove_folder(folder: Path) -> None:
    """Remove a folder if it is empty. An error is ignored."""
    with contextlib.suppress(OSError):
        os.rmdir(folder)


def _flush(file: IO[Any]) -> None:
    """Write the buffers of a file to the disk."""
    file.flush()
    os.fsync(file.fileno())


def read_unchanged(folder: Any, read: Callable[[], _Read]) -> _Read:
    """The result of ``read``, which reads several files of a folder. If another process has replaced the folder in the meantime, the folder is read
    again, because the files belong together."""
    path = _arrays.path(folder, "folder")
    for _ in range(10):
        before = _identity(path)
        try:
            result = read()
        except FileError:
            if _identity(path) == before:
                raise
            continue
        if _identity(path) == before:
            return result
    raise FileError(f"{path} was replaced several times while it was opened: try again")


def _identity(path: Path) -> tuple[int, ...] | None:
    """Identifies a folder; None if there is none."""
    try:
        state = os.stat(path)
    except OSError:
        return None
    return state.st_dev, state.st_ino, state.st_mtime_ns


def _remove_stale_folders(path: Path) -> None:
    """Remove the temporary folders of killed processes. On Windows, whether a process runs cannot be asked without ending it."""
    # If there is no folder, a temporary folder may contain the only copy of the previous one (see ``_replace``).
    if sys.platform == "win32" or not path.exists():
        return
    # The names that ``save`` gives to temporary folders: the name of the guard, the id of the process, and eight characters of ``tempfile``.
    pattern = re.compile(rf"\.{re.escape(path.name)}-(\d+)-[a-z0-9_]{{8}}")
    for folder in path.parent.iterdir():
        match = pattern.fullmatch(folder.name)
        # Errors are ignored: the folder cannot be removed, or another process has removed it. It does not affect the new folder.
        with contextlib.suppress(OSError):
            if match is not None and not _is_running(int(match[1])) and _last_change(folder) < time.time() - _STALE:
                shutil.rmtree(folder)


def _last_change(folder: Path) -> float:
    """The time at which the folder, or a file or folder in it, was last changed."""
    return max(path.stat().st_mtime for path in (folder, *folder.rglob("*")))


def _is_running(process: int) -> bool:
    try:
        os.kill(process, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        # The process belongs to another user.
        pass
    return True


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
    """Move the complete folder ``new`` to ``path``. Afterwards the previous folder is ``new`` or ``old``, and ``save`` removes it. After an error the
    previous folder can be ``old`` while ``path`` does not exist."""
    if not path.exists():
        os.rename(new, path)
        return
    # Where the system can exchange two folders in one step, ``path`` always exists.
    if _exchange(path, new):
        return
    os.rename(path, old)
    os.rename(new, path)


def _exchange(first: Path, second: Path) -> bool:
    """Exchange the names of two folders in one step, if the system and the file system can do so. Returns whether they were exchanged."""
    if _nuq.exchange_paths(first, second):
        return True
    if sys.platform != "darwin":
        return False
    import ctypes

    rename = getattr(ctypes.CDLL(None), "renamex_np", None)
    return rename is not None and rename(os.fsencode(first), os.fsencode(second), _RENAME_SWAP) == 0


def _move_back(path: Path, new: Path, old: Path) -> None:
    """Move the previous folder back to ``path`` if only the first renaming of ``_replace`` was done."""
    # Ctrl-C is raised after a renaming that has succeeded, so the entries of the disk show which renamings were done.
    if os.path.lexists(path):
        return
    is_certain = True
    try:
        os.lstat(old)
    except FileNotFoundError:
        # There was no previous folder.
        return
    except OSError:
        # The folder may exist, so the renaming is tried.
        is_certain = False
    try:
        os.rename(old, path)
    except OSError as error:
        if is_certain or not isinstance(error, FileNotFoundError):
            raise FileError(f"{path}: {error}; the new folder is now {new}, and the previous folder is now {old}") from None


def read_description(folder: Any) -> tuple[Path, dict[str, Any]]:
    """The path of a folder and the content of its description."""
    path = _arrays.path(folder, "folder")
    file = path / DESCRIPTION
    try:
        if not file.is_file():
            raise MissingFileError(f"{file} does not exist: {path} is not a folder that the method save of a guard has written")
        description = json.loads(file.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        # json raises a RecursionError for lists that contain lists a thousand times.
        raise DamagedFileError(f"{file}: {error}: restore the folder from a copy, or save the guard again") from None
    except OSError as error:
        raise error if isinstance(error, FileError) else FileError(f"cannot read {file}: {error.strerror}") from None
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
