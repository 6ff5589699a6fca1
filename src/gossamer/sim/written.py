"""Workloads and clusters as the text of their files: reading it again gives the same. Writes nothing to disk."""

from __future__ import annotations

from dataclasses import fields

from gossamer.parts.refusal import Refused
from gossamer.sim.cluster import Cluster
from gossamer.sim.workload import Workload


def written(workload: Workload) -> str:
    """TOML that `Workload.load` reads back as it was, to the last digit."""
    sizes = {tag.itemsize for tag in workload.tags}
    if len(sizes) > 1:
        raise Refused(
            f"workload {workload.name}: tensors of {' and '.join(map(str, sorted(sizes)))} bytes an element "
            "have no place in one file",
            "a model of one precision",
        )
    lines = [f"{key} = {_words(value)}" for key, value in (("name", workload.name), ("source", workload.source))]
    lines += [
        f"itemsize = {sizes.pop()}",
        f"batches = {list(workload.batches)}",
        f"seconds = {list(workload.seconds)}",
        f"forward = {workload.forward!r}",
        f"update = {workload.update!r}",
    ]
    if workload.epoch is not None:
        lines.append(f"epoch = {workload.epoch}")
    rows = zip(workload.tags, workload.shares, strict=True)
    lines += ["tensors = [", *(f"  [{_words(tag.name)}, {list(tag.shape)}, {share!r}]," for tag, share in rows), "]"]
    if workload.goal is not None:
        goal = workload.goal
        lines += ["", "[goal]", f"samples = {goal.samples!r}", f"critical = {goal.critical!r}"]
        lines.append(f"what = {_words(goal.what)}")
    return "\n".join(lines) + "\n"


def written_cluster(cluster: Cluster) -> str:
    """TOML that `Cluster.load` reads back as it was, to the last digit; what is usual is left out."""
    lines = [f"{key} = {_words(value)}" for key, value in (("name", cluster.name), ("source", cluster.source))]
    for each in fields(Cluster):
        value = getattr(cluster, each.name)
        if isinstance(value, int | float) and value != each.default:
            lines.append(f"{each.name} = {value!r}")
    for name in ("inside", "across"):
        tier = getattr(cluster, name)
        if tier is not None:
            lines += ["", f"[{name}]", f"latency = {tier.latency!r}", f"bandwidth = {tier.bandwidth!r}"]
            lines.append(f"achieved = {tier.achieved!r}")
    lines += ["", "[spread]", *(f'"{name}" = {value!r}' for name, value in cluster.spread.items())]
    return "\n".join(lines) + "\n"


def _words(text: str) -> str:
    """A basic string of TOML."""
    plain = text.replace("\\", "\\\\").replace('"', '\\"')
    return '"' + "".join(each if each.isprintable() else f"\\U{ord(each):08x}" for each in plain) + '"'
