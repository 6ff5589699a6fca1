"""`gossamer list`: the catalogue, or the vocabulary of expressions, as a person reads it or as one JSON object."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from gossamer.cli.filters import Filter
    from gossamer.cli.rows import Row

HELP = """List the catalogue by its place in the taxonomy: every named strategy, what it does, and its paper.

Below the entries stand systems that are one of our expressions under another name; placing them is our doing.

Filters combine. A word may be cut short where it stays clear, and whoever has several words is found by each.

    gossamer list --sync async --exchange parameters

    gossamer list --pattern gossip

    gossamer list easgd
"""


def list_strategies(
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="One entry or system, in full.")] = None,
    sync: Annotated[str | None, typer.Option(metavar="WORD", help="synchronous, bounded or asynchronous.")] = None,
    exchange: Annotated[str | None, typer.Option(metavar="WORD", help="gradients, parameters or deltas.")] = None,
    optimisation: Annotated[
        str | None,
        typer.Option("--optimisation", "--optimization", metavar="WORD", help="centralised or decentralised."),
    ] = None,
    pattern: Annotated[
        str | None, typer.Option(metavar="WORD", help="all-reduce, 'parameter server', gossip or a kind of gossip.")
    ] = None,
    compression: Annotated[str | None, typer.Option(metavar="WORD", help="none, any or the name of a codec.")] = None,
    parts: Annotated[
        bool, typer.Option("--parts", metavar="", help="Instead, every word an expression may use, axis by axis.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", metavar="", help="One JSON object on stdout.")] = False,
) -> None:
    """Read the filters, then print what passes or write it as JSON."""
    from gossamer.cli import filters

    asked = filters.asked(
        {
            "--optimisation": optimisation,
            "--sync": sync,
            "--exchange": exchange,
            "--pattern": pattern,
            "--compression": compression,
        }
    )
    _alone(name, asked, parts)
    if parts:
        _words(as_json)
    elif name is not None:
        _one(name, as_json)
    else:
        _all(asked, as_json)


def _alone(name: str | None, asked: list[Filter], parts: bool) -> None:
    """A name and --parts leave nothing to filter."""
    from gossamer.parts.refusal import Refused

    if parts and name is not None:
        raise Refused("list: --parts lists every word there is", f"gossamer list {name}")
    if asked and (parts or name is not None):
        alone = "--parts" if parts else name
        raise Refused(f"list: {alone} leaves nothing to filter with {asked[0]}", f"gossamer list {alone}")


def _words(as_json: bool) -> None:
    from gossamer.cli import parts
    from gossamer.cli.screen import put_json

    if as_json:
        axes = {title.split(":")[0].split(" (")[0]: items for title, items in parts.vocabulary().items()}
        put_json({"parts": {axis: [vars(item) for item in items] for axis, items in axes.items()}})
    else:
        parts.draw()


def _one(name: str, as_json: bool) -> None:
    from gossamer.cli import list_screen, rows

    entries, systems = rows.named(name)
    if as_json:
        _put(entries, systems)
    else:
        list_screen.draw_one([*entries, *systems])


def _all(asked: list[Filter], as_json: bool) -> None:
    from gossamer.cli import filters, list_screen, rows
    from gossamer.cli.screen import aside, out

    every = rows.entries(), rows.systems()
    entries, systems = (filters.passing(some, asked) for some in every)
    if as_json:
        _put(entries, systems)
    elif entries or systems:
        list_screen.draw(entries, systems, asked)
    if not entries and not systems:
        console = aside() if as_json else out()
        console.print(filters.why_nothing([*every[0], *every[1]], asked), markup=False)


def _put(entries: list[Row], systems: list[Row]) -> None:
    from gossamer.cli.screen import put_json

    put_json({"strategies": [row.told() for row in entries], "systems": [row.told() for row in systems]})
