"""A fitted law as a cluster and a workload, so that any strategy can be simulated where an all-reduce was measured."""

from __future__ import annotations

from dataclasses import replace
from math import log, sqrt

from gossamer.parts.selection import Tag
from gossamer.sim.cluster import SPREAD, Cluster, Tier
from gossamer.sim.fit import BYTES, LINE, NEAR, Fitted
from gossamer.sim.formula import UNIT
from gossamer.sim.workload import Workload
from gossamer.strategy.buckets import length, parted

LATE = 16  # members for which both ways to tell how late the latest is come to the same


def described(
    fitted: Fitted, cluster: Cluster | None = None, workload: Workload | None = None
) -> tuple[Cluster, Workload]:
    """What was fitted, told as a cluster and a workload: rates, latencies, compute by batch. The rest is as given.

    Hops of the law grow with the square root of an exchange, latencies of a cluster do not: both agree for this
    workload's gradients, cut into our buckets.
    """
    v = fitted.values
    workload = workload or Workload((Tag("all", (int(BYTES) // 4,)),), (1.0,), (1,), (1.0,), name="fitted")
    size = workload.nbytes
    count = len(parted(workload.tags, range(len(workload.tags)), length(size, local=False)))
    scale = sqrt(v["across"] / UNIT) / count
    across = Tier(v["hop_across"] * scale, max(LINE, size / v["across"]), min(1.0, size / v["across"] / LINE))
    inside = Tier(v["hop_inside"] * scale, max(NEAR, size / v["inside"]), min(1.0, size / v["inside"] / NEAR))
    jitter = v["jitter"] * sqrt(2 * log(LATE)) / (log(LATE) + 0.58) * 2
    spread = {
        **SPREAD, "across.rate": fitted.spread["across"], "inside.rate": fitted.spread["inside"],
        "across.latency": fitted.spread["hop_across"], "inside.latency": fitted.spread["hop_inside"],
        "speed": fitted.spread["sample"], "jitter": fitted.spread["jitter"],
    }  # fmt: skip
    base = cluster or Cluster(hosts=2**16, per_host=1, across=across, inside=inside, name="fitted")
    found = replace(
        base, across=across, inside=inside if base.per_host > 1 else base.inside, nics=1, speed=1.0, crowd=v["crowd"],
        pair=v["pair"], jitter=jitter, spread=spread, measured=int(fitted.largest),
        source=f"fitted to {fitted.rows} rows",
    )  # fmt: skip
    return found, _timed(fitted, workload)


def _timed(fitted: Fitted, workload: Workload) -> Workload:
    """The workload with the fitted seconds at the batches that were measured, or at its own."""
    from math import exp

    v, table = fitted.values, fitted.theta[len(fitted.values) :]
    batches = [float(each) for each in fitted.batches] or [float(each) for each in workload.batches]
    off = [exp(float(each)) for each in table] or [1.0] * len(batches)
    times = {round(b): (v["fixed"] + v["sample"] * b) * o for b, o in zip(batches, off, strict=True)}
    if len(times) == 1:
        times[2 * max(times)] = v["fixed"] + v["sample"] * 2 * max(times)
    return replace(workload.timed(times), forward=min(1.0, v["front"]))
