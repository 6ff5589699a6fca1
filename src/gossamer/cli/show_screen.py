"""`show` as a person reads it: position, timeline, loads and mixing, one under the other."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from gossamer.cli.screen import fits, out
from gossamer.parts.units import told_bytes, told_rate, told_seconds, told_workers
from gossamer.strategy import position

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import Console, RenderableType

    from gossamer.cli.sight import Sight
    from gossamer.cli.timeline import Row
    from gossamer.strategy import Position
    from gossamer.strategy.describe import Load, Matrix

COLOURS = {"Compute": "green", "Update": "yellow", "Send": "cyan", "Settle": "bright_blue", "Meet": "magenta"}
INDENT = 2


def draw(sight: Sight) -> None:
    """Print everything there is to see."""
    console = out()
    model = told_bytes(sum(tag.bytes for tag in sight.tags))
    console.print()
    about = f"  on {told_workers(sight.world.size)}, with a model of {model}"
    console.print(Text.assemble((sight.text, "bold cyan"), about))
    written = repr(sight.strategy)
    if written != sight.text:
        console.print(Text(f"= {written}", style="dim"))
    _part(console, "Where it stands", Text(f"data parallel, {_stands(position(sight.strategy))}"))
    _part(console, _over_steps(sight), _steps(sight))
    table = _sending(sight)
    _part(console, "What it sends", *([table] if fits(console, table, INDENT) else _listed(table)))
    if sight.balances:
        _part(console, "Does the codec pay", *_balance(sight))
    _part(console, "How it mixes", *(_mixing(sight, load) for load in sight.loads))
    for note in sight.notes:
        console.print(Padding(Text(f"· {note}", style="dim"), (0, 0, 0, INDENT), expand=False))


def _stands(place: Position) -> str:
    """A position in the taxonomy as one phrase."""
    written = "" if place.compression == "none" else f", written as {place.compression}"
    return f"{place.optimisation}, {place.scheduling}: {place.exchanged} by {place.pattern}{written}"


def _part(console: Console, title: str, *things: RenderableType) -> None:
    console.print()
    console.print(title, style="bold")
    for thing in things:
        console.print(Padding(thing, (0, 0, 0, INDENT), expand=False))


def _over_steps(sight: Sight) -> str:
    periods = [f"a period of {period:,} step{'s' * (period > 1)}" for period in sight.timeline.periods]
    return "What a step does" if sight.timeline.periods == (1,) else f"What a step does, over {', then '.join(periods)}"


def _steps(sight: Sight) -> Table:
    grid = Table.grid(padding=(0, 3, 0, 0))
    for row in sight.timeline.rows:
        line = Text(" ─ ", style="dim").join(_mark(mark) for mark in row.marks) if row.marks else _rest(row)
        grid.add_row(Text(_span(row), style="dim"), line)
    return grid


def _rest(row: Row) -> Text:
    return Text("more rows of this period, left out" if row.cut else "and so on", "dim")


def _mark(mark: str) -> Text:
    return Text(mark, style=COLOURS[mark.split(" ")[0]])


def _span(row: Row) -> str:
    if row.last is None:
        return f"step {row.first:,} on" if row.first else "every step"
    return f"step {row.first:,}" if row.first == row.last else f"steps {row.first:,}-{row.last:,}"


def _sending(sight: Sight) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0), header_style="dim")
    table.add_column("slot", style="dim")
    table.add_column("exchange")
    table.add_column("when")
    for title in ("wire", "rounds", "a member sends", "per step"):
        table.add_column(title, justify="right")
    if any(load.answered for load in sight.loads):
        table.add_column("a hub answers", justify="right")
    if sight.link is not None:
        table.add_column(f"at {told_rate(sight.link)}", justify="right")
    for load in sight.loads:
        table.add_row(*_sends(sight, load))
    return table


def _balance(sight: Sight) -> Iterator[Text]:
    """What writing and reading cost here, what they spare on the link, and where the two are even."""
    for each in sight.balances or ():
        write, read = told_seconds(each.cost.write), told_seconds(each.cost.read)
        yield Text(f"slot {each.slot}: writing takes {write} and reading {read} on this machine, one thread")
        if sight.link is not None:
            coded, dense = (told_seconds(seconds) for seconds in each.seconds(sight.link, sight.latency))
            yield Text(f"        at {told_rate(sight.link)} an exchange takes {coded} with it, {dense} without")
    bound = sight.pays_below
    assert bound is not None
    if bound == 0.0 and sight.pays:
        yield Text("it sends no less than every number as it is, but in fewer rounds", "bold")
    elif bound == 0.0:
        yield Text("it pays on no link: it sends no less than every number as it is", "yellow")
    else:
        words = "on every link" if bound == inf else f"on links slower than {told_rate(bound / 8)}"
        yield Text(f"it pays {words}", "bold")
    if sight.pays is not None:
        yield Text(
            "here it does" if sight.pays else "here it does not: send the numbers as they are",
            "green" if sight.pays else "yellow",
        )


def _listed(table: Table) -> list[Text]:
    """The same as lines, an exchange after the other, for a terminal that is narrower than the table."""
    titles = [str(column.header) for column in table.columns]
    rows = zip(*(column.cells for column in table.columns), strict=True)
    lines = []
    for row in rows:
        cells = zip(titles, row, strict=True)
        told = [Text(f"{title}: ", "dim") + Text(str(cell)) for title, cell in cells]
        lines.append(Text("; ").join(told))
    return lines


def _sends(sight: Sight, load: Load) -> list[str]:
    ex = load.exchange
    when = "every step" if ex.synchrony.every == 1 else f"every {ex.synchrony.every:,} steps"
    if load.first or load.last is not None:
        when += f", from step {load.first:,}" if load.first else f", to step {load.last:,}"
    cells = [str(load.slot), f"{ex.payload.value}, {ex.topology.pattern}", when]
    cells += [" + ".join(told_bytes(wire.likely) for wire in load.wires), f"{load.rounds:,}"]
    cells += [told_bytes(load.sent.likely), told_bytes(load.per_step)]
    if any(other.answered for other in sight.loads):
        cells.append(told_bytes(load.answered) + " each" if load.answered else "-")
    seconds = sight.seconds(load)
    return cells if seconds is None else [*cells, told_seconds(seconds)]


def _mixing(sight: Sight, load: Load) -> RenderableType:
    prefix = f"slot {load.slot}: " if len(sight.loads) > 1 else ""
    gap, matrix, size = sight.gaps[load.slot], sight.matrices[load.slot], sight.world.size
    if load.exchange.hub:
        return Text(f"{prefix}at a hub, by {load.exchange.merge!r}")
    if matrix is not None:
        lines = Table.grid()
        lines.add_row(Text(f"{prefix}in round 0 each row hears the columns with these weights; spectral gap {gap:.4f}"))
        lines.add_row(_weights(matrix))
        return lines
    if load.exchange.topology.pattern == "all-reduce":
        return Text(f"{prefix}everybody hears the mean of all {size:,}: one value, 1/{size:,} each; spectral gap 1")
    told = "not worked out above 256 workers" if gap is None else f"{gap:.4g}"
    return Text(f"{prefix}{load.exchange.topology.pattern} among {size:,}; spectral gap {told}")


def _weight(weight: float) -> str:
    return f"{weight:.3f}".rstrip("0").rstrip(".")


def _weights(matrix: Matrix) -> Table:
    grid = Table.grid(padding=(0, 2, 0, 0))
    size = len(matrix)
    grid.add_row("", *(Text(str(place), style="dim") for place in range(size)))
    for place in range(size):
        cells = [Text(_weight(w), style="cyan") if w else Text("·", style="dim") for w in matrix[place]]
        grid.add_row(Text(str(place), style="dim"), *cells)
    return grid
