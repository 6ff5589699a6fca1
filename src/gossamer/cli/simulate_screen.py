"""A simulation on the terminal: what must be said first, the table, and where its figures come from."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text

from gossamer.cli.screen import fits, out
from gossamer.cli.simulate_report import Answer, described, omissions, scaling, troubles
from gossamer.cli.simulate_request import Row
from gossamer.parts.units import told_bytes, told_seconds, told_span
from gossamer.sim.forecast import Forecast, Interval

NAME = 28  # characters of a strategy's name before it is folded


@dataclass(frozen=True)
class Column:
    """A figure of a row as it is told; on a narrow terminal, columns are left out from the highest `spare` down."""

    title: str
    told: Callable[[Forecast], str]
    best: Callable[[Forecast], float] | None = None  # the least of it is marked, where rows are compared
    spare: int = 0


COLUMNS = (
    Column("a step", lambda f: told_seconds(f.step.value), lambda f: f.step.value),
    Column("nine in\nten", lambda f: between(f.step, told_seconds), spare=1),
    Column("effi-\nciency", lambda f: f"{f.efficiency:.0%}", lambda f: -f.efficiency),
    Column("exposed", lambda f: told_seconds(f.exposed), spare=3),
    Column("sent per\nmember", lambda f: told_bytes(f.sent), spare=2),
    Column("hub\nanswers", lambda f: told_bytes(f.answered), spare=7),
    Column("samples\na second", lambda f: f"{f.throughput:,.0f}", spare=6),
    Column("stale", lambda f: f"{f.staleness:.2g}", spare=8),
    Column("to the\ngoal", lambda f: told_span(f.goal.value) if f.goal else "-", lambda f: _until(f)),
    Column("nine in\nten", lambda f: between(f.goal, told_span) if f.goal else "-", spare=5),
    Column("times\nmeasured", lambda f: f"{f.extrapolation:,.0f}", spare=4),
)  # fmt: skip


def draw(answer: Answer, plot: Path | None, trace: Path | None, said: str | None = None) -> None:
    """Print the warning, the table over worker counts, notes, and the files."""
    console, question = out(), answer.question
    several = len(question.parts) > 1
    if answer.warning:
        console.print(Text(answer.warning, style="bold red"), soft_wrap=True)
    cluster, workload = question.places
    servers = f", {question.servers:,} servers" * bool(question.servers)
    titled = "" if several else f", {question.parts[0].text}"
    console.print(Text(f"{workload} on {cluster}{titled}: {scaling(question)}{servers}; "
                       f"{question.steps:,} steps, seed {question.seed}\n", style="bold"))  # fmt: skip
    if several:
        console.print(_crossed(answer))
        console.print(Text(f"* the shortest; beside it the efficiency\n\non {question.workers:,} workers:", "dim"))
    rows = answer.last if several else answer.rows
    table, missing = _fitting(rows, several, console)
    console.print(table)
    _notes(answer, missing, several)
    for title, line in (("plot", plot), ("trace", trace)):
        if line is not None:
            console.print(Text.assemble((f"{title} ", "dim"), str(line)), soft_wrap=True)
    if said is not None:
        console.print(Text(said))


def between(found: Interval, told: Callable[[float], str]) -> str:
    """The ends of an interval, with the unit once where both have the same."""
    (low, unit), (high, other) = told(found.low).split(), told(found.high).split()
    return f"{low}..{high} {unit}" if unit == other else f"{low} {unit}..{high} {other}"


def _until(found: Forecast) -> float:
    return found.goal.value if found.goal else 0.0


def _crossed(answer: Answer) -> Table:
    """A line for each worker count, a column for each strategy: seconds of a step and efficiency."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="cyan")
    table.add_column(Text("workers", style="dim"), justify="right", no_wrap=True)
    for part in answer.question.parts:
        table.add_column(part.text, justify="right", overflow="fold", max_width=NAME)
    by = {(row.forecast.workers, row.part.text): row.forecast for row in answer.rows}
    for count in answer.question.counts():
        found = [by.get((count, part.text)) for part in answer.question.parts]
        best = _best([each.step.value for each in found if each is not None and not each.stopped], told_seconds)
        table.add_row(f"{count:,}", *(_cell(each, best) for each in found))
    return table


def _best(values: Sequence[float], told: Callable[[float], str]) -> str:
    """The least as it is told, unless there is nothing to compare or so many are alike that it says nothing."""
    words = [told(value) for value in values]
    best = told(min(values, default=0.0))
    return best if len(words) > 1 and words.count(best) <= len(words) // 2 else ""


def _cell(found: Forecast | None, best: str) -> Text:
    if found is None or found.stopped:
        return Text("- " if found is None else "stands still ", "dim" if found is None else "bold red")
    told = told_seconds(found.step.value)
    return Text(f"{told}{'*' if told == best else ' '} {found.efficiency:>4.0%}", "bold green" * (told == best))


def _fitting(rows: Sequence[Row], several: bool, console: Console) -> tuple[Table, list[str]]:
    """The table with as many columns as there is room for, and the titles of the others."""
    shown = [column for column in COLUMNS if _speaks(column, rows)]
    missing: list[str] = []
    while not fits(console, table := _table(rows, shown, several)) and any(column.spare for column in shown):
        gone = max(shown, key=lambda column: column.spare)
        shown.remove(gone)
        missing.append(" ".join(gone.title.replace("-\n", "").split()))
    return table, missing


def _speaks(column: Column, rows: Sequence[Row]) -> bool:
    """Whether any row has something to say there."""
    mute = {"-", "0", "0 B"}
    return column.title == "effi-\nciency" or any(column.told(row.forecast) not in mute for row in rows)


def _table(rows: Sequence[Row], columns: Sequence[Column], several: bool) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column("\nstrategy" if several else "\nworkers", style="cyan", justify="left" if several else "right",
                     overflow="fold", no_wrap=not several, max_width=NAME if several else None)  # fmt: skip
    for column in columns:
        table.add_column(column.title if "\n" in column.title else f"\n{column.title}", justify="right", no_wrap=True)
    for row in rows:
        name = row.part.text if several else f"{row.forecast.workers:,}"
        if row.forecast.stopped:
            table.add_row(name, Text("still", "bold red"))
        else:
            table.add_row(name, *(f"{c.told(row.forecast)}{_mark(c, row, rows) if several else ''}" for c in columns))
    return table


def _mark(column: Column, row: Row, rows: Sequence[Row]) -> str:
    """A star after the best of a column, if it is one in which there is a best."""
    going = [each.forecast for each in rows if not each.forecast.stopped]
    if column.best is None or len(going) < 2:
        return ""
    words, best = [column.told(each) for each in going], column.told(min(going, key=column.best))
    return "*" if column.told(row.forecast) == best and words.count(best) <= len(words) // 2 else " "


def _notes(answer: Answer, missing: Sequence[str], several: bool) -> None:
    console, question = out(), answer.question
    best = "* best of its column; " if several and len(answer.last) > 1 else ""
    narrow = f"; no room for {', '.join(reversed(missing))}" if missing else ""
    times = "" if "times measured" in missing else "; times measured: workers over the most that ever were"
    console.print(Text(f"{best}an interval holds nine chances in ten{times}{narrow}", style="dim"))
    for line in omissions(answer):
        console.print(Text(line, style="dim"))
    for line in troubles(answer):
        console.print(Text(f"! {line}", style="bold red"))
    goal = question.workload.goal
    if goal is not None and goal.what:
        console.print(Text.assemble(("goal ", "dim"), goal.what))
    for each in described(question):
        source = f". {each.source}" if each.source else ""
        console.print(Text.assemble((f"{each.kind} ", "dim"), each.title, (source, "dim")))
