"""`gossamer rehearse`: train on imagined machines with real gradients, one strategy or several side by side."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gossamer.cli import sweep as sweeping

if TYPE_CHECKING:
    from gossamer.cli.perform import Run
    from gossamer.cli.request import Request
    from gossamer.cli.sweep_axes import Asked

HELP = """Rehearse a strategy: real gradients, virtual time, as many workers as you like in one process.

A strategy's name or expression comes first; with --compare there are several, and one table (and plot) of all.

    gossamer rehearse 'local_sgd(every=8)' --workers 16

    gossamer rehearse --compare allreduce gossip_pull downpour --plot demo.png

    gossamer rehearse ssp --trouble 'slow(rank=1, factor=5) + fail(rank=2, step=30)'

    gossamer rehearse dgc --task idx --task-option path=mnist --link 100Mbit --json

With --sweep all of them, or four of paper 3, meet over worker counts, rates, seeds, and a straggler.

    gossamer rehearse --sweep --sweep-workers 4,16 --out sweep.jsonl --plot sweep.png
"""

FAILED = 1  # the exit code when a run stood still or its loss left the numbers: all is told, and it is no result

_WHAT, _LONG, _WHERE, _OUT = "What is trained", "How long", "The imagined machines", "What comes out"


def rehearse(
    ctx: typer.Context,
    expressions: Annotated[
        list[str] | None, typer.Argument(metavar="EXPR", help="A strategy; several with --compare.")
    ] = None,
    strategy: Annotated[
        str | None, typer.Option(metavar="EXPR", help="The strategy, if not given first. Default: allreduce.")
    ] = None,
    compare: Annotated[
        bool, typer.Option("--compare", metavar="", help="Rehearse several and set them side by side.")
    ] = False,
    workers: Annotated[int, typer.Option(help="How many workers.")] = 8,
    seed: Annotated[int, typer.Option(help="Of the model, the samples and every draw.")] = 0,
    task: Annotated[
        str, typer.Option(help="digits, characters, idx, or your module:function.", rich_help_panel=_WHAT)
    ] = "digits",
    task_option: Annotated[
        list[str] | None, typer.Option(metavar="KEY=VALUE", help="As model=cnn, path=DIR.", rich_help_panel=_WHAT)
    ] = None,
    optimizer: Annotated[str, typer.Option(help="sgd, nesterov, adam or adamw.", rich_help_panel=_WHAT)] = "sgd",
    rate: Annotated[
        float | None, typer.Option(help="Learning rate. Default: 0.12 for sgd.", rich_help_panel=_WHAT)
    ] = None,
    momentum: Annotated[
        float | None, typer.Option(help="Default: 0, and 0.9 for nesterov.", rich_help_panel=_WHAT)
    ] = None,
    decay: Annotated[float, typer.Option(help="Weight decay.", rich_help_panel=_WHAT)] = 0.0,
    batch: Annotated[int, typer.Option(help="Samples per worker and step.", rich_help_panel=_WHAT)] = 8,
    epochs: Annotated[
        float | None,
        typer.Option(help="Passes over the data. Default: 30, or less where data is large.", rich_help_panel=_LONG),
    ] = None,
    steps: Annotated[int | None, typer.Option(help="Steps per worker, instead.", rich_help_panel=_LONG)] = None,
    target: Annotated[float, typer.Option(help="The accuracy to time.", rich_help_panel=_LONG)] = 0.95,
    evaluate_every: Annotated[
        int | None, typer.Option(help="Steps between evaluations. Default: 40 of them.", rich_help_panel=_LONG)
    ] = None,
    compute: Annotated[
        str,
        typer.Option(metavar="SECONDS", help="Of a step; 10ms,20ms: workers in turn.", rich_help_panel=_WHERE),
    ] = "10ms",
    jitter: Annotated[
        float, typer.Option(help="Spread of compute time: times exp(jitter x normal).", rich_help_panel=_WHERE)
    ] = 0.2,
    link: Annotated[
        str, typer.Option(metavar="RATE", help="1Gbit, 100Mbit/s, 125MB/s.", rich_help_panel=_WHERE)
    ] = "1Gbit",
    latency: Annotated[
        str, typer.Option(metavar="SECONDS", help="Of a message: 100us, 5ms.", rich_help_panel=_WHERE)
    ] = "100us",
    trouble: Annotated[
        str | None, typer.Option(metavar="SCRIPT", help="As slow(rank=1, factor=5).", rich_help_panel=_WHERE)
    ] = None,
    sweep: sweeping.Sweeping = False,
    sweep_workers: sweeping.Workers = None,
    rates: sweeping.Rates = None,
    seeds: sweeping.Seeds = None,
    straggler: sweeping.Straggler = None,
    out: sweeping.Out = None,
    jobs: sweeping.Jobs = None,
    plot: Annotated[
        Path | None, typer.Option(metavar="FILE.png", help="Loss and accuracy over time.", rich_help_panel=_OUT)
    ] = None,
    journal: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Default: a new one in runs/.", rich_help_panel=_OUT)
    ] = None,
    no_journal: Annotated[
        bool, typer.Option("--no-journal", metavar="", help="Write none.", rich_help_panel=_OUT)
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", metavar="", help="One JSON object on stdout.", rich_help_panel=_OUT)
    ] = False,
) -> None:
    """Read the request, play it, report."""
    from gossamer.cli import request as asked
    from gossamer.cli.report import failure
    from gossamer.cli.sweep_axes import STRATEGIES, Asked, apart
    from gossamer.parts.refusal import whole
    from gossamer.parts.world import World

    asked_sweep = Asked(sweep_workers, rates, seeds, straggler, out, jobs)
    apart(asked_sweep, sweep, _given(ctx))
    texts = _texts(expressions or [], strategy, compare, STRATEGIES if sweep else None)
    _agree(epochs, steps, journal, no_journal)
    whole("rehearse", "workers", workers, 1, 2**20)
    chosen = asked.parts(texts, optimizer, rate, momentum, decay)
    request = asked.Request(
        parts=tuple(chosen),
        world=World(workers, seed),
        task=task,
        task_options=asked.options(task_option or []),
        batch=batch,
        epochs=epochs,
        steps=steps,
        machines=asked.machines(compute, link, latency, jitter),
        trouble=asked.misfortune(trouble),
        evaluate_every=evaluate_every,
        target=target,
    )
    if sweep:
        _sweep(request, asked_sweep, optimizer, plot, as_json)
        return
    if plot is not None:
        from gossamer.cli import plot as picture

        picture.check(plot)
    runs = _play(request, journal, no_journal)
    _report(runs, compare, as_json, plot)
    if any(failure(run) for run in runs):
        raise typer.Exit(FAILED)


def _given(ctx: typer.Context) -> set[str]:
    """The options that were typed."""
    return {name for name in ctx.params if str(ctx.get_parameter_source(name)).endswith("COMMANDLINE")}


def _sweep(request: Request, asked: Asked, optimizer: str, plot: Path | None, as_json: bool) -> None:
    from gossamer.cli.sweep_axes import axes

    _find_own_tasks(request)
    done = sweeping.sweep(request, axes(asked, request.parts, optimizer, request.world.seed), asked, plot)
    sweeping.report(done, as_json)
    if any(result.failure for result in done.results):
        raise typer.Exit(FAILED)


def _texts(given: list[str], strategy: str | None, compare: bool, several: Sequence[str] | None) -> list[str]:
    from gossamer.parts.refusal import Refused

    texts = [*([strategy] if strategy is not None else []), *given]
    if several is not None:
        return texts or list(several)
    if compare and not texts:
        raise Refused("--compare needs strategies to compare", "--compare allreduce gossip_pull")
    if len(texts) > 1 and not compare:
        raise Refused(f"{len(texts)} strategies are given", f"--compare {' '.join(map(repr, texts))}")
    return texts or ["allreduce"]


def _agree(epochs: float | None, steps: int | None, journal: Path | None, no_journal: bool) -> None:
    from gossamer.parts.refusal import Refused

    if epochs is not None and steps is not None:
        raise Refused("--epochs and --steps both say how long", "one of them")
    if journal is not None and no_journal:
        raise Refused("--journal and --no-journal contradict each other", "one of them")


def _play(request: Request, journal: Path | None, no_journal: bool) -> list[Run]:
    """Every strategy in turn, on a task of its own built alike."""
    import torch

    from gossamer.cli.perform import journals, perform
    from gossamer.cli.progress import Ticker

    torch.set_num_threads(1)  # the models are small, and one thread adds up alike on every machine
    _find_own_tasks(request)
    paths = [None] * len(request.parts) if no_journal else journals(request.parts, journal)
    runs = []
    with Ticker() as ticker:
        for part, path in zip(request.parts, paths, strict=True):
            plan = request.plan(part)
            runs.append(perform(request, part, plan, path, ticker.watch(part.text, plan)))
            ticker.done(part.text, runs[-1].outcome, plan.world.size)
    return runs


def _find_own_tasks(request: Request) -> None:
    import os
    import sys

    if ":" in request.task:
        sys.path.insert(0, os.getcwd())  # where a task of the user's own lives


def _report(runs: list[Run], compare: bool, as_json: bool, plot: Path | None) -> None:
    if plot is not None:
        from gossamer.cli import plot as picture

        picture.draw(runs, plot)
    if as_json:
        from gossamer.cli.report import told
        from gossamer.cli.screen import put_json

        put_json({"runs": [told(run) for run in runs], "plot": plot} if compare else told(runs[0]))
        return
    from gossamer.cli import compare_screen, report_screen

    if compare:
        compare_screen.draw(runs, plot)
    else:
        report_screen.draw(runs[0], plot)
