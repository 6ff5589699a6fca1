"""`gossamer recipes`: the published large-batch runs, what follows from them, and our recipes named after them."""

from __future__ import annotations

from typing import Annotated, Any

import typer

HELP = """List the published runs of ResNet-50 on ImageNet with large batches, and our recipes named after them.

Images per second and updates per epoch are derived from 90 epochs of 1,281,167 images. What we only remember is marked,
and is no paper's word. A recipe is scaled to your data and workers by `gossamer train --recipe`; --dry-run prints what
it comes to.

    gossamer recipes sony

    gossamer train --recipe 'sony(base_batch=256)' --dry-run
"""

LEGEND = """unmarked: read in the work, or told by one that was read; ~ as we remember it, ? hardly so: no paper's word
images/s and updates/epoch: derived from 90 epochs of 1,281,167 images
"""


def recipes(
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="One recipe, in full.")] = None,
    as_json: Annotated[bool, typer.Option("--json", metavar="", help="One JSON object on stdout.")] = False,
) -> None:
    """Print the table, or one recipe."""
    from gossamer.cli.screen import put_json
    from gossamer.recipes.famous import FAMOUS
    from gossamer.recipes.published import RUNS

    if name is not None:
        _one(name, as_json)
    elif as_json:
        put_json({"runs": [run.described() for run in RUNS], "recipes": [_recipe(entry) for entry in FAMOUS.values()]})
    else:
        _table()


def _recipe(entry: Any) -> dict[str, Any]:
    return {
        "name": entry.name, "says": entry.sentence, "ours": entry.ours, "usage": _usage(entry),
        "value": repr(entry.make()),
    }  # fmt: skip


def _usage(entry: Any) -> str:
    import inspect

    given = inspect.signature(entry.make).parameters.values()
    return f"{entry.name}({', '.join(f'{each.name}={each.default:.4g}' for each in given)})"


def _one(name: str, as_json: bool) -> None:
    from rich.text import Text

    from gossamer.cli.screen import out, put_json
    from gossamer.parts.refusal import Refused
    from gossamer.parts.spelling import nearest
    from gossamer.recipes.famous import FAMOUS
    from gossamer.recipes.published import RUNS

    if name not in FAMOUS:
        raise Refused(f"there is no recipe {name!r}; there are {', '.join(FAMOUS)}", nearest(name, tuple(FAMOUS)))
    entry, runs = FAMOUS[name], [run for run in RUNS if run.recipe == name]
    if as_json:
        put_json({**_recipe(entry), "runs": [run.described() for run in runs]})
        return
    console = out()
    console.print(Text(_usage(entry), style="bold cyan"))
    console.print(entry.sentence)
    console.print(Text(f"Not the paper's: {entry.ours}.", style="dim"))
    console.print(Text(repr(entry.make())))
    for run in runs:
        console.print(Text(f"Published: {_line(run)}"))
    console.print(Text(f"gossamer train --recipe {name} --dry-run   prints what it comes to here", style="dim"))


def _line(run: Any) -> str:
    batches = " -> ".join(f"{size:,}" for size in run.batches)
    count = f"{run.count:,} x " if run.count else ""
    return f"{run.work}: batch {batches}, {count}{run.processors}, {_time(run.seconds)}, {run.top1:.2%} ({run.surely})"


def _time(seconds: float) -> str:
    return (
        f"{seconds / 3600:g} h" if seconds >= 3600 else f"{seconds / 60:g} min" if seconds > 300 else f"{seconds:g} s"
    )


def _table() -> None:
    from rich.table import Table
    from rich.text import Text

    from gossamer.cli.screen import out
    from gossamer.recipes.famous import FAMOUS
    from gossamer.recipes.published import HARDLY, READ, REMEMBERED, RUNS, TOLD

    console = out()
    marks = {READ: "", TOLD: "", REMEMBERED: "~", HARDLY: "?"}
    table = Table(box=None, padding=(0, 2, 0, 0), title="Published: ResNet-50 on ImageNet", title_justify="left")
    for heading in ("work", "batch", "processors", "time", "top-1", "images/s", "updates/epoch"):
        table.add_column(heading, justify="left" if heading in ("work", "processors") else "right")
    for run in RUNS:
        mark = {name: marks[level] for name, level in run.sure.items()}
        count = f"{mark['count']}{run.count:,} x " if run.count else ""
        sizes = " -> ".join(f"{size // 1024}K" if size >= 1024 else str(size) for size in run.batches)
        table.add_row(
            run.work, f"{mark['batches']}{sizes}", f"{count}{mark['processors']}{run.processors}",
            f"{mark['seconds']}{_time(run.seconds)}", f"{mark['top1']}{run.top1:.2%}",
            f"{mark['seconds']}{run.images_per_second:,.0f}",
            f"{mark['batches']}{' -> '.join(map(str, run.updates_per_epoch))}",
        )  # fmt: skip
    console.print(table)
    console.print(Text(LEGEND, style="dim"))
    ours = Table.grid(padding=(0, 2, 0, 0))
    for entry in FAMOUS.values():
        ours.add_row(Text(entry.name, style="bold cyan"), Text(entry.sentence))
        ours.add_row("", Text(f"not the paper's: {entry.ours}", style="dim"))
    console.print(ours)
