"""Optional packages, which are imported only when they are used."""

from __future__ import annotations

import importlib
from typing import Any

from .errors import MissingPackageError


def require(module: str, extra: str) -> Any:
    """Import a module of an optional package that belongs to an extra of nuq."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise MissingPackageError(f'{error}: install it with pip install "nuq[{extra}]"') from error
