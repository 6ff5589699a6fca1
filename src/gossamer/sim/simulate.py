"""The simulator: the strategy that trains, timed on a described or measured cluster. Knows no strategy by name."""

from __future__ import annotations

from dataclasses import replace
from math import lcm, log

from gossamer.parts.refusal import Refused, real, whole
from gossamer.parts.trouble import Script
from gossamer.parts.world import World
from gossamer.sim.cluster import CODING, MODEL, Cluster, Tier
from gossamer.sim.forecast import Forecast, around, goodput, samples, slope
from gossamer.sim.freely import Freely
from gossamer.sim.lockstep import Lockstep, in_step
from gossamer.sim.scene import LIKELY, Played, Scene
from gossamer.sim.workload import Workload
from gossamer.strategy import AnyStrategy, Exchange, Staged, Strategy, as_strategy, fits, parse, slots
from gossamer.strategy.suits import suits

STEPS = 100
FEW = 64  # members with whom it is tried how a time follows a parameter, where members go on without each other,
MANY = 10**6  # or where all of them would do so many steps together
NUDGE = 1.25  # by how much a parameter is changed for that
LONGEST = 10**5  # steps between two exchanges: rarer ones are never played


def simulate(
    strategy: str | Exchange | AnyStrategy,
    cluster: Cluster | str,
    workload: Workload | str,
    workers: int,
    *,
    batch: float | None = None,
    steps: int = STEPS,
    seed: int = 0,
    trouble: Script = Script(),
    servers: int = 0,
    early: bool = False,
    bucket: int | None = None,
    shards: int | None = None,
    drawn: int = 0,
    interval: bool = True,
) -> Forecast:
    """Time so many workers on a cluster; `batch` is the global one, or each has the largest that was measured.

    Of a strategy that is followed by another, the figures are of the one that lasts; the first counts in the time to
    the goal.
    `drawn` steps leave their spans, for whoever draws them. Without `interval` no parameter is tried out.
    """
    scene = staged(strategy, cluster, workload, workers, batch=batch, seed=seed, trouble=trouble, servers=servers)
    whole("simulate", "steps", steps, 1, 10**6)
    for name, count, most in (("bucket", bucket, 10**12), ("shards", shards, workers)):
        if count is not None:
            whole("simulate", name, count, 1, most)
    whole_strategy = scene.strategy
    scene = replace(scene, early=early, bucket=bucket, shards=shards, strategy=lasting(whole_strategy))
    played = play(scene, enough(scene.strategy, steps), drawn)
    seconds = pace(scene, played)
    extrapolation = workers / max(1, scene.cluster.measured)
    few = enough(scene.strategy, min(steps, 20))
    slopes, ends = (_slopes(scene, few), _ends(scene, few)) if interval else ({}, (0.0, 0.0))
    stretched = scene.workload.beyond(scene.batch)
    step = around(seconds, slopes, scene.cluster, extrapolation, stretched, ends)
    total = scene.batch * workers
    good, done = goodput(scene.cluster, scene.roads.used), max(1, len(played.ends))
    goal = None
    if scene.workload.goal is not None and seconds and good and not played.stopped:
        needed = samples(scene.workload.goal, scene.strategy, scene.world, scene.workload.tags, total, played.stale)
        goal = step.times(needed / total / good).plus(_before(scene, whole_strategy, seconds, needed / total) / good)
    return Forecast(
        repr(whole_strategy), workers, total, step, scene.compute + scene.update, played.exposed / done,
        sum(played.sent.values()) / done, played.answered / done, played.stale, extrapolation, stretched, good, goal,
        played.stopped, played,
    )  # fmt: skip


def lasting(strategy: AnyStrategy) -> AnyStrategy:
    """What is in force in the long run."""
    return strategy.then if isinstance(strategy, Staged) else strategy


def _before(scene: Scene, strategy: AnyStrategy, seconds: float, steps: float) -> float:
    """Seconds more, or less, that the steps before another strategy comes into force take."""
    if not isinstance(strategy, Staged):
        return 0.0
    first = replace(scene, strategy=strategy.first)
    return min(strategy.step, steps) * (pace(first, play(first, enough(strategy.first, STEPS))) - seconds)


def staged(
    strategy: str | Exchange | AnyStrategy,
    cluster: Cluster | str,
    workload: Workload | str,
    workers: int,
    *,
    batch: float | None = None,
    seed: int = 0,
    trouble: Script = Script(),
    servers: int = 0,
) -> Scene:
    """What is to be timed, refused where it cannot be played."""
    chosen = parse(strategy) if isinstance(strategy, str) else as_strategy(strategy)
    cluster = Cluster.load(cluster) if isinstance(cluster, str) else cluster
    workload = Workload.load(workload) if isinstance(workload, str) else workload
    world = World(workers, seed)
    whole("simulate", "servers", servers, 0, 2**20)
    if batch is not None:
        real("simulate", "batch", batch, 0.0, 1e18, open_low=True)
    cluster.used(workers)
    fits(chosen, world, servers)
    suits(chosen, workload.tags)
    trouble.fits(workers)
    local = float(workload.batches[-1]) if batch is None else batch / workers
    real("simulate", "samples of a worker", local, 0.0, 1e12, open_low=True)
    if local < 1:
        raise Refused(f"a batch of {batch:g} leaves {workers:,} workers less than a sample each", f"{workers} or more")
    return Scene(chosen, cluster, workload, world, local, trouble, servers)


def play(scene: Scene, steps: int, drawn: int = 0) -> Played:
    """Time so many steps, by whichever player can."""
    hubs = any(ex.hub for ex in slots(scene.strategy))
    deaths = any(line.fatal(line.worst_rank(), steps) for line in scene.trouble.lines)
    together = in_step(scene.strategy, scene.world.size) and not (hubs and deaths)  # hubs go on without who is gone
    return (Lockstep if together else Freely)(scene).run(steps, drawn)


def period(strategy: AnyStrategy) -> int:
    """After how many steps all exchanges are due together again."""
    return lcm(*(ex.synchrony.every for ex in slots(strategy)))


def enough(strategy: AnyStrategy, steps: int) -> int:
    """So many steps, or as many more as it takes to see whole periods, and one when the first few are left out."""
    often = period(strategy)
    often = often if often <= LONGEST else max(ex.synchrony.every for ex in slots(strategy))
    if often > LONGEST:
        raise Refused(f"simulate: nothing is exchanged in {LONGEST:,} steps; every={often:,}", f"every={LONGEST}")
    return steps if often == 1 else -(-max(steps, often + often // 4 + 1) // often) * often


def pace(scene: Scene, played: Played) -> float:
    """Seconds of a step in the long run: the first few are left out, and whole periods are counted."""
    ends = played.ends
    if not ends:
        return 0.0
    often = period(scene.strategy)
    counted = len(ends) - max(1, len(ends) // 5)
    counted -= counted % often if counted >= often else 0
    if counted < 1 or counted >= len(ends):
        return ends[-1] / len(ends)
    return (ends[-1] - ends[-1 - counted]) / counted


def _slopes(scene: Scene, steps: int) -> dict[str, float]:
    """How seconds of a step follow each parameter that one is unsure of."""
    scene = _tried(scene, steps)
    base = pace(scene, play(scene, steps))
    found = {}
    coded = any(cargo.write or cargo.read for cargo in scene.cargoes)
    for name in (each for each in scene.cluster.spread if each != MODEL and (coded or each not in CODING)):
        factor, other = _other(scene.cluster, name)
        if other is not None:
            found[name] = slope(base, pace(scene, play(replace(scene, cluster=other), steps)), factor)
    return found


def _ends(scene: Scene, steps: int) -> tuple[float, float]:
    """By how much the logarithm of a step is less with the shortest wires that a codec may write, and more with the
    longest; none of either where wires are all of one length."""
    if all(cargo.steady for cargo in scene.cargoes):
        return 0.0, 0.0
    scene = _tried(scene, steps)
    low, likely, high = (
        pace(each, play(each, steps)) for each in (replace(scene, bound=bound) for bound in ("low", LIKELY, "high"))
    )
    return max(0.0, log(likely / low)), max(0.0, log(high / likely))


def _tried(scene: Scene, steps: int) -> Scene:
    """The same, or what can be played several times instead."""
    many = not in_step(scene.strategy, scene.world.size) or scene.world.size * steps > MANY
    return _smaller(scene) if many and scene.world.size > FEW else scene


def _other(cluster: Cluster, name: str) -> tuple[float, Cluster | None]:
    """The cluster with one parameter larger, or smaller where it is as large as may be; and by which factor."""
    try:
        return NUDGE, nudged(cluster, name, NUDGE)
    except Refused:
        return 1 / NUDGE, nudged(cluster, name, 1 / NUDGE)


def _smaller(scene: Scene) -> Scene:
    """The same with fewer members, as many a host and for each of them as many shards of hubs and as large a share that
    closes a round, if it can be played so; who is in trouble among the others counts for little."""
    size, per_host = scene.world.size, scene.cluster.per_host
    few = max(FEW, size // (scene.servers or size), size // (scene.shards or size))
    world = World(min(size, max(2, -(-few // per_host)) * per_host), scene.world.seed)
    share = world.size / size
    servers = scene.servers and max(1, round(scene.servers * share))
    shards = scene.shards and max(1, round(scene.shards * share))
    try:
        strategy = Strategy(tuple(_closing(ex, share) for ex in slots(scene.strategy)))
        fits(strategy, world, servers)
    except Refused:
        return scene
    trouble = scene.trouble.among(world.size)
    return replace(scene, strategy=strategy, world=world, trouble=trouble, servers=servers, shards=shards)


def _closing(ex: Exchange, share: float) -> Exchange:
    """The same, of a share of the members."""
    quorum = ex.synchrony.quorum
    if not isinstance(quorum, int):
        return ex
    return replace(ex, synchrony=replace(ex.synchrony, quorum=max(1, round(quorum * share))))


def nudged(cluster: Cluster, name: str, factor: float) -> Cluster | None:
    """The cluster with one parameter multiplied; None where it has none of that name."""
    tier, _, part = name.partition(".")
    if not part:
        return replace(cluster, **{name: getattr(cluster, name) * factor}) if getattr(cluster, name) else None
    found: Tier | None = getattr(cluster, tier)
    if found is None:
        return None
    if part == "latency":
        return replace(cluster, **{tier: replace(found, latency=found.latency * factor)})  # type: ignore[arg-type]
    return replace(cluster, **{tier: replace(found, bandwidth=found.bandwidth * factor)})  # type: ignore[arg-type]
