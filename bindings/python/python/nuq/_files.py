"""The file of a fitted model or baseline as bytes, for pickle and for workers of a cluster; new folders."""

from __future__ import annotations

import contextlib
import errno
import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from . import _nuq
from .errors import FileError


def to_bytes(model: Any, **options: Any) -> bytes:
    """The content of the file that ``model.save`` writes. ``options`` are options of ``model.save``."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.nuq"
        model.save(path, **options)
        return path.read_bytes()


def from_bytes(content: bytes, device: Any, threads: int | None = None) -> Any:
    """The object that ``_nuq.load`` returns for a file with this content. ``device`` is the parameter ``device`` of the pickled
    estimator or baseline. ``threads`` is the number of threads that open the file; None for all processors."""
    # The model maps the file. Errors are ignored, because some systems cannot remove a mapped file.
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        path = Path(folder) / "model.nuq"
        try:
            path.write_bytes(content)
        except OSError as error:
            raise FileError(
                f"{path}: {error.strerror or error}: a model is opened from a temporary file of {len(content):,} bytes; set the variable TMPDIR to a "
                "folder with enough space"
            ) from error
        # The number of a GPU in `device` ("cuda:1") is not used, because the pickle may have been written on a machine with other GPUs.
        return _nuq.load(path, "cpu" if device == "cpu" else "auto", threads)


def make_folder(folder: Path, parents: bool = False) -> None:
    """Create a folder if it does not exist, and write its entry to the disk. With ``parents``, the folders that contain it are created too."""
    if folder.exists():
        # This is an error if it is a file.
        folder.mkdir(exist_ok=True)
        return
    if parents:
        make_folder(folder.parent, parents)
    with synced(folder.parent):
        folder.mkdir(exist_ok=True)


@contextlib.contextmanager
def synced(folder: Path) -> Iterator[None]:
    """A context in which entries of a folder are created or renamed. At its end they are written to the disk. The folder is opened at the beginning,
    so that an error leaves the entries as they are. Windows cannot open folders as files, and some file systems cannot write their entries."""
    number = None
    with contextlib.suppress(PermissionError):
        number = None if sys.platform == "win32" else os.open(folder, os.O_RDONLY)
    try:
        yield
        try:
            if number is not None:
                os.fsync(number)
        except OSError as error:
            if error.errno not in (errno.EINVAL, errno.ENOTSUP):
                error.filename = str(folder)
                raise
    finally:
        if number is not None:
            os.close(number)
