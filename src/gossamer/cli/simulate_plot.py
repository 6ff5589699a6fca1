"""A simulation as a picture: seconds of a step with their intervals, and efficiency, against workers."""

from __future__ import annotations

from collections.abc import Sequence
from io import StringIO
from pathlib import Path
from typing import Any

from gossamer.cli.plot import LEGEND, LONGEST, LOOK, style
from gossamer.cli.simulate_report import Answer, scaling
from gossamer.parts.units import told_seconds
from gossamer.sim.forecast import FAR, Forecast

TICKS = 8  # worker counts that are written below an axis, at most


def draw(answer: Answer, path: Path) -> None:
    """Write the picture, or a page with it."""
    if path.suffix.lower() != ".html":
        _save(answer, path)
        return
    from gossamer.cli.simulate_page import page

    drawn = StringIO()
    _save(answer, drawn)
    path.write_text(page(answer, drawn.getvalue()), "utf-8")


def _save(answer: Answer, target: Path | StringIO) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    with pyplot.rc_context({**LOOK, "svg.hashsalt": "gossamer"}):
        figure, (left, right) = pyplot.subplots(1, 2, figsize=(12, 4.8), layout="constrained")
        for place, part in enumerate(answer.question.parts):
            found = [r.forecast for r in answer.rows if r.part is part and not r.forecast.stopped]
            text = part.text if len(part.text) <= LONGEST else part.text[: LONGEST - 1] + "…"
            _curves(left, right, found, text, style(place))
        _dress(left, right, answer)
        cluster, workload = answer.question.places[0], answer.question.places[1]
        title = f"{Path(workload).stem} on {Path(cluster).stem}, simulated: {scaling(answer.question)}"
        figure.suptitle(title, x=0.012, ha="left", fontsize=11, color="#333333")
        if isinstance(target, Path):
            figure.savefig(target, dpi=150)
        else:
            figure.savefig(target, format="svg", metadata={"Date": None})
        pyplot.close(figure)


def _curves(left: Any, right: Any, found: Sequence[Forecast], text: str, look: dict[str, Any]) -> None:
    counts, marker = [each.workers for each in found], {"marker": "o", "ms": 3.5, "lw": 1.8}
    left.plot(counts, [each.step.value for each in found], label=text, **marker, **look)
    left.fill_between(
        counts,
        [each.step.low for each in found],
        [each.step.high for each in found],
        color=look["color"],
        alpha=0.1,
        lw=0,
    )
    right.plot(counts, [100 * each.efficiency for each in found], label=text, **marker, **look)


def _dress(left: Any, right: Any, answer: Answer) -> None:
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter, NullLocator

    counts = answer.question.counts()
    shown = counts[:: -max(1, -(-len(counts) // TICKS))]
    for axes, title in ((left, "a step; bands hold nine chances in ten"), (right, "efficiency, %")):
        axes.set_title(title, loc="left", fontsize=10, color="#333333")
        axes.set_xscale("log", base=2)
        axes.set_xticks(shown, [f"{count:,}" for count in shown])
        axes.xaxis.set_minor_locator(NullLocator())
        axes.set_xlabel("workers")
        axes.grid(axis="y", which="both", color="#e6e6e6", lw=0.8)
        axes.set_axisbelow(True)
        _guess(axes, answer)
    if any(row.forecast.step.value and not row.forecast.stopped for row in answer.rows):
        left.set_yscale("log")
        left.yaxis.set_minor_locator(LogLocator(subs=(2, 5)))
    told = FuncFormatter(lambda value, _: told_seconds(value))
    left.yaxis.set_major_formatter(told)
    left.yaxis.set_minor_formatter(told if _decades(answer) < 3 else NullFormatter())
    right.set_ylim(0, 103)
    right.legend(loc="upper left", bbox_to_anchor=(1.02, 1.05), **LEGEND)


def _decades(answer: Answer) -> float:
    from math import log10

    steps = [r.forecast.step for r in answer.rows if not r.forecast.stopped and r.forecast.step.value]
    return log10(max(s.high for s in steps) / min(s.low for s in steps)) if steps else 0.0


def _guess(axes: Any, answer: Answer) -> None:
    """Where a forecast goes further than one should trust it, the ground is grey."""
    most = answer.question.workers
    limit = FAR * max(1, answer.question.cluster.measured)
    if most > limit:
        axes.axvspan(max(limit, answer.question.counts()[0]), most, color="#f3f3f3", lw=0, zorder=0)
        axes.text(most, 1.0, f"over {FAR:.0f} times what was measured ", ha="right", va="top", fontsize=8,
                  color="#888888", transform=axes.get_xaxis_transform())  # fmt: skip
