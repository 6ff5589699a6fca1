"""Runs as a picture: held-out loss and accuracy against virtual time, one line per strategy."""

from __future__ import annotations

from collections.abc import Sequence
from math import floor
from pathlib import Path
from typing import Any

from gossamer.cli.perform import Run
from gossamer.cli.report import mishaps
from gossamer.cli.report_screen import setting
from gossamer.parts.refusal import Refused
from gossamer.parts.units import told_seconds
from gossamer.records.summary import time_to

COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#7a4fbf", "#5b5b5b")
DASHES = ("-", "--", ":", "-.")
KINDS = (".png", ".svg", ".pdf")
LONGEST = 36  # characters of a name
LEGEND: dict[str, Any] = {"frameon": False, "handlelength": 2.6, "labelspacing": 0.7, "alignment": "left"}
LOOK: dict[Any, Any] = {
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": "#888888",
}


def check(path: Path, kinds: Sequence[str] = KINDS) -> None:
    """Refuse now what could not be drawn later."""
    from gossamer.cli.screen import writable

    if not path.name or path.is_dir():
        raise Refused(f"plot: {str(path)!r} is a folder, not a file to draw in", str(path / "plot.png"))
    if path.suffix.lower() not in kinds:
        raise Refused(f"plot: {path} does not end in {', '.join(kinds)}", str(path.with_suffix(".png")))
    writable(path)


def draw(runs: Sequence[Run], path: Path) -> None:
    """Write the picture."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    with pyplot.rc_context(LOOK):
        figure, (left, right) = pyplot.subplots(1, 2, figsize=(12, 4.8), layout="constrained")
        for place, run in enumerate(runs):
            _curves(left, right, run, style(place))
        _dress(left, right, runs)
        figure.suptitle(setting(runs[0]), x=0.012, ha="left", fontsize=11, color="#333333")
        figure.savefig(path, dpi=150)
        pyplot.close(figure)


def style(place: int) -> dict[str, Any]:
    """The colour and dashes of the strategy in this place."""
    return {"color": COLOURS[place % len(COLOURS)], "ls": DASHES[place // len(COLOURS) % len(DASHES)]}


def _curves(left: Any, right: Any, run: Run, style: dict[str, Any]) -> None:
    """Both curves of a run; a dot where the target is reached, a cross where a member dies."""
    seen = run.outcome.evaluations
    alone = "o" if len(seen) == 1 else None
    left.plot([e.time for e in seen], [e.loss for e in seen], lw=1.8, marker=alone, **style)
    right.plot([e.time for e in seen], [e.accuracy for e in seen], lw=1.8, marker=alone, label=_named(run), **style)
    reached = next((e for e in seen if e.accuracy >= run.request.target), None)
    if reached is not None:
        right.plot([reached.time], [reached.accuracy], "o", ms=6, mec="white", color=style["color"], zorder=5)
    for event in mishaps(run):
        near = min(seen, key=lambda e: abs(e.time - event.time))
        left.plot([event.time], [near.loss], "X", ms=8, mec="white", color=style["color"], zorder=5)


def _dress(left: Any, right: Any, runs: Sequence[Run]) -> None:
    """Titles, scales and the target; the accuracy panel begins below the lowest point of any curve."""
    from matplotlib.ticker import LogLocator

    for axes, title in ((left, "loss on held-out data"), (right, "accuracy on held-out data")):
        axes.set_title(title, loc="left", fontsize=10, color="#333333")
        axes.set_xlabel("virtual seconds")
        axes.set_xlim(left=0)
        axes.set_axisbelow(True)
    left.set_yscale("log")
    left.yaxis.set_minor_locator(LogLocator(subs=(2, 5)))
    for format in (left.yaxis.set_major_formatter, left.yaxis.set_minor_formatter):
        format("{x:g}")
    for axes in (left, right):
        axes.grid(axis="y", which="both", color="#e6e6e6", lw=0.8)
    target = runs[0].request.target
    right.set_ylim(floor_of(runs), 1.01)
    right.axhline(target, color="#999999", lw=1, ls=(0, (4, 3)), zorder=1)
    legend = right.legend(title=f"reached {target:g} after", loc="upper left", bbox_to_anchor=(1.02, 1.05), **LEGEND)
    legend.get_title().set_color("#777777")


def floor_of(runs: Sequence[Run]) -> float:
    """The tenth below every accuracy that is drawn, and below the target."""
    seen = [each.accuracy for run in runs for each in run.outcome.evaluations]
    return max(0.0, floor(10 * min(*seen, runs[0].request.target) - 1e-9) / 10)


def _named(run: Run) -> str:
    """A strategy's name, cut if it is long, and when it reached the target."""
    text, reached = run.part.text, time_to(run.outcome.evaluations, run.request.target)
    short = text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"
    return f"{short}   {'never' if reached is None else told_seconds(reached)}"
