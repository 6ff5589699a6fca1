"""What reaches the terminal: results on stdout, everything else on stderr. Knows no command."""

from __future__ import annotations

import errno
import json
import sys
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

WIDEST = 10_000  # characters: as good as no limit


def out() -> Console:
    """Where results go. Without a terminal lines are 120 wide, so that a table in a file stays whole."""
    return _console(stderr=False)


def aside() -> Console:
    """Where progress and remarks go."""
    return _console(stderr=True)


def _console(*, stderr: bool) -> Console:
    import os

    from rich.console import Console

    console = Console(stderr=stderr, highlight=False)
    if not console.is_terminal and "COLUMNS" not in os.environ:
        console.width = 120
    return console


def fits(console: Console, table: Table, indent: int = 0) -> bool:
    """Whether the table has room for every cell in one line."""
    return console.measure(table, options=console.options.update(width=WIDEST)).maximum <= console.width - indent


def put_json(thing: dict[str, object]) -> None:
    """Exactly one object on stdout; numbers that JSON cannot write become null."""
    print(json.dumps(_plain(thing), indent=2, ensure_ascii=False))


def _plain(thing: object) -> object:
    if isinstance(thing, dict):
        return {str(key): _plain(value) for key, value in thing.items()}
    if isinstance(thing, list | tuple):
        return [_plain(value) for value in thing]
    if isinstance(thing, float) and not isfinite(thing):
        return None
    return str(thing) if isinstance(thing, Path) else thing


def explain(error: Exception) -> None:
    """Say on stderr why nothing was done."""
    from gossamer.strategy.expression import Misread

    if isinstance(error, Misread):
        print(error.pointed(), file=sys.stderr)
    elif isinstance(error, OSError):
        where = f"{error.filename}: " if error.filename else ""
        print(f"gossamer: {where}{error.strerror or error}", file=sys.stderr)
    else:
        print(f"gossamer: {error}", file=sys.stderr)


def writable(path: Path) -> None:
    """Raise now, not after the work is done, if this file cannot be written; makes the folders above it."""
    if path.parent.exists() and not path.parent.is_dir():
        raise NotADirectoryError(errno.ENOTDIR, "is not a folder", str(path.parent))
    path.parent.mkdir(parents=True, exist_ok=True)
    new = not path.exists()
    path.open("ab").close()
    if new:
        path.unlink()
