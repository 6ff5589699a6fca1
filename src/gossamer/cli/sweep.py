"""`gossamer rehearse --sweep`: strategies over worker counts, rates, seeds, with and without a straggler."""

from __future__ import annotations

import os
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from gossamer.cli.request import Request
    from gossamer.cli.sweep_axes import Asked
    from gossamer.cli.sweep_case import Axes, Case, Setting
    from gossamer.cli.sweep_file import Runs
    from gossamer.cli.sweep_report import Sweep

_PANEL = "A sweep (--sweep)"
Sweeping = Annotated[
    bool,
    typer.Option("--sweep", metavar="", help="Strategies x workers x rates x seeds.", rich_help_panel=_PANEL),
]
Workers = Annotated[str | None, typer.Option(metavar="N,N", help="Default: 4,16,32,128.", rich_help_panel=_PANEL)]
Rates = Annotated[
    str | None, typer.Option(metavar="R,R", help="Learning rates. Default: 0.48,0.12 for sgd.", rich_help_panel=_PANEL)
]
Seeds = Annotated[int | None, typer.Option(help="How many, from --seed on. Default: 3.", rich_help_panel=_PANEL)]
Straggler = Annotated[
    str | None,
    typer.Option(
        metavar="SCRIPT", help="Or none: only without. Default: slow(rank=1, factor=5).", rich_help_panel=_PANEL
    ),
]
Out = Annotated[
    Path | None,
    typer.Option(metavar="FILE.jsonl", help="A line per run; goes on from what is there.", rich_help_panel=_PANEL),
]
Jobs = Annotated[int | None, typer.Option(help="Processes side by side. Default: the cores.", rich_help_panel=_PANEL)]


def sweep(whole: Request, axes: Axes, asked: Asked, plot: Path | None) -> Sweep:
    """Play whatever is not in the file yet, and set everything side by side."""
    from gossamer.cli.sweep_case import chosen
    from gossamer.cli.sweep_file import Runs
    from gossamer.cli.sweep_report import Sweep
    from gossamer.cli.sweep_verdict import rows

    began, pictures = perf_counter(), _checked(plot)
    setting = _setting(whole, axes)
    cases = axes.cases(whole, setting)
    with Runs(asked.out, setting) as runs:
        _play(cases, runs, asked.jobs or _cores(), whole.target)
        results = chosen(runs.found, cases)
    table = rows(results, {repr(part.strategy): part.text for part in axes.parts}, whole.target)
    done = Sweep(table, results, whole.target, asked.out, pictures, perf_counter() - began)
    if plot is not None:
        from gossamer.cli import sweep_plot

        for against, path in sweep_plot.files(plot).items():
            sweep_plot.draw(done, path, against)
    return done


def report(done: Sweep, as_json: bool) -> None:
    """One object, or the table and its sentences."""
    if as_json:
        from gossamer.cli.screen import put_json
        from gossamer.cli.sweep_report import told

        put_json(told(done))
        return
    from gossamer.cli import sweep_screen

    sweep_screen.draw(done)


def _checked(plot: Path | None) -> list[Path]:
    """Where the pictures go, refused now if they cannot be drawn."""
    if plot is None:
        return []
    from gossamer.cli import plot as picture
    from gossamer.cli import sweep_plot

    found = list(sweep_plot.files(plot).values()) if plot.name else [plot]
    for path in found:
        picture.check(path)
    return found


def _setting(whole: Request, axes: Axes) -> Setting:
    """What all runs share; the task is built once here, to count its samples and to refuse what it cannot hold."""
    from dataclasses import replace

    from gossamer import tasks
    from gossamer.cli.request import EPOCHS
    from gossamer.cli.sweep_case import Setting
    from gossamer.parts.world import World

    task = tasks.build(whole.task, whole.world.seed, whole.task_options)
    tasks.tried(whole.task, task)
    for workers in axes.workers:
        replace(whole, world=World(workers, whole.world.seed)).holds(task)
    optimizer = whole.parts[0].optimizer
    return Setting(
        task=whole.task,
        task_options={key: str(value) for key, value in whole.task_options.items()},
        optimizer=f"{optimizer.name}, momentum {optimizer.momentum:g}, decay {optimizer.decay:g}",
        batch=whole.batch,
        samples=axes.samples(whole.batch, whole.epochs or EPOCHS, task.size),
        machines=repr(whole.machines),
    )


def _play(cases: list[Case], runs: Runs, jobs: int, target: float) -> None:
    from gossamer.cli.sweep_play import results
    from gossamer.cli.sweep_screen import Progressing

    there = {result.key for result in runs.found}
    left = [case for case in cases if case.key not in there]
    with Progressing(len(cases), len(cases) - len(left), target) as progress:
        for result in results(left, jobs, progress.running):
            runs.add(result)
            progress.done(result)


def _cores() -> int:
    """Those this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
