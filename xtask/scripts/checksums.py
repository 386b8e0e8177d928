"""Writes SHA256SUMS of a folder, in the format of sha256sum, and compares it with the SHA256SUMS of another build.

    python checksums.py FOLDER [OTHER]

OTHER is the file SHA256SUMS of another build. A file that is listed in only one of the two is not compared, because a release contains files
of other platforms.
"""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path


def read(text: str) -> dict[str, str]:
    """Checksums by file name."""
    return {name: checksum for checksum, name in (line.split("  ", 1) for line in text.splitlines())}


def main() -> None:
    folder = Path(sys.argv[1])
    out = folder / "SHA256SUMS"
    files = sorted(path for path in folder.iterdir() if path.is_file() and path != out)
    lines = [f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in files]
    out.write_text("".join(lines), encoding="utf-8", newline="\n")
    print("".join(lines), end="")
    if len(sys.argv) > 2:
        ours, theirs = read("".join(lines)), read(Path(sys.argv[2]).read_text(encoding="utf-8"))
        common = sorted(ours.keys() & theirs.keys())
        different = [name for name in common if ours[name] != theirs[name]]
        if not common:
            sys.exit(f"checksums: no file of {folder} is listed in {sys.argv[2]}")
        if different:
            sys.exit(f"checksums: these files differ from {sys.argv[2]}: {', '.join(different)}")
        print(f"{len(common)} files have the same bytes as in {sys.argv[2]}")


if __name__ == "__main__":
    main()
