"""How `gossamer list` looks: a heading for every place in the taxonomy that somebody stands at. Chooses nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from gossamer.cli.filters import NONE, Filter, axes
from gossamer.cli.rows import Row, systems
from gossamer.cli.screen import out
from gossamer.strategy.systems import OUTSIDE, PLACED

if TYPE_CHECKING:
    from rich.console import RenderableType

    from gossamer.strategy import Position

NARROW = 100  # characters: a terminal with fewer gets no table
NOTES = (
    "Every name works bare, or with options as written. Try: gossamer list NAME, gossamer show NAME",
    "What P1 to P5 are, README says. Every word that expressions are made of: gossamer list --parts",
)
Place = tuple[str, str, str, str, bool]


def draw(entries: Sequence[Row], others: Sequence[Row], asked: Sequence[Filter]) -> None:
    """Print everybody below the heading of the place they stand at; after that, what was asked or who is missing."""
    console = out()
    shown = _table if console.width >= NARROW else _blocks
    everybody = [*entries, *others]
    for place in sorted({_place(row.position) for row in everybody}, key=_order):
        here = [row for row in everybody if _place(row.position) == place]
        console.print(_heading(place))
        console.print(Padding(shown(here), (0, 0, 1, 2)))
    found = f"Entries: {len(entries)}. Systems that are one of our expressions, {PLACED}: {len(others)}."
    notes = [f"At {' '.join(map(str, asked))}. {found}"] if asked else [found, _outside(), *NOTES]
    console.print(Text("\n".join(notes), style="dim"))


def draw_one(rows: Sequence[Row]) -> None:
    """Print each row in full."""
    console = out()
    others = systems()
    for row in rows:
        also = [other.name for other in others if row.paper and other.strategy == row.strategy]
        console.print(Text(row.usage if row.paper else f"{row.name} = {row.usage}", style="bold cyan"))
        console.print(Padding(Text(row.sentence), (0, 0, 0, 2)))
        console.print(Padding(_facts(row, also), (0, 0, 1, 2)))


def _facts(row: Row, also: Sequence[str]) -> Table:
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(style="dim")
    table.add_column(overflow="fold")
    table.add_row("expression", Text(repr(row.strategy), style="cyan"))
    for axis, word in asdict(row.position).items():
        table.add_row(axis, Text(word, style="green"))
    table.add_row("paper" if row.paper else "placement", Text(row.source))
    if row.page:
        table.add_row("page", row.page)
    if also:
        table.add_row("also", Text(f"{'; '.join(also)} ({PLACED})"))
    return table


def _place(position: Position) -> Place:
    """What a heading says: everything but how exactly it is written."""
    return (
        position.optimisation, position.scheduling, position.exchanged, position.pattern, position.compression != NONE
    )  # fmt: skip


def _order(place: Place) -> tuple[object, ...]:
    """Headings stand in the order of the words on each axis, and those with several words between their words."""
    *words, compressed = place
    known = [axis.words for axis in axes().values()]
    order = [[axis.index(one) for one in str(told).split(" + ")] for told, axis in zip(words, known, strict=False)]
    return *order, compressed


def _heading(place: Place) -> Text:
    optimisation, scheduling, exchanged, pattern, compressed = place
    told = f"{exchanged} by {pattern}{', compressed' if compressed else ''}"
    return Text.assemble((f"{optimisation.capitalize()}, {scheduling}: ", "bold green"), (told, "green"))


def _table(rows: Sequence[Row]) -> Table:
    """Name, sentence and source side by side, in columns that keep their width under every heading."""
    table = Table(box=None, padding=(0, 3, 0, 0), pad_edge=False, show_header=False, expand=True)
    for style, ratio in (("", 8), ("", 12), ("dim", 5)):
        table.add_column(style=style, ratio=ratio, overflow="fold")
    for row in rows:
        table.add_row(_called(row), _about(row), row.source)
    return table


def _blocks(rows: Sequence[Row]) -> RenderableType:
    """For a terminal too narrow for columns: one thing below the other."""
    table = Table.grid()
    for row in rows:
        table.add_row(_called(row))
        table.add_row(Padding(_about(row), (0, 0, 0, 4)))
        table.add_row(Padding(Text(row.source, style="dim"), (0, 0, 0, 4)))
    return table


def _called(row: Row) -> Text:
    if row.paper:
        return Text(row.usage, style="bold cyan")
    return Text.assemble((row.name, "bold"), " = ", (row.usage, "cyan"))


def _about(row: Row) -> Text:
    """The sentence, and how an entry is written where that is not plain; a system's expression says it already."""
    plain = row.position.compression == NONE or not row.paper
    written = "" if plain else f"\nwritten as {row.position.compression}"
    return Text.assemble(row.sentence, (written, "green"))


def _outside() -> str:
    return f"None of our expressions: {', '.join(system.name for system in OUTSIDE)} (gossamer list NAME says why)."
