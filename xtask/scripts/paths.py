"""Checks that compiled files contain no path of this machine. Otherwise a build in another folder would give other bytes.

    python paths.py FOLDER PATH...

FOLDER contains wheels and programs. The other files of a release are text or sources and are not checked.
"""

from __future__ import annotations

import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path


def contents(file: Path) -> Iterator[tuple[str, bytes]]:
    """Names and bytes of the file, or of the files in a wheel."""
    if file.suffix != ".whl":
        yield file.name, file.read_bytes()
        return
    with zipfile.ZipFile(file) as archive:
        for name in archive.namelist():
            yield f"{file.name}: {name}", archive.read(name)


def main() -> None:
    folder, *paths = sys.argv[1:]
    files = [file for file in sorted(Path(folder).iterdir()) if file.suffix not in (".gz", ".json", ".md")]
    found = [f"{name} contains {path}" for file in files for name, data in contents(file) for path in paths if path.encode() in data]
    if found:
        sys.exit("\n".join(found))
    print(f"{len(files)} files contain no path of this machine")


if __name__ == "__main__":
    main()
