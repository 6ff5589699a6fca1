"""`gossamer simulate --list`: the clusters and workloads that are shipped."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gossamer.sim.cluster import Cluster
    from gossamer.sim.workload import Workload


def show(as_json: bool) -> None:
    """Print both lists, or write them as JSON."""
    from gossamer.sim.cluster import Cluster
    from gossamer.sim.description import names
    from gossamer.sim.workload import Workload

    clusters = {name: Cluster.load(name) for name in names("cluster")}
    workloads = {name: Workload.load(name) for name in names("workload")}
    if as_json:
        from gossamer.cli.screen import put_json

        put_json({
            "clusters": [
                {"given": k, "name": c.name, "seats": c.seats, "source": c.source} for k, c in clusters.items()
            ],
            "workloads": [
                {"given": k, "name": w.name, "bytes": w.nbytes, "batches": w.batches, "source": w.source}
                for k, w in workloads.items()
            ],
        })  # fmt: skip
        return
    _print(clusters, workloads)


def _print(clusters: dict[str, Cluster], workloads: dict[str, Workload]) -> None:
    from rich.table import Table

    from gossamer.cli.screen import out
    from gossamer.parts.units import told_bytes

    table = Table(box=None, pad_edge=False, header_style="dim")
    for title, justify in (("cluster", "left"), ("seats", "right"), ("", "left")):
        table.add_column(title, justify=justify)  # type: ignore[arg-type]
    for given, cluster in clusters.items():
        table.add_row(given, f"{cluster.seats:,}", cluster.name)
    out().print(table)
    table = Table(box=None, pad_edge=False, header_style="dim")
    for title, justify in (("workload", "left"), ("gradients", "right"), ("batches measured", "right"), ("", "left")):
        table.add_column(title, justify=justify)  # type: ignore[arg-type]
    for given, load in workloads.items():
        table.add_row(given, told_bytes(load.nbytes), f"{load.batches[0]:,}..{load.batches[-1]:,}", load.name)
    out().print()
    out().print(table)
    out().print("\na file of your own: gossamer profile module:function --output FILE.toml, and clusters/ for clusters")
