"""What `train` says besides its progress: what begins, what the settings are and who said them, how it ended."""

from __future__ import annotations

import sys
from dataclasses import asdict

from rich.table import Table
from rich.text import Text

from gossamer.cli.screen import aside, out, put_json
from gossamer.cli.train_file import told_value
from gossamer.cli.train_folder import Kept
from gossamer.cli.train_plan import plan, told_plan
from gossamer.cli.train_play import Ending
from gossamer.cli.train_request import Request
from gossamer.cli.train_screen import draw
from gossamer.cli.train_told import told
from gossamer.cli.train_verdict import Verdict
from gossamer.parts.units import told_workers


def settings(request: Request, as_json: bool) -> None:
    """Every setting, and who said it."""
    said, origins = asdict(request.settings), request.resolved.origins
    if as_json:
        put_json({"settings": said, "from": dict(origins), "plan": told_plan(request)})
        return
    table = Table.grid(padding=(0, 3, 0, 0))
    for name, value in said.items():
        told_as = Text("not set", style="dim") if value is None else Text(told_value(value))
        table.add_row(name, told_as, Text(origins[name], style="dim"))
    out().print(table)
    out().print(Text(request.shares, style="dim"))
    if request.pace is not None:
        plan(request, out())


def begin(request: Request, run: Kept, resumed: int | None) -> None:
    """What is about to happen."""
    said = request.settings
    since = f" from step {resumed:,}" if resumed is not None else ""
    what = f"{said.task}, {told_workers(said.workers)}, {request.shares}, {request.steps:,} steps{since}"
    aside().print(Text.assemble((said.strategy, "bold cyan"), f"  {what}; {run.name}"))
    if request.pace is not None:
        plan(request, aside())


def end(found: Verdict, ending: Ending, run: Kept, as_json: bool) -> None:
    """The verdict; of a run that failed also how to go on, and last of all the worker's own words."""
    if as_json:
        put_json(told(found))
    else:
        draw(found, out())
    if ending.code:
        saved = f"last checkpoint: step {run.saved[-1]:,}" if run.saved else "no checkpoint yet"
        sys.stdout.flush()
        how = f"journal in {run.name}; {saved}; to go on: {run.command}"
        for line in (how, ending.words) if ending.words else (f"the run {ending.failure}", how):
            print(f"gossamer: {line}", file=sys.stderr)
