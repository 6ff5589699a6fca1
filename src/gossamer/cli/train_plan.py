"""How rate and batch will go over a run, epoch by epoch, as a table and as JSON. Decides nothing."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil

from rich.console import Console
from rich.table import Table
from rich.text import Text

from gossamer.cli.screen import WIDEST
from gossamer.cli.train_pace import share
from gossamer.cli.train_request import Request
from gossamer.recipes.pace import Passage

HEADS = ("epochs", "batch", "per worker", "steps", "rate")
GAP, LEAST = 6, 12  # characters between tables side by side, and rows that each of them has


def plan(request: Request, console: Console) -> None:
    """A row for every epoch, or for those in which nothing changes; side by side where there is room."""
    said = request.settings
    named = f"recipe {said.recipe}: " if said.recipe is not None else ""
    smooth = f", labels smoothed by {said.smoothing:g}" if said.smoothing else ""
    norms = f", norms {said.norms}" if said.norms != "moving" else ""
    console.print(Text(f"{named}{request.optimizer!r}{smooth}{norms}", style="dim"))
    rows = [_row(request, each) for each in _passages(request)]
    wide = console.measure(_table(rows), options=console.options.update(width=WIDEST)).maximum
    many = max(1, min((console.width + GAP) // (wide + GAP), ceil(len(rows) / LEAST)))
    high = ceil(len(rows) / many)
    beside = Table.grid(padding=(0, GAP, 0, 0))
    beside.add_row(*(_table(rows[start : start + high]) for start in range(0, len(rows), high)))
    console.print(beside, style="dim")


def told_plan(request: Request) -> list[dict[str, object]]:
    """The same rows; none of a run without a pace."""
    return [
        {
            "step": each.step, "steps": each.steps, "epochs": [each.begins, each.ends], "batch": each.batch,
            "per_worker": share(request.settings, each.batch).pieces, "rate": list(each.rates),
            "rate_least": each.bounds[0], "rate_greatest": each.bounds[1],
        }
        for each in _passages(request)
    ]  # fmt: skip


def _passages(request: Request) -> list[Passage]:
    return [] if request.pace is None else request.pace.told()


def _table(rows: Sequence[Sequence[str]]) -> Table:
    table = Table.grid(padding=(0, 3, 0, 0))
    for head in HEADS:
        table.add_column(justify="left" if head in ("per worker", "rate") else "right", no_wrap=head != "rate")
    for row in (HEADS, *rows):
        table.add_row(*row)
    return table


def _row(request: Request, each: Passage) -> tuple[str, ...]:
    assert request.pace is not None
    longest = max(leg.size for leg in request.pace.table.legs) / request.samples
    begins, ends = (_epoch(epoch, longest) for epoch in (each.begins, each.ends))
    met = share(request.settings, each.batch)
    return f"{begins}-{ends}", f"{each.batch:,}", str(met), f"{each.steps:,}", _rates(each)


def _epoch(epoch: float, longest: float) -> str:
    """In whole ones, where it is the first step of an epoch that begins then: that seldom begins with the epoch."""
    whole = int(epoch + 1e-9)
    return f"{whole if epoch - whole < longest else round(epoch, 1):g}"


def _rates(each: Passage) -> str:
    """From the first to the last, and how far it went beyond them in between."""
    first, last, least, greatest = (f"{rate:.4g}" for rate in (*each.rates, *each.bounds))
    told = first if first == last else f"{first} -> {last}"
    down = f", down to {least}" if least not in (first, last) else ""
    up = f", up to {greatest}" if greatest not in (first, last) else ""
    return f"{told}{down}{up}"
