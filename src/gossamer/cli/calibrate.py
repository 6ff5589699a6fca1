"""`gossamer calibrate`: a cluster and a workload file from the journals of runs, with the error on runs left out."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gossamer.parts.refusal import Refused

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gossamer.sim.calibrate import Calibrated
    from gossamer.sim.seen import Seen

HELP = """Fit a cluster and a workload to runs of your own, and write both down for the simulator.

Runs are folders of `gossamer train`, or those that were given to --journal; take some with few and some with more \
workers, or of several strategies. What members computed is read in the journals; latency and rate of the links are \
moved until the simulator says what the journals say. With three runs or more each is also foretold by the others alone.

    gossamer calibrate runs/two runs/four --cluster lan-1gbit --workload mine.toml --output here.toml

    gossamer simulate --strategy diloco --cluster here.toml --workload here-workload.toml --workers 64
"""


def calibrate(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN...", help="Folders with journals.")],
    cluster: Annotated[str, typer.Option(metavar="FILE|NAME", help="To begin with: a file, or one of ours.")],
    workload: Annotated[str, typer.Option(metavar="FILE|NAME", help="The model: a file of `gossamer profile`.")],
    output: Annotated[Path, typer.Option(metavar="FILE.toml", help="The cluster.")] = Path("cluster.toml"),
    output_workload: Annotated[
        Path | None, typer.Option(metavar="FILE.toml", help="The workload. Default: beside the cluster, -workload.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", metavar="", help="Write over files that are there.")] = False,
    as_json: Annotated[bool, typer.Option("--json", metavar="", help="One JSON object on stdout.")] = False,
) -> None:
    """Read, fit, write, report."""
    from gossamer.cli.screen import put_json, writable
    from gossamer.sim.calibrate import calibrate as fitted
    from gossamer.sim.cluster import Cluster
    from gossamer.sim.seen import seen
    from gossamer.sim.workload import Workload
    from gossamer.sim.written import written, written_cluster

    beside = output_workload or output.with_name(f"{output.stem}-workload{output.suffix}")
    if beside.resolve() == output.resolve():
        raise Refused(f"calibrate: {output} is one file for both, cluster and workload", "another --output-workload")
    for path in (output, beside):
        if path.exists() and not force:
            raise Refused(f"calibrate: {path} is there already", "another --output, or --force")
        writable(path)
    found_runs = [seen(run) for run in runs]
    found = fitted(found_runs, Cluster.load(cluster), Workload.load(workload))
    output.write_text(written_cluster(found.cluster), "utf-8")
    beside.write_text(written(found.workload), "utf-8")
    if as_json:
        put_json(_told(found_runs, found, output, beside))
    else:
        _print(found_runs, found, output, beside)


def _told(runs: Sequence[Seen], found: Calibrated, output: Path, beside: Path) -> dict[str, object]:
    tiers = {name: getattr(found.cluster, name) for name in ("inside", "across")}
    return {
        "cluster": output,
        "workload": beside,
        "parameters": {
            **{
                f"{name}.{part}": getattr(tier, part)
                for name, tier in tiers.items() if tier is not None for part in ("latency", "rate")
            },
            **{name: getattr(found.cluster, name) for name in ("jitter", "writing", "reading")},
        },
        "held_out_error": found.held_out_error,
        "silent_on_servers": list(found.silent),
        "runs": [
            {
                "run": run.name, "strategy": run.strategy, "workers": run.workers, "hosts": len(run.hosts),
                "servers": run.servers,
                "batch": run.batch, "seconds_per_step": run.seconds, "compute_seconds": run.compute,
                "error": found.errors[run.name], "error_held_out": found.held_out.get(run.name),
            }
            for run in runs
        ],
    }  # fmt: skip


def _print(runs: Sequence[Seen], found: Calibrated, output: Path, beside: Path) -> None:
    from rich.table import Table
    from rich.text import Text

    from gossamer.cli.screen import out
    from gossamer.parts.units import told_rate, told_seconds

    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    for title in ("run", "workers", "hosts", "a step", "compute", "simulated", "error", "by the others"):
        table.add_column(title, justify="left" if title == "run" else "right")
    for run in runs:
        off, left = found.errors[run.name], found.held_out.get(run.name)
        table.add_row(
            run.name, f"{run.workers}", f"{len(run.hosts)}", told_seconds(run.seconds), told_seconds(run.compute),
            told_seconds(run.seconds * (1 + off)), f"{off:+.1%}", "-" if left is None else f"{left:+.1%}",
        )  # fmt: skip
    console = out()
    console.print(table)
    for name in ("inside", "across"):
        tier = getattr(found.cluster, name)
        if tier is not None:
            told = f"{told_rate(tier.rate)}{_sure(found, f'{name}.rate')}, {told_seconds(tier.latency)} a message"
            console.print(Text(f"{name}: {told}"))
    rates = (f"{name} {told_rate(getattr(found.cluster, name))}{_sure(found, name)}" for name in ("writing", "reading"))
    console.print(Text(f"codecs: {', '.join(rates)}"))
    error = found.held_out_error
    said = "three runs or more would tell how far off it is" if error is None else f"off by {error:.1%} in the mean"
    console.print(Text(f"jitter {found.cluster.jitter:.3f}; on runs that it was not fitted to: {said}"))
    for name in found.silent:
        console.print(Text(f"{name} does not say whether servers kept its hubs: taken as none", style="bold"))
    console.print(Text(f"written: {output} and {beside}", style="dim"))


def _sure(found: Calibrated, name: str) -> str:
    """By which factor a parameter may be off, where that is known."""
    from math import exp

    sure = found.cluster.spread.get(name)
    return "" if sure is None else f" (x/÷ {exp(sure):.2f})"
