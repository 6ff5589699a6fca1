"""A sweep on the terminal: progress on stderr while it runs, then the table and a sentence per worker count."""

from __future__ import annotations

from collections.abc import Sequence
from time import perf_counter
from types import TracebackType

from rich.progress import BarColumn, Progress, TextColumn
from rich.table import Column, Table
from rich.text import Text

from gossamer.cli.screen import aside, fits, out
from gossamer.cli.sweep_case import Case, Result
from gossamer.cli.sweep_report import Sweep, sentences
from gossamer.cli.sweep_verdict import Cell, Row, Spread, best
from gossamer.parts.units import told_seconds


class Progressing:
    """Runs done of all, what is running, time left: alive on a terminal, a line per finished run elsewhere."""

    def __init__(self, total: int, found: int, target: float) -> None:
        self._console, self._target = aside(), target
        self._total, self._found, self._done, self._began = total, found, found, perf_counter()
        rest = Column(no_wrap=True, overflow="ellipsis", ratio=1)
        self._live = Progress(
            BarColumn(bar_width=16),
            TextColumn("{task.completed}/{task.total} runs"),
            TextColumn("{task.fields[left]}", style="dim"),
            TextColumn("{task.fields[running]}", markup=False, style="cyan", table_column=rest),
            console=self._console,
            expand=True,
            disable=not self._console.is_terminal,
        )
        self._line = self._live.add_task("", total=total, completed=found, left="", running="")

    def __enter__(self) -> Progressing:
        self._live.start()
        if self._found:
            self._console.print(Text(f"{self._found} of {self._total} runs are there already", style="yellow"))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._live.stop()

    def running(self, cases: Sequence[Case]) -> None:
        """These are being played now."""
        self._live.update(self._line, running=" | ".join(case.label for case in cases))

    def done(self, result: Result) -> None:
        """One more is there."""
        self._done += 1
        self._live.update(self._line, completed=self._done, left=self._left())
        if not self._console.is_terminal:
            what = result.key.label(result.expression)
            self._console.print(Text(f"{self._done}/{self._total} {what}: {self._came_to(result)}{self._left(', ')}"))

    def _came_to(self, result: Result) -> str:
        if result.failure is not None:
            return result.failure
        seconds = result.seconds_to(self._target)
        reached = (
            f"never {self._target:g}" if seconds == float("inf") else f"{self._target:g} after {told_seconds(seconds)}"
        )
        return f"accuracy {result.accuracy:.3f}, {reached}"

    def _left(self, before: str = "") -> str:
        played, left = self._done - self._found, self._total - self._done
        if not left or not played:
            return ""
        minutes = (perf_counter() - self._began) / played * left / 60
        return f"{before}{f'{minutes:.0f} min' if minutes >= 1.5 else f'{60 * minutes:.0f} s'} left"


def draw(sweep: Sweep) -> None:
    """Print the table, the sentences, what failed, and where the files lie."""
    console = out()
    console.print()
    console.print(Text(_setting(sweep), style="bold"))
    console.print()
    wide = _wide(sweep.rows, sweep.target)
    console.print(wide if fits(console, wide) else _tall(sweep.rows, sweep.target))
    alone = "one seed: nobody is marked" if sweep.seeds < 2 else "* ahead of all others beyond the spread and the looks"
    console.print(
        Text(f"mean (lowest..highest of {sweep.seeds} seed{'s' * (sweep.seeds > 1)}); virtual seconds; {alone}", "dim")
    )
    for row in sweep.rows:
        for cell in row.cells:
            for what in cell.failures:
                console.print(
                    Text(f"! {cell.strategy}, {row.workers} workers, {row.place}: {what}; not ranked", "bold red")
                )
    console.print()
    for sentence in sentences(sweep.rows, sweep.target):
        console.print(Text(sentence))
    for title, path in [("runs", sweep.out), *(("plot", path) for path in sweep.plot)]:
        if path is not None:
            console.print(Text.assemble((f"{title} ", "dim"), str(path)))


def _setting(sweep: Sweep) -> str:
    setting, straggler = sweep.results[0].setting, next((r.straggler for r in sweep.rows if r.straggler), None)
    epochs = sweep.results[0].curve.epochs[-1]
    trouble = f"; the straggler: {straggler}" if straggler else ""
    samples = f"{setting.samples:,} samples ({epochs:.3g} epochs) each"
    return f"{setting.task}, batch {setting.batch} per worker, {samples}{trouble}"


def _wide(rows: Sequence[Row], target: float) -> Table:
    """A row per place, a column per strategy: accuracy above, seconds to the target below."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim", show_lines=False)
    table.add_column("workers", justify="right", no_wrap=True)
    table.add_column("rate", no_wrap=True)
    table.add_column("", no_wrap=True, style="dim")
    for cell in rows[0].cells:
        table.add_column(_folded(cell.strategy), no_wrap=True)
    for row in rows:
        trouble = "accuracy" + f"\ns to {target:g}"
        slow = f"{row.rate:g}" + ("\nstraggler" if row.straggler else "")
        table.add_row(str(row.workers), slow, trouble, *_cells(row))
    return table


def _folded(name: str) -> str:
    """A long expression over two lines."""
    head, bracket, tail = name.partition("(")
    return f"{head}\n{bracket}{tail}" if bracket else name


def _tall(rows: Sequence[Row], target: float) -> Table:
    """A block per place, a line per strategy, for narrow terminals."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for title in ("strategy", "accuracy", f"seconds to {target:g}"):
        table.add_column(title, overflow="fold")
    for row in rows:
        table.add_row(Text(f"{row.workers} workers, rate {row.rate:g}{', straggler' if row.straggler else ''}", "bold"))
        for cell, both in zip(row.cells, _cells(row), strict=True):
            table.add_row(Text(cell.strategy, "cyan"), *both.split("\n"))
    return table


def _cells(row: Row) -> list[Text]:
    """Each strategy's two lines, the best of each marked."""
    most = best([cell.accuracy if cell.ranks else None for cell in row.cells], more=True)
    first = best([cell.seconds if cell.ranks else None for cell in row.cells], more=False)
    return [
        Text("\n").join([_accuracy(cell, place == most), _seconds(cell, place == first)])
        for place, cell in enumerate(row.cells)
    ]


def _accuracy(cell: Cell, won: bool) -> Text:
    if cell.failures:
        return Text(f"{len(cell.failures)} of {len(cell.runs)} failed", "red")
    return _marked(_told(cell.accuracy, 3), won)


def _seconds(cell: Cell, won: bool) -> Text:
    spread = cell.seconds
    if not spread.known:
        return Text("-")
    some = "" if spread.complete else f" {len(spread.known)} of {len(spread.values)}"
    return _marked(f"{_told(Spread(spread.known), 2)}{some}", won)


def _marked(text: str, won: bool) -> Text:
    return Text(f"{text}*" if won else text, "bold green" if won else "")


def _told(spread: Spread, digits: int) -> str:
    if not spread.values:
        return "-"
    mean, low, high = (f"{value:.{digits}f}" for value in (spread.mean, spread.low, spread.high))
    return mean if len(spread.values) == 1 else f"{mean} ({low}..{high})"
