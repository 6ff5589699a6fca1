"""`gossamer lr-find`: the learning-rate range test on a task, as words, JSON and a plot."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    import torch

    from gossamer.recipes import Optimizer
    from gossamer.recipes.find import Range

HELP = """Find a learning rate: train for a hundred steps with a rate that grows, and see where the loss falls fastest.

One process, one thread; the batch is that of all workers together. Nothing is kept.

    gossamer lr-find

    gossamer lr-find --task idx --task-option path=DIR --optimizer lars --batch 4096 --plot lr.png
"""


def lr_find(
    task: Annotated[str, typer.Option(help="digits, characters, idx, or your module:function.")] = "digits",
    task_option: Annotated[list[str] | None, typer.Option(metavar="KEY=VALUE", help="As model=cnn, path=DIR.")] = None,
    optimizer: Annotated[str, typer.Option(help="sgd, nesterov, adam, adamw, lars, lamb, ...")] = "sgd",
    momentum: Annotated[float | None, typer.Option(help="Default: 0, and 0.9 for nesterov and lars.")] = None,
    decay: Annotated[float, typer.Option(help="Weight decay.")] = 0.0,
    trust: Annotated[float, typer.Option(help="LARS's trust coefficient.")] = 0.001,
    batch: Annotated[int, typer.Option(help="Samples of a step.")] = 64,
    low: Annotated[float, typer.Option(help="The first rate.")] = 1e-4,
    high: Annotated[float, typer.Option(help="The last rate.")] = 10.0,
    steps: Annotated[int, typer.Option(help="Steps from the first to the last.")] = 100,
    seed: Annotated[int, typer.Option(help="Of the model and the samples.")] = 0,
    plot: Annotated[Path | None, typer.Option(metavar="FILE.png", help="Draw the loss over the rate.")] = None,
    as_json: Annotated[bool, typer.Option("--json", metavar="", help="One JSON object on stdout.")] = False,
) -> None:
    """Build the task, play the test, report."""
    from gossamer.cli import request
    from gossamer.cli.plot import check
    from gossamer.cli.screen import out, put_json
    from gossamer.recipes import Optimizer
    from gossamer.recipes.find import range_test

    if ":" in task and os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    if plot is not None:
        check(plot)
    used = request.MOMENTA.get(optimizer, 0.0) if momentum is None else momentum
    made = Optimizer(optimizer, 0.1, used, decay, trust)

    import torch

    from gossamer.parts.world import World
    from gossamer.tasks import Stream, build

    torch.set_num_threads(1)
    built = build(task, seed, request.options(task_option or []))
    stream = Stream(built.size, batch, World(1, seed))

    def loss_of(model: torch.nn.Module, step: int) -> torch.Tensor:
        chosen = stream.indices(0, step)
        return built.loss(model, tuple(part[chosen] for part in built.train))[0]

    found = range_test(built.model, partial(_built, made), loss_of, low, high, steps)
    if plot is not None:
        _draw(found, plot, f"{task}, {optimizer}, batch {batch}")
    if as_json:
        told = {"steepest": found.steepest, "lowest": found.lowest, "diverged": found.diverged}
        put_json({**told, "rates": list(found.rates), "losses": list(found.losses)})
        return
    ended = "the loss diverged there" if found.diverged else "the loss had not diverged yet: try a higher --high"
    out().print(f"the loss falls fastest at a rate of [bold]{found.steepest:.3g}[/bold], a good one to train with")
    out().print(f"it is lowest at {found.lowest:.3g}; the test ended at {found.rates[-1]:.3g}: {ended}")
    if plot is not None:
        out().print(f"plot: {plot}")


def _built(made: Optimizer, held: Iterable[torch.nn.Parameter]) -> torch.optim.Optimizer:
    """As it is over most of a run: what becomes SGD is SGD, as its rate has to suit that."""
    optimizer = made.build(held)
    for group in optimizer.param_groups if made.paced else ():
        group["share"] = 1.0
    return optimizer


def _draw(found: Range, path: Path, title: str) -> None:
    import matplotlib

    from gossamer.cli.plot import COLOURS, LOOK

    matplotlib.use("Agg")
    from matplotlib import pyplot

    with pyplot.rc_context(LOOK):
        figure, axes = pyplot.subplots(figsize=(7, 4.2), layout="constrained")
        axes.plot(found.rates, found.losses, lw=1.8, color=COLOURS[0])
        axes.axvline(found.steepest, color="#999999", lw=1, ls=(0, (4, 3)), zorder=1)
        top, low = min(max(found.losses), 1.3 * found.losses[0]), min(found.losses)  # what diverges leaves the picture
        axes.set_ylim(low - 0.05 * (top - low), top)
        axes.annotate(f" falls fastest: {found.steepest:.3g}", (found.steepest, top), va="top")
        axes.set_xscale("log")
        axes.grid(axis="y", color="#e6e6e6", lw=0.8)
        axes.set_xlabel("rate")
        axes.set_title("loss, smoothed", loc="left", fontsize=10, color="#333333")
        figure.suptitle(title, x=0.012, ha="left", fontsize=11, color="#333333")
        figure.savefig(path, dpi=150)
        pyplot.close(figure)
