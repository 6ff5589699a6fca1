"""What a session says on the screen."""

from __future__ import annotations

import sys


def tell(line: str) -> None:
    """One line for whoever watches."""
    print(f"gossamer: {line}", file=sys.stderr, flush=True)
