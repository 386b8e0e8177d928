"""Checks that the crates can be published: complete manifests, dependencies with versions, and packages that cargo accepts.

    python crates.py
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tarfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
#: Largest size of a package that crates.io accepts, in bytes.
MAX_BYTES = 10 * 1024 * 1024
FIELDS = ("description", "license", "readme", "keywords", "categories", "rust_version")


def cargo(*arguments: str) -> str:
    program = os.environ.get("CARGO", "cargo")
    return subprocess.run([program, *arguments], cwd=ROOT, check=True, stdout=subprocess.PIPE, encoding="utf-8").stdout


def manifest_problems(package: dict, published: dict[str, str], version: str) -> list[str]:
    problems = [f"no {field}" for field in FIELDS if not package[field]]
    if package["version"] != version:
        problems.append(f"version {package['version']}, other crates have {version}")
    for dependency in package["dependencies"]:
        if dependency.get("path") is None or dependency["kind"] == "dev":
            continue
        if dependency["name"] not in published:
            problems.append(f"depends on {dependency['name']}, which is not published")
        elif dependency["req"] != f"^{version}":
            problems.append(f"depends on {dependency['name']} {dependency['req']}, not ^{version}")
    return problems


def package_problems(file: Path, name: str, version: str) -> list[str]:
    problems = []
    if file.stat().st_size > MAX_BYTES:
        problems.append(f"{file.stat().st_size} bytes, more than {MAX_BYTES}")
    with tarfile.open(file) as archive:
        names = archive.getnames()
    for needed in ("README.md", "Cargo.toml"):
        if f"{name}-{version}/{needed}" not in names:
            problems.append(f"the package does not contain {needed}")
    return problems


def main() -> None:
    metadata = json.loads(cargo("metadata", "--no-deps", "--format-version", "1"))
    packages = [package for package in metadata["packages"] if package["publish"] != []]
    published = {package["name"]: package["version"] for package in packages}
    version = published["nuq"]
    problems = {name: [] for name in published}
    for package in packages:
        problems[package["name"]] += manifest_problems(package, published, version)
    # All packages are made in one call. Cargo then uses the new packages as dependencies of each other.
    selected = [word for name in published for word in ("--package", name)]
    cargo("package", "--quiet", "--no-verify", "--allow-dirty", *selected)
    for name in published:
        file = Path(metadata["target_directory"]) / "package" / f"{name}-{version}.crate"
        problems[name] += package_problems(file, name, version)
    lines = [f"{name}: {problem}" for name, found in problems.items() for problem in found]
    if lines:
        sys.exit("\n".join(["crates that cannot be published:", *lines]))
    print(f"{len(published)} crates of version {version} can be published: {', '.join(published)}")


if __name__ == "__main__":
    main()
