"""`gossamer list`: the catalogue, or the vocabulary of expressions, as a person reads it or as one JSON object."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

    from gossamer.strategy import Entry, Position

NARROW = 100  # characters: a terminal with fewer gets no table
WORDS = "Every word that expressions are made of: gossamer list --parts"


def list_strategies(
    parts: Annotated[
        bool, typer.Option("--parts", metavar="", help="Instead, every word an expression may use, axis by axis.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", metavar="", help="One JSON object on stdout.")] = False,
) -> None:
    """List the catalogue: every named strategy, what it does, where it stands, and its paper."""
    from gossamer.cli import parts as words
    from gossamer.cli.screen import put_json
    from gossamer.strategy import CATALOG

    if parts and as_json:
        put_json(
            {
                "parts": {
                    title.split(":")[0].split(" (")[0]: [vars(item) for item in items]
                    for title, items in words.vocabulary().items()
                }
            }
        )
    elif parts:
        words.draw()
    elif as_json:
        put_json({"strategies": [_told(entry) for entry in CATALOG]})
    else:
        _draw(CATALOG)


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


def _draw(entries: tuple[Entry, ...]) -> None:
    from rich.text import Text

    from gossamer.cli.screen import out

    console = out()
    if console.width >= NARROW:
        console.print(_table(entries))
    else:
        for entry in entries:
            console.print(_block(entry))
    console.print(Text("Every name works bare, or with options as written. Try: gossamer show NAME", style="dim"))
    console.print(Text(f"What P1 to P5 are, README says. {WORDS}", style="dim"))


def _block(entry: Entry) -> RenderableType:
    """An entry for a terminal too narrow for four columns: one thing below the other."""
    from rich.padding import Padding
    from rich.text import Text

    from gossamer.strategy import position

    about = Text.assemble(
        (usage(entry), "bold cyan"), f"\n{entry.sentence}\n", (in_words(position(entry.make())), "green")
    )
    return Padding(about + Text(f"\n{entry.paper}", "dim"), (0, 0, 1, 0))


def _table(entries: tuple[Entry, ...]) -> Table:
    from rich.table import Table

    from gossamer.strategy import position

    table = Table(box=None, padding=(0, 3, 1, 0), pad_edge=False, header_style="dim", expand=True)
    table.add_column("strategy", style="bold cyan", min_width=25, ratio=7, overflow="fold")
    table.add_column("what it does", ratio=10)
    table.add_column("where it stands", style="green", ratio=9, overflow="fold")
    table.add_column("paper", style="dim", ratio=6)
    for entry in entries:
        table.add_row(usage(entry), entry.sentence, in_words(position(entry.make())), entry.paper)
    return table


def in_words(place: Position) -> str:
    """A position in the taxonomy as one phrase."""
    written = "" if place.compression == "none" else f", written as {place.compression}"
    return f"{place.optimisation}, {place.scheduling}: {place.exchanged} by {place.pattern}{written}"
