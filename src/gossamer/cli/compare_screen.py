"""Several runs side by side: one table, the best of each column marked."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.table import Table
from rich.text import Text

from gossamer.cli.perform import Run
from gossamer.cli.report import Numbers, mishaps, numbers
from gossamer.cli.report_screen import files, setting
from gossamer.cli.screen import out
from gossamer.parts.units import told_bytes, told_seconds, told_share, told_small

NAME, GAP = 18, 2  # characters: the least for a name, and between columns


@dataclass(frozen=True)
class Column:
    """A number of each run, how it is told, and whether more of it is better."""

    title: str
    value: Callable[[Numbers], float | None]
    told: Callable[[float], str]
    more: bool = False
    beside: Callable[[Numbers], str] = lambda _: ""  # told after the number, and not compared
    alone: bool = False  # whether the only one that has a number is the best
    spare: int = 0  # on a narrow terminal, columns are left out from the highest number down; 0 always stays


def draw(runs: Sequence[Run], plot: Path | None) -> None:
    """Print the table, in the order the strategies were given, and where the files lie."""
    console, sums = out(), [numbers(run) for run in runs]
    columns = _columns(runs[0].request.target, sums)
    shown = _fitting(columns, sums, console.width)
    left_out = ", ".join(" ".join(column.title.replace("-\n", "").split()) for column in columns if column not in shown)
    console.print()
    console.print(Text(setting(runs[0]), style="bold"))
    console.print()
    console.print(_table(runs, sums, shown))
    narrow = f"; no room for {left_out}" if left_out else ""
    console.print(Text(f"* best of its column; seconds are virtual; stale: mean/most{narrow}", style="dim"))
    for run, each in zip(runs, sums, strict=True):
        for event in mishaps(run):
            console.print(Text(f"! {run.part.text}, {told_seconds(event.time)}: {event.what}", style="bold red"))
        if each.failure is not None:
            console.print(Text(f"! {run.part.text} {each.failure}: it is not ranked", style="bold red"))
    for title, line in files(runs, plot):
        console.print(Text.assemble((f"{title} ", "dim"), line))


def _fitting(columns: Sequence[Column], sums: Sequence[Numbers], room: int) -> list[Column]:
    """The columns that fit beside the names, the spare ones left out first."""
    shown = list(columns)
    widths = {
        column.title: GAP + max(map(len, (*column.title.split("\n"), *(cell.plain for cell in _cells(column, sums)))))
        for column in columns
    }
    while NAME + sum(widths[column.title] for column in shown) > room and any(column.spare for column in shown):
        shown.remove(max(shown, key=lambda column: column.spare))
    return shown


def _table(runs: Sequence[Run], sums: Sequence[Numbers], columns: Sequence[Column]) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, GAP, 0, 0), header_style="dim")
    table.add_column("\nstrategy", style="cyan", overflow="fold", min_width=NAME)
    for column in columns:
        table.add_column(column.title if "\n" in column.title else f"\n{column.title}", justify="right", no_wrap=True)
    cells = [_cells(column, sums) for column in columns]
    for place, run in enumerate(runs):
        table.add_row(run.part.text, *(column[place] for column in cells))
    return table


def _columns(target: float, sums: Sequence[Numbers]) -> list[Column]:
    """The columns these runs have something to say in; ages in different units stand in different columns."""
    goal = f"{target:g}"
    columns = [
        Column("accu-\nracy", lambda s: s.last.accuracy, lambda v: told_share(v, target), more=True),
        Column("held-out\nloss", lambda s: s.last.loss, lambda v: f"{v:.3f}", spare=9),
        Column("seconds", lambda s: s.seconds, lambda v: f"{v:.2f}", spare=2),
        Column(f"seconds\nto {goal}", lambda s: s.seconds_to_target, lambda v: f"{v:.2f}", alone=True),
        Column(f"epochs\nto {goal}", lambda s: s.epochs_to_target, lambda v: f"{v:.1f}", alone=True, spare=6),
        Column("sent per\nmember", lambda s: s.sent, told_bytes),
        Column("hub\nanswers", lambda s: s.answered, told_bytes, spare=7),
        Column("diver-\ngence", lambda s: s.last.divergence, told_small, spare=5),
        *(_ages(unit) for unit in sorted({each.unit for each in sums})),
        Column("effi-\nciency", lambda s: s.efficiency, lambda v: f"{v:.0%}", more=True, spare=1),
        Column("dropped", lambda s: float(s.dropped) or None, lambda v: f"{v:.0f}", spare=8),
    ]
    always = [column for column in columns if column.title not in ("hub\nanswers", "dropped")]
    return [column for column in columns if column in always or any(column.value(each) is not None for each in sums)]


def _ages(unit: str) -> Column:
    """Mean and largest staleness of the runs that count it in this unit."""
    return Column(
        f"stale\n{unit}",
        lambda s: s.mean_staleness if s.unit == unit else None,
        lambda v: f"{v:.2g}",
        beside=lambda s: f"/{s.most_staleness}" if s.unit == unit else "",
        spare=4,
    )


def _cells(column: Column, sums: Sequence[Numbers]) -> list[Text]:
    """The column's cells; the best is marked, unless so many are alike that it says nothing.

    A run that stood still or diverged is told and never marked.
    """
    values = [column.value(each) for each in sums]
    told = ["-" if value is None else column.told(value) for value in values]
    ranked = [v is not None and v == v and each.failure is None for v, each in zip(values, sums, strict=True)]
    known = [(v, word) for v, word, fair in zip(values, told, ranked, strict=True) if fair and v is not None]
    best = (max if column.more else min)(known, default=(0.0, ""))[1]
    wins = [word == best and fair for word, fair in zip(told, ranked, strict=True)]
    if sum(wins) > len(wins) // 2 or (len(known) < 2 and not column.alone):
        wins = [False] * len(wins)
    full = [word + column.beside(each) for word, each in zip(told, sums, strict=True)]
    return [Text(f"{w}{'*' if won else ' '}", "bold green" if won else "") for w, won in zip(full, wins, strict=True)]
