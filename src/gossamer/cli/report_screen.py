"""One run as a person reads it: what it reached, when, where the seconds and bytes went, and what went wrong."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rich.table import Table
from rich.text import Text

from gossamer.cli.perform import Run
from gossamer.cli.report import Numbers, mishaps, numbers
from gossamer.cli.screen import out
from gossamer.cli.units import told_bytes, told_rate, told_seconds, told_small

COLOURS = {"compute": "green", "encode": "magenta", "send": "cyan", "wait": "red", "data": "yellow"}
WIDTH = 40  # characters of a bar
RANGES = 8  # of ages in a histogram
TICKS = "▁▂▃▄▅▆▇█"


def draw(run: Run, plot: Path | None) -> None:
    """Print the final report, and where its files lie."""
    console, sums = out(), numbers(run)
    console.print()
    console.print(Text.assemble((run.part.text, "bold cyan"), f"  {setting(run)}"))
    console.print()
    grid = Table.grid(padding=(0, 3, 0, 0))
    grid.add_column(style="dim", no_wrap=True)
    grid.add_column()
    for title, line in [*_lines(run, sums), *files([run], plot)]:
        grid.add_row(f"  {title}", line)
    console.print(grid)
    for event in mishaps(run):
        console.print(Text(f"  ! {told_seconds(event.time)}: {event.what}", style="bold red"))


def setting(run: Run) -> str:
    """What all strategies of a request share, in one phrase."""
    cluster, request = run.request.cluster, run.request
    compute = "/".join(dict.fromkeys(told_seconds(span) for span in cluster.compute[:8]))
    trouble = "".join(f", {_lower(repr(line))}" for line in request.trouble.lines)
    return (
        f"{request.task}, {run.plan.world.size} workers x batch {run.plan.batch}; {compute} a step, "
        f"jitter {cluster.jitter:g}, {told_rate(cluster.rate)}, {told_seconds(cluster.latency)}{trouble}; "
        f"seed {request.world.seed}"
    )


def _lower(text: str) -> str:
    return text[:1].lower() + text[1:]


def files(runs: Sequence[Run], plot: Path | None) -> list[tuple[str, Text]]:
    """What was written, and where."""
    journals = [str(run.journal) for run in runs if run.journal is not None]
    found = [("journal" if len(journals) == 1 else "journals", Text(", ".join(journals)))] if journals else []
    return [*found, ("plot", Text(str(plot)))] if plot is not None else found


def _lines(run: Run, sums: Numbers) -> list[tuple[str, Text]]:
    target = f"{run.request.target:g}"
    best = f", at best {sums.best.accuracy:.3f}" if sums.best.accuracy > sums.last.accuracy else ""
    reached = Text(f"{target} not reached", style="yellow")
    if sums.seconds_to_target is not None:
        reached = Text.assemble(
            f"{target} after ",
            (f"{told_seconds(sums.seconds_to_target)}", "bold green"),
            f" virtual, {sums.epochs_to_target:.1f} epochs",
        )
    lines = [
        ("accuracy", Text.assemble((f"{sums.last.accuracy:.3f}", "bold"), f"{best}   loss {sums.last.loss:.3f}")),
        ("target", reached),
        ("loss", Text(_spark([e.loss for e in run.outcome.evaluations]), style="cyan")),
        ("time", Text(f"{told_seconds(sums.seconds)} virtual, {sums.steps:,.0f} steps, {sums.last.epochs:.1f} epochs")),
        ("a step", _bar(sums)),
        ("efficiency", Text(f"{sums.efficiency:.0%} of the time is compute")),
        (
            "bytes",
            Text(f"{told_bytes(sums.sent)} sent per member, {told_bytes(sums.sent / max(1, sums.steps))} a step"),
        ),
        ("divergence", Text(f"{told_small(sums.last.divergence)} relative spread of the replicas")),
        ("staleness", _histogram(sums)),
    ]
    if sums.dropped:
        lines.append(("dropped", Text(f"{sums.dropped:,} contributions came too late", style="yellow")))
    return lines


def _bar(sums: Numbers) -> Text:
    """A step's seconds, drawn to scale and told."""
    total, bar, words = sum(sums.spans.values()) or 1.0, Text(), Text()
    for span, seconds in sums.spans.items():
        if seconds > 1e-3 * total:
            bar.append("━" * max(1, round(WIDTH * seconds / total)), style=COLOURS.get(span, "white"))
            words.append(f"  {span} {told_seconds(seconds)}", style=COLOURS.get(span, "white"))
    return Text.assemble(told_seconds(sum(sums.spans.values())), "  ", bar, words)


def _histogram(sums: Numbers) -> Text:
    """How often each age occurred, in at most eight ranges of equal width."""
    if set(sums.staleness) <= {0}:
        return Text("none: everything used was of the step itself")
    text = Text(f"{sums.mean_staleness:.2g} on average, {sums.most_staleness} at most")
    count, width = sum(sums.staleness.values()), -(-(sums.most_staleness + 1) // RANGES)
    for first in range(0, sums.most_staleness + 1, width):
        share = sum(sums.staleness.get(age, 0) for age in range(first, first + width)) / count
        last = min(first + width - 1, sums.most_staleness)
        label = str(first) if first == last else f"{first}-{last}"
        text.append(f"\n{label:>9} ", style="dim")
        text.append("━" * round(WIDTH * share) or "╴", style="cyan")
        text.append(f" {share:.0%}", style="dim")
    return text


def _spark(values: list[float]) -> str:
    """A curve in one line of text."""
    finite = [value for value in values if value == value and abs(value) != float("inf")]
    if len(finite) < 2:
        return "-"
    low, high = min(finite), max(finite)
    scale = (len(TICKS) - 1) / ((high - low) or 1.0)
    ticks = "".join(TICKS[round((v - low) * scale)] if v in finite else "?" for v in values)
    return f"{values[0]:.2f} {ticks} {values[-1]:.2f}"
