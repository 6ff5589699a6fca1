"""A training run's verdict as a person reads it: one box. Computes nothing."""

from __future__ import annotations

import os
from collections.abc import Iterator

from rich.console import Console
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from gossamer.cli.report_screen import COLOURS
from gossamer.cli.train_told import advice, even, told_pays, told_truth, why_slow
from gossamer.cli.train_verdict import Verdict
from gossamer.parts.units import told_bytes, told_seconds, told_share, told_small, told_workers
from gossamer.recipes import told_cost

WIDTH, BAR = 100, 40  # characters: of the box at most, and of the bar in it
MOST = 6  # events told; the journal has the rest


def draw(found: Verdict, console: Console) -> None:
    """Print the box, and below it where everything lies."""
    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_column(style="dim", no_wrap=True)
    grid.add_column(overflow="fold")
    for title, line in _lines(found):
        grid.add_row(title, line)
    settings = found.request.settings
    heading = Text.assemble(
        (settings.strategy, "bold cyan"), f"  {settings.task}, {told_workers(found.request.world.size)}"
    )
    colour = "red" if found.failure else "green" if found.to_target is not None else "yellow"
    console.print(Panel(grid, title=heading, title_align="left", border_style=colour, width=min(WIDTH, console.width)))


def _lines(found: Verdict) -> Iterator[tuple[str, Text]]:
    if found.failure is not None:
        yield "failure", Text(f"the run {found.failure}", style="bold red")
    yield from _reached(found)
    since = f" (from {found.resumed:,} on)" if found.resumed is not None else ""
    long = f"{told_seconds(found.seconds)}, {found.steps:,.0f} steps{since}, {found.epochs:.1f} epochs"
    yield "time", Text(f"{long}; {found.request.shares}")
    yield from _speed(found) if found.played else ()
    if found.fabric is not None:
        yield "fabric", Text(found.fabric)
    yield from _events(found)
    if (words := advice(found)) is not None:
        yield "next", Text(words, style="bold")
    yield "journal", Text(str(found.folder))


def _speed(found: Verdict) -> Iterator[tuple[str, Text]]:
    """What a step costs, of a run that has done any."""
    yield "a step", _bar(found)
    yield "efficiency", Text(f"{found.efficiency:.0%} of the time is compute{_crowded(found.request.world.size)}")
    each = told_bytes(found.sent / found.played)
    yield "bytes", Text(f"{told_bytes(found.sent)} sent per member, {each} a step")
    if found.pays_below is not None:
        yield "pays", Text(told_pays(found, found.pays_below))
    if found.request.settings.truth is not None:
        yield "truth", Text(told_truth(found))
    if found.noise is not None:
        yield "batch", Text(told_cost(found.noise.large, found.noise.scale))
    if (words := _relaxed(found)) is not None:
        yield "relaxed", Text(words)
    if found.request.world.size > 1 and found.step:
        yield "slowest", Text(why_slow(found.slow) if found.slow is not None else even(found.spread))


def _relaxed(found: Verdict) -> str | None:
    """How far what was used lay behind, where nobody waits for all."""
    mean, most = found.stale
    told = [f"staleness {mean:.1f} in the mean, {most:,} at most"] if most else []
    told += [f"{found.dropped:,} contribution{'s' * (found.dropped > 1)} too late"] if found.dropped else []
    told += [f"{found.torn:,} torn read{'s' * (found.torn > 1)}"] if found.torn else []
    return "; ".join(told) or None


def _events(found: Verdict) -> Iterator[tuple[str, Text]]:
    for event in found.events[:MOST]:
        yield "event", Text(f"{told_seconds(event.time)}: {event.what}", style="yellow")
    if len(found.events) > MOST:
        yield "", Text(f"and {len(found.events) - MOST} more", style="dim")


def _reached(found: Verdict) -> Iterator[tuple[str, Text]]:
    """What the exact average of the replicas can do."""
    target, last = found.request.settings.target, found.last
    if last is None or found.best is None:
        yield "accuracy", Text("not yet evaluated", style="yellow")
        return
    most = f", at best {told_share(found.best.accuracy, target)}" if found.best.accuracy > last.accuracy else ""
    spread = f"; replicas differ by {told_small(last.divergence)}" if told_small(last.divergence) != "0" else ""
    beside = f" on held-out data{most}, loss {last.loss:.3f}{spread}"
    yield "accuracy", Text.assemble((told_share(last.accuracy, target), "bold"), beside)
    if found.to_target is None:
        yield "target", Text(f"{target:g} not reached", style="yellow")
    else:
        yield "target", Text.assemble(f"{target:g} after ", (told_seconds(found.to_target), "bold green"))


def _bar(found: Verdict) -> Text:
    """A step's seconds, drawn to scale and told, the mean over members."""
    total, bar, words = found.step or 1.0, Text(), Text()
    for span, seconds in found.spans.items():
        style = COLOURS.get(span, "white")
        if seconds > 1e-3 * total:
            bar.append("━" * max(1, round(BAR * seconds / total)), style=style)
            words.append(f"  {span} {told_seconds(seconds)}", style=style)
    return Text.assemble(told_seconds(found.step), "  ", bar, "\n", words[2:])


def _crowded(workers: int) -> str:
    """Workers without a core of their own wait for one while they compute."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return f"; {workers} workers share {cores} core{'s' * (cores > 1)}" if workers > cores else ""
