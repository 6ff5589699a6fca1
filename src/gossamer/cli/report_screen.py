"""One run as a person reads it: what it reached, when, where the seconds and bytes went, and what went wrong."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rich.table import Table
from rich.text import Text

from gossamer.cli.perform import Run
from gossamer.cli.report import Numbers, lower, mishaps, numbers
from gossamer.cli.screen import out
from gossamer.parts.units import told_bytes, told_rate, told_seconds, told_share, told_small, told_workers

COLOURS = {"compute": "green", "encode": "magenta", "send": "cyan", "wait": "red", "decode": "blue", "data": "yellow"}
WIDTH, BESIDE = 40, 28  # characters: of a bar, and of what stands beside it
RANGES = 8  # of ages in a histogram
AGES = {
    "steps": "in steps of a peer or of a delay",
    "versions": "in versions of the hub",
    "versions or steps": "in versions of the hub or steps of a peer, whichever is more",
}
TICKS = "▁▂▃▄▅▆▇█"


def draw(run: Run, plot: Path | None) -> None:
    """Print the final report, and where its files lie."""
    console, sums = out(), numbers(run)
    console.print()
    console.print(Text.assemble((run.part.text, "bold cyan"), f"  {setting(run)}"))
    console.print()
    grid = Table.grid(padding=(0, 3, 0, 0))
    grid.add_column(style="dim", no_wrap=True)
    grid.add_column(overflow="fold")
    for title, line in [*_lines(run, sums, min(WIDTH, max(8, console.width - BESIDE))), *files([run], plot)]:
        grid.add_row(f"  {title}", line)
    console.print(grid)
    for event in mishaps(run):
        console.print(Text(f"  ! {told_seconds(event.time)}: {event.what}", style="bold red"))
    if sums.failure is not None:
        console.print(Text(f"  ! the run {sums.failure}: these numbers are no result", style="bold red"))


def setting(run: Run) -> str:
    """What all strategies of a request share, in one phrase."""
    machines, request = run.request.machines, run.request
    compute = "/".join(dict.fromkeys(told_seconds(span) for span in machines.compute[:8]))
    trouble = "".join(f", {lower(repr(line))}" for line in request.trouble.lines)
    return (
        f"{request.task}, {told_workers(run.plan.world.size)} x batch {run.plan.batch}; {compute} a step, "
        f"jitter {machines.jitter:g}, {told_rate(machines.rate)}, {told_seconds(machines.latency)}{trouble}; "
        f"seed {request.world.seed}"
    )


def files(runs: Sequence[Run], plot: Path | None) -> list[tuple[str, Text]]:
    """What was written, and where."""
    journals = [str(run.journal) for run in runs if run.journal is not None]
    found = [("journal" if len(journals) == 1 else "journals", Text(", ".join(journals)))] if journals else []
    return [*found, ("plot", Text(str(plot)))] if plot is not None else found


def _lines(run: Run, sums: Numbers, width: int) -> list[tuple[str, Text]]:
    target = f"{run.request.target:g}"
    last, most = (told_share(each.accuracy, run.request.target) for each in (sums.last, sums.best))
    best = f", at best {most}" if sums.best.accuracy > sums.last.accuracy else ""
    trained = "-" if sums.training_loss is None else f"{sums.training_loss:.3f}"
    reached = Text(f"{target} not reached", style="yellow")
    if sums.seconds_to_target is not None:
        reached = Text.assemble(
            f"{target} after ",
            (f"{told_seconds(sums.seconds_to_target)}", "bold green"),
            f" virtual, {sums.epochs_to_target:.1f} epochs",
        )
    lines = [
        ("accuracy", Text.assemble((last, "bold"), f" on held-out data{best}")),
        ("target", reached),
        ("held-out loss", Text(_spark([e.loss for e in run.outcome.evaluations]), style="cyan")),
        ("training loss", Text(f"{trained} over the last step of everybody")),
        ("time", Text(f"{told_seconds(sums.seconds)} virtual, {sums.steps:,.0f} steps, {sums.last.epochs:.1f} epochs")),
        ("a step", _bar(sums, width)),
        ("efficiency", Text(f"{sums.efficiency:.0%} of the time is compute")),
        (
            "bytes",
            Text(f"{told_bytes(sums.sent)} sent per member, {told_bytes(sums.sent / max(1, sums.steps))} a step"),
        ),
        *([("hub answers", Text(_answers(sums.answered)))] if sums.answered is not None else []),
        ("divergence", Text(f"{told_small(sums.last.divergence)} relative spread of the replicas around the model")),
        ("staleness", _histogram(sums, width)),
    ]
    if sums.dropped:
        lines.append(("dropped", Text(f"{sums.dropped:,} contributions came too late", style="yellow")))
    return lines


def _answers(answered: float) -> str:
    return f"{told_bytes(answered)} to each member, on top of what the members send"


def _bar(sums: Numbers, longest: int) -> Text:
    """A step's seconds, drawn to scale and told."""
    total, bar, words = sum(sums.spans.values()) or 1.0, Text(), Text()
    for span, seconds in sums.spans.items():
        if seconds > 1e-3 * total:
            bar.append("━" * max(1, round(longest * seconds / total)), style=COLOURS.get(span, "white"))
            words.append(f"  {span} {told_seconds(seconds)}", style=COLOURS.get(span, "white"))
    return Text.assemble(told_seconds(sum(sums.spans.values())), "  ", bar, words)


def _histogram(sums: Numbers, longest: int) -> Text:
    """How often each age occurred, in at most eight ranges of equal width."""
    if set(sums.staleness) <= {0}:
        return Text("none: everything used was of the step itself")
    text = Text(f"{AGES[sums.unit]}: {sums.mean_staleness:.2g} on average, {sums.most_staleness} at most")
    count, width = sum(sums.staleness.values()), -(-(sums.most_staleness + 1) // RANGES)
    for first in range(0, sums.most_staleness + 1, width):
        share = sum(sums.staleness.get(age, 0) for age in range(first, first + width)) / count
        last = min(first + width - 1, sums.most_staleness)
        label = str(first) if first == last else f"{first}-{last}"
        text.append(f"\n{label:>9} ", style="dim")
        text.append("━" * round(longest * share) or "╴", style="cyan")
        text.append(f" {share:.0%}", style="dim")
    return text


def _spark(values: list[float]) -> str:
    """A curve in one line of text."""
    finite = [value for value in values if value == value and abs(value) != float("inf")]
    if len(values) < 2 or not finite:
        return f"{values[-1]:.3f}"
    low, high = min(finite), max(finite)
    scale = (len(TICKS) - 1) / ((high - low) or 1.0)
    ticks = "".join(TICKS[round((v - low) * scale)] if v in finite else "?" for v in values)
    return f"{values[0]:.3f} {ticks} {values[-1]:.3f}"
