"""Fits a cluster and a workload to runs of our own: the simulator plays each run, and its links are moved until it says
what the journals say. What members computed is taken from the journals as it is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import exp, log
from statistics import mean
from typing import TYPE_CHECKING, Any

from gossamer.parts.refusal import Refused
from gossamer.parts.topology import Complete
from gossamer.sim.cluster import MODEL, Cluster, Tier
from gossamer.sim.forecast import FITTED
from gossamer.sim.scene import Scene
from gossamer.sim.seen import Seen
from gossamer.sim.simulate import enough, nudged, pace, play, staged
from gossamer.sim.workload import Workload
from gossamer.strategy import Staged, parse, slots

if TYPE_CHECKING:
    from numpy import ndarray

    Array = ndarray[Any, Any]

STEPS = 40  # simulated for a run that is fitted to
NOISE = 0.01  # of a run, whose mean step is of many
WIDE = 1.5  # of a logarithm: how far off labels may be before anything was measured
MOVED = ("across.latency", "across.rate", "single", "inside.latency", "inside.rate")
STEADY = 0.1  # of a logarithm: how far off rates of codecs may be that journals have
FASTEST = 1e18  # bytes a second of a codec
RATE = 1e15  # bytes a second: where a tier's rate is found to be beyond any label


@dataclass(frozen=True)
class Calibrated:
    """What was found, how far off each run is, and how far off it is by a fit that has not seen it; `silent`: runs with
    hubs that do not say whether servers kept them, which are taken to have had none."""

    cluster: Cluster
    workload: Workload
    errors: dict[str, float]
    held_out: dict[str, float]
    silent: tuple[str, ...] = ()

    @property
    def held_out_error(self) -> float | None:
        """Mean over runs, without their signs; None where there was nothing to leave out."""
        return mean(abs(each) for each in self.held_out.values()) if self.held_out else None


def calibrate(runs: Sequence[Seen], cluster: Cluster, workload: Workload) -> Calibrated:
    """The cluster and the workload that these runs ask for, beginning with those given."""
    if not runs:
        raise Refused("calibrate: there is no run to fit to", "folders of runs with few and with more workers")
    found, timed = _fitted(runs, cluster, workload)
    errors = {run.name: predicted(run, found, timed) / run.seconds - 1.0 for run in runs}
    held = {}
    for run in runs if len(runs) > 2 else ():
        others = [each for each in runs if each is not run]
        held[run.name] = predicted(run, *_fitted(others, cluster, workload)) / run.seconds - 1.0
    silent = [run for run in runs if run.servers is None and any(ex.hub for ex in slots(parse(run.strategy)))]
    return Calibrated(found, timed, errors, held, tuple(run.name for run in silent))


def predicted(run: Seen, cluster: Cluster, workload: Workload) -> float:
    """Seconds of a step of such a run, by the simulator."""
    return sum(share * _paced(scene) for scene, share in _scenes(run, cluster, workload))


def _paced(scene: Scene) -> float:
    return pace(scene, play(scene, enough(scene.strategy, STEPS)))


def _scenes(run: Seen, cluster: Cluster, workload: Workload) -> list[tuple[Scene, float]]:
    """What the run was, and for which share of its steps: twice where a strategy was followed by another."""
    batch, servers = run.batch * run.workers, run.servers or 0
    scene = staged(run.strategy, _shaped(cluster, run), workload, run.workers, batch=batch, servers=servers)
    whole = scene.strategy
    parts = [(whole.first, run.early), (whole.then, 1.0 - run.early)] if isinstance(whole, Staged) else [(whole, 1.0)]
    return [(replace(scene, strategy=strategy), share) for strategy, share in parts if share > 0.0]


def _fitted(runs: Sequence[Seen], cluster: Cluster, workload: Workload) -> tuple[Cluster, Workload]:
    import numpy as np
    from scipy.optimize import least_squares

    timed = _timed(runs, workload)
    most = max(run.workers for run in runs)
    rates = _rates(runs, cluster, timed)
    jitter = mean(run.jitter for run in runs)
    base = replace(
        cluster, speed=1.0, jitter=jitter, measured=most, **rates,  # type: ignore[arg-type]
        spread={**cluster.spread, **dict.fromkeys(rates, STEADY), "speed": NOISE, "jitter": 0.3},
    )  # fmt: skip
    names = [name for name in MOVED if nudged(base, name, 2.0) is not None and _used(name, runs)]
    if not names:
        return base, timed

    def off(theta: Array) -> Array:
        moved = _moved(base, names, theta)
        far = [log(predicted(run, moved, timed) / run.seconds) / NOISE for run in runs]
        found: Array = np.array([*far, *(theta / WIDE)])
        return found

    best = least_squares(off, np.zeros(len(names)), diff_step=0.02, xtol=1e-4, ftol=1e-4, max_nfev=40)
    variance = np.linalg.pinv(best.jac.T @ best.jac)
    missed = (float(np.sum(best.fun[: len(runs)] ** 2)) / max(1, len(runs) - len(names))) ** 0.5 * NOISE
    spread = {name: float(variance[n, n]) ** 0.5 for n, name in enumerate(names)}
    found = _moved(base, names, best.x)
    source = f"calibrated on {len(runs)} runs of up to {most} workers"
    return replace(found, spread={**base.spread, **spread, MODEL: max(FITTED, missed)}, source=source), timed


def _rates(runs: Sequence[Seen], cluster: Cluster, workload: Workload) -> dict[str, float]:
    """Bytes a second of codecs, as the runs have them that compress: seconds of a step by the rates given, over those
    in the journals. What a hub is sent is in none of them."""
    found = {}
    for name, part, seen in (("writing", "write", "encode"), ("reading", "read", "decode")):
        faster = []
        for run in (run for run in runs if getattr(run, seen) > 0.0):
            likely = sum(
                share * getattr(cargo, part) / cargo.exchange.synchrony.every
                for scene, share in _scenes(run, cluster, workload)
                for cargo in scene.cargoes if not cargo.exchange.hub
            )  # fmt: skip
            faster += [log(likely / getattr(run, seen))] if likely > 0.0 else []
        if faster:
            found[name] = min(FASTEST, max(1.0, getattr(cluster, name) * exp(mean(faster))))
    return found


def _used(name: str, runs: Sequence[Seen]) -> bool:
    """Whether any run says something of it: of single messages only if runs of both kinds do."""
    if name == "single":
        kinds = {all(isinstance(ex.topology, Complete) for ex in slots(parse(run.strategy))) for run in runs}
        return len(kinds) > 1 and any(len(run.hosts) > 1 for run in runs)
    return any(len(run.hosts) > 1 if name.startswith("across") else max(run.hosts) > 1 for run in runs)


def _moved(cluster: Cluster, names: Sequence[str], theta: Array) -> Cluster:
    for name, shift in zip(names, theta, strict=True):
        tier, _, part = name.partition(".")
        if not part:
            cluster = replace(cluster, **{name: getattr(cluster, name) * exp(max(-2.0, min(2.0, float(shift))))})
            continue
        old: Tier = getattr(cluster, tier)
        factor = exp(max(-12.0, min(12.0, float(shift))))
        if part == "latency":
            new = replace(old, latency=min(3600.0, old.latency * factor))
        else:
            rate = min(RATE, old.rate * factor)
            new = Tier(old.latency, max(old.bandwidth, rate), min(1.0, rate / max(old.bandwidth, rate)))
        cluster = replace(cluster, **{tier: new})  # type: ignore[arg-type]
    return cluster


def _timed(runs: Sequence[Seen], workload: Workload) -> Workload:
    """The workload with the seconds that members were seen to compute, at the batches they had; the update is in it.
    A noise scale that was seen is the critical batch of its goal."""
    times: dict[int, list[float]] = {}
    for run in runs:
        times.setdefault(round(run.batch), []).append(run.compute)
    noises = sorted(run.noise for run in runs if run.noise is not None)
    if noises and workload.goal is not None:
        workload = workload.noisy(noises[len(noises) // 2])
    return replace(workload.timed({batch: mean(found) for batch, found in times.items()}), update=0.0)


def _shaped(cluster: Cluster, run: Seen) -> Cluster:
    """The cluster with as many members a host as the run had."""
    per_host = max(run.hosts)
    return replace(cluster, hosts=max(cluster.hosts, len(run.hosts)), per_host=per_host)
