"""Files in object stores, such as ``s3://bucket/model.nuq``. They are copied to this machine before they are mapped into memory.

pyarrow reads the object stores; the extras ``[ray]`` and ``[spark]`` install it. If pyarrow does not know the scheme of an address, fsspec
reads the file, if it is installed.
"""

from __future__ import annotations

import contextlib
import errno
import getpass
import hashlib
import os
import re
import shutil
import stat
import tempfile
import time
import uuid
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from . import _arrays
from ._package import require
from .errors import DamagedFileError, FileError, InvalidParameterError, MissingFileError

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+)://")

#: Age in seconds after which a temporary file is treated as left by a killed process.
_STALE = 86400.0

#: The file of a sharded model that lists its shards.
MANIFEST = "manifest.nuq"

#: Number of bytes of the header of a model file, its first bytes, and the position of the length of the file in it (docs/model-format.md).
_HEAD, _MAGIC, _LENGTH = 32, b"NUQMODEL", slice(16, 24)


def is_uri(path: Any) -> bool:
    """Whether a path is an address in an object store. An address with ``file://`` is a path on this machine."""
    return isinstance(path, str) and _SCHEME.match(path) is not None and not path.startswith("file://")


def local(path: Any, name: str = "path") -> Path:
    """The path of a model on this machine. A file in an object store is first copied into the temporary folder, unless an earlier call has
    copied it. If ``path`` is the prefix of a sharded model, all its shards are copied.
    """
    if not is_uri(path):
        return _arrays.path(path, name).absolute()
    folder = manifest_folder(path)
    if folder is None:
        return _current(path, lambda key: cache_folder() / f"{key}.nuq")
    from . import _nuq

    _, files, _ = _nuq.load_manifest(folder)
    return _with_shards(path, folder, [name for name, _ in files])


def local_folder(path: Any, name: str) -> Path:
    """The path of a folder on this machine into which files are written. An address in an object store is an error."""
    if is_uri(path):
        raise InvalidParameterError(
            f"{name}={path!r}: workers and driver write and map the files of this folder, but an object store does not support this; use a "
            "folder that all of them share, for example a mounted object store, and copy it to the object store afterwards"
        )
    return _arrays.path(path, name).absolute()


def manifest_folder(path: Any) -> Path | None:
    """The local folder with the manifest of a sharded model, or None if ``path`` is not the folder or prefix of one."""
    if not is_uri(path):
        folder = _arrays.path(path).absolute()
        return folder if (folder / MANIFEST).exists() else None
    prefix = path.rstrip("/")
    if prefix.endswith(".nuq") or not _is_file(f"{prefix}/{MANIFEST}"):
        return None
    return _current(f"{prefix}/{MANIFEST}", lambda key: _shard_cache(key) / MANIFEST).parent


def with_shards(path: str, names: Sequence[str]) -> Path:
    """The local folder with these shards of a sharded model. Shards in an object store are copied to this machine."""
    if not is_uri(path):
        return Path(path)
    return _with_shards(path, _shard_cache(_key(f"{path.rstrip('/')}/{MANIFEST}")), names)


def _with_shards(path: str, folder: Path, names: Sequence[str]) -> Path:
    """The folder after the shards with these names were copied into it."""
    for name in names:
        # The manifest may come from an untrusted source: nothing is written outside of the folder.
        if Path(name).name != name:
            raise DamagedFileError(f"{path}: {name!r} is not the name of a shard")
        # A shard is named by the fingerprint of its content. A copy with this name is therefore never outdated.
        if name and not _is_complete(folder / name):
            _copy(f"{path.rstrip('/')}/{name}", folder / name)
    return folder


def cache_folder() -> Path:
    """The folder on this machine in which copies of model files of this user are stored."""
    folder = Path(tempfile.gettempdir()) / f"nuq-models-{_user()}"
    # Another user of the temporary folder may already have created a folder, a file or a link with this name.
    with contextlib.suppress(FileExistsError):
        folder.mkdir(mode=0o700)
    status = folder.lstat()
    if not stat.S_ISDIR(status.st_mode):
        raise FileError(f"{folder} is a link or a file: remove it, or set TMPDIR to a folder of this user")
    if hasattr(os, "getuid") and (status.st_uid != os.getuid() or status.st_mode & 0o022):
        raise FileError(f"{folder} belongs to another user, or other users can write to it: set TMPDIR to a folder of this user")
    return folder


def _user() -> str:
    """The name of this user; the number if the user has no name, as in some containers."""
    try:
        return getpass.getuser()
    except (ImportError, KeyError, OSError):
        return str(os.getuid()) if hasattr(os, "getuid") else "user"


def _shard_cache(key: str) -> Path:
    """The folder for the copies of a manifest and its shards. If the manifest changes, its key and therefore the folder changes, so that an open
    model keeps its files."""
    folder = cache_folder() / key
    folder.mkdir(exist_ok=True)
    return folder


def _current(uri: str, place: Callable[[str], Path]) -> Path:
    """The copy of a file whose content can change. ``place`` returns the path of the copy for the key of the file. If the copy exists, nothing is
    copied."""
    for _ in range(10):
        key = _key(uri)
        target = place(key)
        if _is_complete(target):
            return target
        if _copy(uri, target, key):
            return target
    raise FileError(f"{uri} was replaced several times while it was copied: try again")


def _copy(uri: str, target: Path, key: str | None = None) -> bool:
    """Copy a file from an object store to ``target``. Returns False, and leaves ``target`` as it was, if ``key`` is not the key of the file, because
    the file was replaced. After an exception, also after Ctrl-C, no temporary file remains."""
    # The name is known before the file exists, so that the file can be removed after an interrupt at any point.
    copy = target.parent / f"{uuid.uuid4().hex}.tmp"
    remove_stale_copies(target.parent)
    try:
        _download(uri, copy)
        # The file may have been replaced after its key was computed, or while it was copied.
        if key is not None and not _key_of(uri, _start(copy)) == key == _key(uri):
            return False
        _store(uri, copy, target)
        return True
    finally:
        with contextlib.suppress(OSError):
            copy.unlink()


def remove_stale_copies(folder: Path) -> None:
    """Remove the temporary files of processes that were killed while they wrote a copy. Files that were changed within a day are kept, because a
    process may be writing. Errors are ignored: another process may have removed a file."""
    with contextlib.suppress(OSError):
        for file in folder.glob("*.tmp"):
            with contextlib.suppress(OSError):
                if file.stat().st_mtime < time.time() - _STALE:
                    file.unlink()


def _download(uri: str, copy: Path) -> None:
    """Copy a file from an object store to a new file."""
    system, path = _file_system(uri)
    try:
        with system.open_input_stream(path) as source, open(copy, "xb") as file:
            shutil.copyfileobj(source, file, 1 << 22)
            # Otherwise a crash of the machine could leave a copy of the right size without its content.
            file.flush()
            os.fsync(file.fileno())
    except Exception as error:
        is_full = isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT)
        remedy = "; set the variable TMPDIR to a folder with enough space" if is_full else ""
        raise FileError(f"{uri} cannot be copied to {copy.parent}: {error}{remedy}") from error


def _store(uri: str, copy: Path, target: Path) -> None:
    """Rename a copy to the name under which later calls find it. A model file must be complete."""
    size, stated = copy.stat().st_size, _stated_size(_start(copy))
    if stated not in (None, size):
        raise DamagedFileError(
            f"{uri}: the copy has {size} bytes, and the header of the file states {stated}: try again; if the file in the object store has another "
            "size than its header states, restore it from a copy"
        )
    try:
        # Other processes on this machine may copy the same file. They write the same content, so the last copy may replace the others.
        os.replace(copy, target)
    except OSError as error:
        # Windows replaces no file that another process has mapped.
        if _is_complete(target):
            return
        raise FileError(f"{uri} cannot be copied to {target}: {error.strerror or error}") from error


def _is_complete(path: Path) -> bool:
    """Whether a copy exists and has the size that its header states. Earlier versions stored copies without comparing the sizes."""
    try:
        return path.stat().st_size == _stated_size(_start(path))
    except OSError:
        return False


def _start(path: Path) -> bytes:
    """The first bytes of a copy."""
    with open(path, "rb") as file:
        return file.read(_HEAD)


def _stated_size(head: bytes) -> int | None:
    """The size of a file that begins with the bytes ``head``, as its header states it; None if it is not a model file."""
    return int.from_bytes(head[_LENGTH], "little") if head.startswith(_MAGIC) and len(head) == _HEAD else None


def _key(uri: str) -> str:
    """A name that depends on the address and the content of a file."""
    return _key_of(uri, _head(uri))


def _key_of(uri: str, head: bytes) -> str:
    """The key of a file that begins with the bytes ``head``. These bytes are enough: they contain the checksum of the table of sections, and this
    table contains the checksums of all sections."""
    return hashlib.sha256(uri.encode() + b"\0" + head).hexdigest()


def _head(uri: str) -> bytes:
    """The first bytes of a file."""
    if not _is_file(uri):
        raise MissingFileError(f"{uri} does not exist")
    system, path = _file_system(uri)
    try:
        with system.open_input_stream(path) as source:
            return bytes(source.read(_HEAD))
    except Exception as error:
        raise FileError(f"{uri} cannot be read: {error}") from error


def _is_file(uri: str) -> bool:
    system, path = _file_system(uri)
    try:
        return bool(system.get_file_info(path).is_file)
    except Exception as error:
        raise FileError(f"{uri} cannot be read: {error}") from error


def _file_system(uri: str) -> tuple[Any, str]:
    """The file system of an address, and the path of the file in this file system."""
    fs = require("pyarrow.fs", "ray")
    try:
        system, path = fs.FileSystem.from_uri(uri)
    except Exception as error:
        scheme, rest = uri.split("://", 1)
        try:
            import fsspec

            system, path = fs.PyFileSystem(fs.FSSpecHandler(fsspec.filesystem(scheme))), rest
        except Exception:
            raise FileError(f"{uri} cannot be read: {error}; copy it to a local path, or install the package of fsspec for {scheme}") from error
    return system, path
