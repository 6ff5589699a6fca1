"""`gossamer run`: anybody's script on many workers. Torchrun's flags are torch's to read; here is only the door."""

from __future__ import annotations

import os
import sys
from typing import Any

import typer
from typer.core import TyperCommand

HELP = "Start a script on many workers: torchrun's flags, and a strategy."


class Verbatim(TyperCommand):
    """A command that reads its own words, each as it was typed."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        ctx.args = list(args)
        return []


def run(ctx: typer.Context) -> None:
    """Run it; leave with the code of the worker that failed first, its traceback last."""
    # torch warns of every connection whose other end has no name, in launchers and workers
    os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")
    from gossamer.engine.launch.elastic import launch
    from gossamer.engine.launch.failure import WorkerFailed
    from gossamer.engine.launch.together import Stopped

    try:
        launch(ctx.args)
    except WorkerFailed as failure:
        print(f"gossamer: {failure}", file=sys.stderr)
        raise typer.Exit(failure.code) from None
    except Stopped as stop:
        print(f"gossamer: {stop}", file=sys.stderr)
        raise typer.Exit(stop.code) from None
