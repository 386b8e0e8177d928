"""Type annotations of the package, of the stub of its extension, and of code that uses the package."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("mypy")


def check(folder: Path, *arguments: object) -> None:
    run = subprocess.run([sys.executable, "-m", *map(str, arguments)], capture_output=True, text=True, cwd=folder)
    assert run.returncode == 0, run.stdout + run.stderr


def test_strict_mypy_accepts_user_code(tmp_path):
    check(tmp_path, "mypy", "--strict", "--config-file=", Path(__file__).with_name("typed_user.py"))


def test_mypy_accepts_the_package(tmp_path):
    settings = Path(__file__).parents[1] / "pyproject.toml"
    check(tmp_path, "mypy", "--config-file", settings, "-p", "nuq")


def test_the_stub_matches_the_extension(tmp_path):
    check(tmp_path, "mypy.stubtest", "--ignore-missing-stub", "--ignore-disjoint-bases", "nuq._nuq")
