"""`gossamer key`: the key by which the launchers and workers of several hosts know each other."""

from __future__ import annotations

from typing import Annotated

import typer

HELP = """Write a new key into a file that only you can read. A file that is there already is left alone.

Copy it to every host of a run and name it there: gossamer run --nnodes 2 --key-file FILE ..."""


def key(file: Annotated[str, typer.Argument(metavar="FILE", help="Where the key is to lie.")]) -> None:
    """Make it."""
    from gossamer.engine.messages.secret import made

    made(file)
    print(f"gossamer: {file} holds a new key; copy it to every host and keep it to yourself")
