"""`gossamer profile`: how long a task computes on this machine, as a table and as a workload file."""

from __future__ import annotations

import os
import sys
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gossamer.parts.refusal import Refused, whole

if TYPE_CHECKING:
    from gossamer.engine.profile import Profile, Progress
    from gossamer.sim.workload import Workload
    from gossamer.tasks import Task

HELP = """Measure a task on this machine, and write it down as a workload for the simulator.

Forward, backward and update of one worker at several batch sizes, and when in backward each gradient is there. \
Medians of turns, one process; nothing is exchanged.

    gossamer profile digits --output digits.toml

    gossamer profile moons:make --task-option hidden=64 --batches 8,16,32,64
"""
USUAL = (8, 16, 32, 64)  # batches, where nobody says


def profile(
    task: Annotated[str, typer.Argument(help="digits, characters, idx, or your module:function.")],
    task_option: Annotated[list[str] | None, typer.Option(metavar="KEY=VALUE", help="As model=cnn, path=DIR.")] = None,
    batches: Annotated[str | None, typer.Option(metavar="B,B,...", help="Of one worker. Default: 8,16,32,64.")] = None,
    repeats: Annotated[int, typer.Option(help="Turns of every size.")] = 15,
    optimizer: Annotated[str, typer.Option(help="Whose update is timed: sgd, nesterov, adam, lars, ...")] = "sgd",
    threads: Annotated[int, typer.Option(help="That one worker computes with.")] = 1,
    seed: Annotated[int, typer.Option(help="Of the model.")] = 0,
    output: Annotated[Path, typer.Option(metavar="FILE.toml", help="The workload file.")] = Path("workload.toml"),
    force: Annotated[bool, typer.Option("--force", metavar="", help="Write over a file that is there.")] = False,
    as_json: Annotated[bool, typer.Option("--json", metavar="", help="One JSON object on stdout.")] = False,
) -> None:
    """Read what was asked, measure, write, report."""
    from gossamer.cli import request
    from gossamer.cli.screen import put_json, writable
    from gossamer.recipes import Optimizer

    if ":" in task and os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    sizes = None if batches is None else _sizes(batches)
    whole("profile", "threads", threads, 1, 4096)
    options = request.options(task_option or [])
    made = Optimizer(optimizer, 1e-6, request.MOMENTA.get(optimizer, 0.0))  # so small a rate leaves the model as it is
    if output.exists() and not force:
        raise Refused(f"profile: {output} is there already", "another --output, or --force")
    writable(output)

    import torch

    from gossamer.engine.profile import profile as measure
    from gossamer.sim.written import written
    from gossamer.tasks import build, tried

    torch.set_num_threads(threads)
    built = build(task, seed, options)
    tried(task, built)
    trained = [p for p in built.model.parameters() if p.requires_grad]
    chosen = _fitting(sizes, built.size)
    seen = measure(built, made.build(trained), chosen, repeats, _ticker(chosen, repeats))
    found = _workload(task, seen, built, _how(seen, optimizer, threads))
    output.write_text(written(found), "utf-8")
    if as_json:
        put_json(_plain(task, seen, found, output))
        return
    _print(seen, found, output)


def _sizes(text: str) -> tuple[int, ...]:
    words = [word.strip() for word in text.split(",")]
    if not all(word.isdecimal() and len(word) < 10 for word in words):
        raise Refused(f"profile: --batches is whole numbers with commas between, not {text!r}", "--batches 8,16,32")
    found = tuple(sorted({int(word) for word in words}))
    whole("profile", "batch", found[0], 1)
    return found


def _fitting(sizes: tuple[int, ...] | None, size: int) -> tuple[int, ...]:
    """What was asked for, if the data have so many samples; else the usual ones that they have."""
    if sizes is None:
        return tuple(batch for batch in USUAL if batch <= size) or (size,)
    if sizes[-1] > size:
        raise Refused(f"profile: a batch of {sizes[-1]} is more than the {size} samples of the task", f"{size}")
    return sizes


def _how(seen: Profile, optimizer: str, threads: int) -> str:
    import torch

    turns = min(len(steps) for steps in seen.steps.values())
    on = f"{threads} thread{'s' * (threads > 1)} of a machine with {os.cpu_count()} cores, torch {torch.__version__}"
    return f"measured by gossamer profile on {on}: medians of {turns} turns; update: {optimizer}"


def _workload(task: str, seen: Profile, built: Task, how: str) -> Workload:
    from gossamer.sim.workload import Workload

    seconds = tuple(accumulate((_digits(seen.seconds(batch)) for batch in seen.batches), max))  # what fell was noise
    shares = tuple(_digits(share) for share in seen.shares)
    forward, update = _digits(seen.forward), _digits(seen.update)
    return Workload(seen.tags, shares, seen.batches, seconds, forward, update, built.size, name=task, source=how)


def _digits(number: float) -> float:
    """More than four were not measured."""
    return float(f"{number:.4g}")


def _ticker(batches: tuple[int, ...], repeats: int) -> Progress:
    from gossamer.cli.screen import aside
    from gossamer.parts.units import told_seconds

    console = aside()

    def told(batch: int, turn: int, seconds: float) -> None:
        if batch == batches[-1] and turn >= 0 and (turn + 1) % max(1, repeats // 5) == 0:
            console.print(f"turn {turn + 1} of {repeats}: a batch of {batch} took {told_seconds(seconds)}")

    return told


def _plain(task: str, seen: Profile, found: Workload, output: Path) -> dict[str, object]:
    turns = {batch: len(steps) for batch, steps in seen.steps.items()}
    return {
        "task": task, "batches": list(found.batches), "seconds": list(found.seconds),
        "spread": [list(seen.spread(batch)) for batch in seen.batches], "turns": [turns[b] for b in seen.batches],
        "forward": found.forward, "update": found.update, "ready": found.ready(), "tensors": len(found.tags),
        "bytes": found.nbytes, "epoch": found.epoch, "source": found.source, "output": output,
    }  # fmt: skip


def _print(seen: Profile, found: Workload, output: Path) -> None:
    from rich.table import Table

    from gossamer.cli.screen import out
    from gossamer.parts.units import told_bytes, told_seconds

    console = out()
    console.print(f"{found.name}: {len(found.tags)} tensors, {told_bytes(found.nbytes)} of gradients; {found.source}\n")
    table = Table(box=None, pad_edge=False)
    for title in ("batch", "forward and backward", "shortest..longest", "a sample"):
        table.add_column(title, justify="right")
    for batch in seen.batches:
        low, high = seen.spread(batch)
        span = seen.seconds(batch)
        row = (told_seconds(span), f"{told_seconds(low)}..{told_seconds(high)}", told_seconds(span / batch))
        table.add_row(f"{batch:,}", *row)
    console.print(table)
    console.print(f"\nforward is {found.forward:.0%} of it; an update takes {told_seconds(found.update)} more")
    console.print(f"workload: {output}", soft_wrap=True)
