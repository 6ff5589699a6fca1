"""`gossamer train`: real worker processes on this host, with any strategy; live progress, a verdict, a journal."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gossamer.cli.train_settings import DEFAULTS, NAMES

if TYPE_CHECKING:
    from gossamer.cli.train_folder import Kept
    from gossamer.cli.train_request import Request
    from gossamer.cli.train_settings import Resolved

HELP = """Train on real worker processes. With nothing said, four of them learn to read digits.

A run file is TOML with the names of the options; an option overrides what the file says.

    gossamer train

    gossamer train --strategy 'local_sgd(every=8)' --workers 2 --epochs 10

    gossamer train run.toml --rate 0.05

    gossamer train --resume

Ctrl-C ends a run with the verdict so far; SIGUSR1 shows it and goes on.
"""

_WHAT, _PACE, _LONG = "What is trained", "How rate and batch go", "How long"
_WHERE, _OUT = "Where it runs", "What comes out"


def train(
    ctx: typer.Context,
    file: Annotated[Path | None, typer.Argument(metavar="RUN.toml", help="The settings, as a run file.")] = None,
    strategy: Annotated[str, typer.Option(metavar="EXPR", help="A name or an expression.")] = DEFAULTS.strategy,
    workers: Annotated[int, typer.Option(help="How many worker processes.")] = DEFAULTS.workers,
    servers: Annotated[
        int, typer.Option(help="Processes of their own that keep hubs. Default: workers keep them.")
    ] = DEFAULTS.servers,
    seed: Annotated[int, typer.Option(help="Of the model, the samples and every draw.")] = DEFAULTS.seed,
    task: Annotated[
        str, typer.Option(help="digits, characters, idx, or your module:function.", rich_help_panel=_WHAT)
    ] = DEFAULTS.task,
    task_option: Annotated[
        list[str] | None, typer.Option(metavar="KEY=VALUE", help="As model=cnn, path=DIR.", rich_help_panel=_WHAT)
    ] = None,
    path: Annotated[
        str | None, typer.Option(metavar="FOLDER", help="Where the task's module lies too.", rich_help_panel=_WHAT)
    ] = None,
    optimizer: Annotated[
        str, typer.Option(help="sgd, nesterov, adam, adamw, lars, lamb, ...", rich_help_panel=_WHAT)
    ] = DEFAULTS.optimizer,
    rate: Annotated[
        float | None, typer.Option(help="Learning rate. Default: 0.12 for sgd.", rich_help_panel=_WHAT)
    ] = None,
    momentum: Annotated[
        float | None, typer.Option(help="Default: 0, and 0.9 for nesterov.", rich_help_panel=_WHAT)
    ] = None,
    decay: Annotated[float, typer.Option(help="Weight decay.", rich_help_panel=_WHAT)] = DEFAULTS.decay,
    clip: Annotated[
        float | None, typer.Option(help="Longest gradient: longer ones are scaled down.", rich_help_panel=_WHAT)
    ] = None,
    trust: Annotated[float, typer.Option(help="LARS's trust coefficient.", rich_help_panel=_WHAT)] = DEFAULTS.trust,
    smoothing: Annotated[
        float, typer.Option(help="Label smoothing: the share of all classes in a target.", rich_help_panel=_WHAT)
    ] = DEFAULTS.smoothing,
    batch: Annotated[
        int | None, typer.Option(help="Samples per worker and step. Default: 16.", rich_help_panel=_WHAT)
    ] = None,
    precision: Annotated[
        str, typer.Option(help="fp32, bf16 or fp16: of forward and backward.", rich_help_panel=_WHAT)
    ] = DEFAULTS.precision,
    scale: Annotated[
        float, typer.Option(help="Of the loss in fp16. Default: 0, dynamic.", rich_help_panel=_WHAT)
    ] = DEFAULTS.scale,
    norms: Annotated[
        str,
        typer.Option(
            help="Batch norm's statistics: moving averages, fresh (taken before each evaluation), or shared (each "
            "batch's, of all workers).",
            rich_help_panel=_WHAT,
        ),
    ] = DEFAULTS.norms,
    decays: Annotated[
        str, typer.Option(help="What decays: all, or weights (not biases, not norms).", rich_help_panel=_WHAT)
    ] = DEFAULTS.decays,
    zero_gamma: Annotated[
        str | None,
        typer.Option(
            metavar="CLASS", help="Residual blocks whose last gamma begins at 0, as BasicBlock.", rich_help_panel=_WHAT
        ),
    ] = None,
    recipe: Annotated[
        str | None,
        typer.Option(metavar="EXPR", help="A famous one, as sony(base_batch=256).", rich_help_panel=_PACE),
    ] = None,
    schedule: Annotated[
        str | None,
        typer.Option(
            metavar="EXPR", help="How the rate goes, as 'Warmup(epochs=5, then=Cosine())'.", rich_help_panel=_PACE
        ),
    ] = None,
    batches: Annotated[
        str | None,
        typer.Option(
            metavar="LIST", help="Samples of a step of all workers, by epoch: 0:64, 10:128.", rich_help_panel=_PACE
        ),
    ] = None,
    rule: Annotated[
        str,
        typer.Option(help="The rate where the batch grows: linear (so does it) or constant.", rich_help_panel=_PACE),
    ] = DEFAULTS.rule,
    at_once: Annotated[
        int | None,
        typer.Option(help="Samples a worker computes at a time; more are accumulated.", rich_help_panel=_PACE),
    ] = None,
    accumulate: Annotated[
        bool,
        typer.Option(
            "--accumulate/--no-accumulate",
            metavar="",
            help="Whether more than --at-once may be.",
            rich_help_panel=_PACE,
        ),
    ] = DEFAULTS.accumulate,
    epochs: Annotated[
        float | None,
        typer.Option(help="Passes over the data. Default: 40, or less where data is large.", rich_help_panel=_LONG),
    ] = None,
    steps: Annotated[int | None, typer.Option(help="Steps per worker, instead.", rich_help_panel=_LONG)] = None,
    target: Annotated[float, typer.Option(help="The accuracy to time.", rich_help_panel=_LONG)] = DEFAULTS.target,
    evaluate_every: Annotated[
        int | None, typer.Option(help="Steps between evaluations. Default: 20 of them.", rich_help_panel=_LONG)
    ] = None,
    resume: Annotated[
        str | None,
        typer.Option(
            metavar="[RUN]", help="Go on with a run: its folder or name. Default: the newest.", rich_help_panel=_LONG
        ),
    ] = None,
    fabric: Annotated[
        str,
        typer.Option(
            help="auto, shared (memory of this host), torch or messages (hubs and visits keyed).",
            rich_help_panel=_WHERE,
        ),
    ] = DEFAULTS.fabric,
    trouble: Annotated[
        str | None, typer.Option(metavar="SCRIPT", help="As slow(rank=1, factor=5).", rich_help_panel=_WHERE)
    ] = None,
    truth: Annotated[
        int | None,
        typer.Option(help="Steps between looks at what a codec loses: the exact average beside.", rich_help_panel=_OUT),
    ] = None,
    folder: Annotated[
        str, typer.Option(metavar="FOLDER", help="Where runs are kept.", rich_help_panel=_OUT)
    ] = DEFAULTS.folder,
    save_every: Annotated[
        int | None, typer.Option(help="Steps between checkpoints. Default: 5 of them.", rich_help_panel=_OUT)
    ] = None,
    keep: Annotated[int, typer.Option(help="How many checkpoints are kept.", rich_help_panel=_OUT)] = DEFAULTS.keep,
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run", metavar="", help="Print the settings and who said each; no run.", rich_help_panel=_OUT
        ),
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", metavar="", help="One JSON object on stdout.", rich_help_panel=_OUT)
    ] = False,
) -> None:
    """Read the settings, check them, run, report."""
    from gossamer.cli import train_file, train_folder, train_report
    from gossamer.cli.train_request import check
    from gossamer.cli.train_settings import resolve
    from gossamer.parts.refusal import Refused

    said = _said(ctx, task_option or [])
    run = None if resume is None else train_folder.found(resume, folder)
    if run is not None and file is not None:
        raise Refused(f"train: {file} and --resume both say what to run", f"--resume {run.folder.name}, and options")
    if file is None and run is not None:
        file = run.settings
    sources = [] if file is None else [(str(file), train_file.read(file) if run is None else run.said())]
    resolved = resolve(*sources, ("option", said))
    where = _where(resolved, file)
    request = check(resolved, where)
    if dry_run:
        train_report.settings(request, as_json)
        return
    _run(request, run, where, as_json)


def _said(ctx: typer.Context, pairs: list[str]) -> dict[str, Any]:
    """The settings that were typed."""
    from gossamer.cli import request
    from gossamer.parts.refusal import Refused

    typed = {name for name in ctx.params if str(ctx.get_parameter_source(name)).endswith("COMMANDLINE")}
    said = {name: ctx.params[name] for name in NAMES if name in typed}
    if "epochs" in said and "steps" in said:
        raise Refused("--epochs and --steps both say how long", "one of them")
    return {**said, "options": request.options(pairs)} if pairs else said


def _where(resolved: Resolved, file: Path | None) -> list[str]:
    """Where a task of the user's own may lie, besides PYTHONPATH: where it is said to, beside the run file, here."""
    from gossamer.parts.refusal import Refused

    path = resolved.settings.path
    if path is not None and not Path(path).is_dir():
        raise Refused(f"path: there is no folder {path}", "the folder of the task's module")
    beside = [str(file.parent.absolute())] if file is not None else []
    told = [str(Path(path).absolute())] if path is not None else []
    return list(dict.fromkeys([*told, *beside, os.getcwd()]))


def _run(request: Request, run: Kept | None, where: list[str], as_json: bool) -> None:
    from gossamer.cli import train_folder, train_report
    from gossamer.cli.train_play import play

    resumed = None
    if run is not None:
        resumed = train_folder.unfinished(run, request)
    else:
        run = train_folder.make(request.settings.folder, request.settings.strategy)
    with run.keeping(request.settings, where):
        train_report.begin(request, run, resumed)
        found, ending = play(request, run, resumed, where)
    train_report.end(found, ending, run, as_json)
    if ending.code:
        raise typer.Exit(ending.code)
