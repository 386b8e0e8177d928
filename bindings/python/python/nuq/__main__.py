"""Makes ``python -m nuq`` the same as the command ``nuq``."""

from __future__ import annotations

from ._cli import main

if __name__ == "__main__":
    main()
