"""`gossamer list`: the catalogue as a table, or as one JSON object."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from gossamer.strategy import Entry, Position


def list_strategies(
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object on stdout.")] = False,
) -> None:
    """List the catalogue: every named strategy, what it does, where it stands, and its paper."""
    from gossamer.strategy import CATALOG

    if as_json:
        from gossamer.cli.screen import put_json

        put_json({"strategies": [_told(entry) for entry in CATALOG]})
    else:
        _table(CATALOG)


def _told(entry: Entry) -> dict[str, object]:
    from dataclasses import asdict

    from gossamer.strategy import position

    made = entry.make()
    return {
        "name": entry.name,
        "usage": usage(entry),
        "expression": repr(made),
        "sentence": entry.sentence,
        "paper": entry.paper,
        "position": asdict(position(made)),
    }


def usage(entry: Entry) -> str:
    """The name with every option and its default, as it may be typed."""
    from inspect import signature

    options = signature(entry.make).parameters.values()
    return f"{entry.name}({', '.join(f'{option.name}={option.default!r}' for option in options)})"


def _table(entries: tuple[Entry, ...]) -> None:
    from rich.table import Table

    from gossamer.cli.screen import out
    from gossamer.strategy import position

    table = Table(box=None, padding=(0, 3, 1, 0), pad_edge=False, header_style="dim", expand=True)
    table.add_column("strategy", style="bold cyan", min_width=25, ratio=7, overflow="fold")
    table.add_column("what it does", ratio=10)
    table.add_column("where it stands", style="green", ratio=9, overflow="fold")
    table.add_column("paper", style="dim", ratio=6)
    for entry in entries:
        table.add_row(usage(entry), entry.sentence, in_words(position(entry.make())), entry.paper)
    console = out()
    console.print(table)
    console.print("Every name works bare, or with options as written. Try: gossamer show NAME", style="dim")


def in_words(place: Position) -> str:
    """A position in the taxonomy as one phrase."""
    written = "" if place.compression == "none" else f", written as {place.compression}"
    return f"{place.optimisation}, {place.scheduling}: {place.exchanged} by {place.pattern}{written}"
