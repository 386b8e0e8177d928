"""The file of a fitted model or baseline as bytes, for pickle and for workers of a cluster."""

from __future__ import annotations

import tempfile
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
