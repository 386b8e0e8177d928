"""The package is typed, inside and for its users."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("mypy")


def check(folder: Path, *words: object) -> None:
    done = subprocess.run([sys.executable, "-m", *map(str, words)], capture_output=True, text=True, cwd=folder)
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_user_with_a_strict_checker(tmp_path):
    check(tmp_path, "mypy", "--strict", "--config-file=", Path(__file__).with_name("typed_user.py"))


def test_the_package(tmp_path):
    settings = Path(__file__).parents[1] / "pyproject.toml"
    check(tmp_path, "mypy", "--config-file", settings, "-p", "nuq")


def test_the_stub_is_what_the_extension_is(tmp_path):
    check(tmp_path, "mypy.stubtest", "--ignore-missing-stub", "--ignore-disjoint-bases", "nuq._nuq")
