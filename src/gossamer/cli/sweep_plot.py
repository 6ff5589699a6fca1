"""A sweep as a picture: a panel for each worker count and place, a line for each strategy, a band over the seeds."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from gossamer.cli.plot import LEGEND, LONGEST, LOOK, style
from gossamer.cli.sweep_report import Sweep
from gossamer.cli.sweep_verdict import Cell, Row

Against = Literal["seconds", "epochs"]
Measure = Literal["accuracy", "loss"]
AXES = {"seconds": "virtual seconds", "epochs": "epochs"}
WIDTH, HEIGHT = 3.1, 2.1  # inches of a panel


def files(path: Path) -> dict[Against, Path]:
    """Both pictures: the one asked for, against virtual seconds, and one against epochs beside it."""
    return {"seconds": path, "epochs": path.with_stem(f"{path.stem}-epochs")}


def draw(sweep: Sweep, path: Path, against: Against) -> None:
    """Write one picture."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    columns = list(dict.fromkeys(row.workers for row in sweep.rows))
    lines = list(dict.fromkeys((row.rate, row.straggler) for row in sweep.rows))
    size = (WIDTH * len(columns) + 0.6, HEIGHT * len(lines) + 0.9)
    with pyplot.rc_context({**LOOK, "font.size": 9}):
        figure, grid = pyplot.subplots(
            len(lines), len(columns), figsize=size, layout="constrained", squeeze=False, sharey=True
        )
        for row in sweep.rows:
            axes = grid[lines.index((row.rate, row.straggler)), columns.index(row.workers)]
            _panel(axes, row, sweep.target, against, measured(sweep))
        _dress(figure, grid, sweep, against)
        figure.savefig(path, dpi=130)
        pyplot.close(figure)


def _panel(axes: Any, row: Row, target: float, against: Against, measure: Measure) -> None:
    if measure == "accuracy":
        axes.axhline(target, color="#999999", lw=0.8, ls=(0, (4, 3)), zorder=1)
    for place, cell in enumerate(row.cells):
        if cell.sound:
            xs, low, mean, high = band(cell, against, measure)
            axes.fill_between(xs, low, high, color=style(place)["color"], alpha=0.18, lw=0)
            axes.plot(xs, mean, lw=1.5, **style(place))
    failed = [cell.strategy for cell in row.cells if cell.failures]
    if failed:
        axes.text(0.98, 0.04, "\n".join(f"{_short(name)} failed" for name in failed), ha="right", fontsize=7,
                  color="#b00020", transform=axes.transAxes)  # fmt: skip


def measured(sweep: Sweep) -> Measure:
    """Accuracy, or loss where the task counts nothing right."""
    return "accuracy" if any(any(result.curve.accuracy) for result in sweep.results) else "loss"


def band(
    cell: Cell, against: Against, measure: Measure = "accuracy"
) -> tuple[list[float], list[float], list[float], list[float]]:
    """Mean time of each look, and the lowest, mean and highest accuracy (or loss) then, over the seeds.

    Looks come at the same counts of samples with every seed, and at nearly the same seconds.
    """
    curves = [run.curve for run in cell.sound]
    times = [_mean(each) for each in zip(*(getattr(curve, against) for curve in curves), strict=False)]
    looks = [
        [value or 0.0 for value in each] for each in zip(*(getattr(curve, measure) for curve in curves), strict=False)
    ]
    return times, [min(each) for each in looks], [_mean(each) for each in looks], [max(each) for each in looks]


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def _dress(figure: Any, grid: Any, sweep: Sweep, against: Against) -> None:
    """Titles on the outer panels only, one scale of accuracy, one legend above all."""
    from matplotlib.lines import Line2D

    measure, cells = measured(sweep), sweep.rows[0].cells
    workers = dict.fromkeys(row.workers for row in sweep.rows)
    for axes, count in zip(grid[0], workers, strict=True):
        axes.set_title(f"{count} workers", loc="left", fontsize=9, color="#333333")
    places = dict.fromkeys((row.rate, row.straggler) for row in sweep.rows)
    for axes, (rate, straggler) in zip(grid[:, 0], places, strict=True):
        axes.set_ylabel(f"rate {rate:g}" + ("\nwith straggler" if straggler else ""), color="#333333")
    for axes in grid[-1]:
        axes.set_xlabel(AXES[against])
    for axes in grid.flat:
        axes.set_xlim(left=0)
        axes.set_ylim(0, 1.0 if measure == "accuracy" else None)
        axes.grid(axis="y", color="#e6e6e6", lw=0.8)
        axes.set_axisbelow(True)
    handles = [Line2D([], [], lw=1.8, label=_short(cell.strategy), **style(place)) for place, cell in enumerate(cells)]
    figure.legend(handles=handles, loc="outside upper left", ncols=min(4, len(cells)), **LEGEND)
    dashed = f"; dashed: {sweep.target:g}" if measure == "accuracy" else ""
    figure.supylabel(f"{measure} on held-out data{dashed}", fontsize=9, color="#333333")


def _short(name: str) -> str:
    return name if len(name) <= LONGEST else name[: LONGEST - 1] + "…"
