"""Simulated bytes are the bytes that leave in a rehearsal, which are those of a real run (`tests/parity`).

Both players of the simulator end as a rehearsal does, when all members together have done workers x steps; what those
that are ahead have sent of steps that nobody finished counts in both.
"""

from __future__ import annotations

from dataclasses import replace
from math import ceil, floor

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from tests.laws import tiny
from tests.laws.arbitrary import steady, strategies
from tests.texts import small

from gossamer.parts.refusal import Refused
from gossamer.parts.selection import Tag
from gossamer.parts.world import World
from gossamer.recipes import Optimizer
from gossamer.records.summary import bytes_sent_per_member
from gossamer.replica import Layout
from gossamer.sim import Machines, Outcome, Plan
from gossamer.sim.cluster import Cluster, Tier
from gossamer.sim.rehearse import rehearse
from gossamer.sim.scene import Played
from gossamer.sim.simulate import play, staged
from gossamer.sim.workload import Workload
from gossamer.strategy import CATALOG, AnyStrategy, parse, slots
from gossamer.strategy.describe import loads

LATENCY, RATE, COMPUTE, STEPS = 1e-3, 1e5, 0.01, 12
TASK = tiny.task()
TAGS = tuple(Layout(TASK.model).tags)
NAMES = [entry.name for entry in CATALOG]
SOONER = {"diloco": "every=6", "sparknet": "every=6", "bmuf": "every=7", "post_local_sgd": "switch=9, every=4"}


def outcome_of(strategy: AnyStrategy, workers: int, steps: int = STEPS, rate: float = RATE) -> Outcome:
    machines = Machines((COMPUTE,), rate, LATENCY)
    return rehearse(Plan(TASK, strategy, World(workers, 3), Optimizer(rate=0.01), 2, steps, machines))


def rehearsed_seconds(strategy: AnyStrategy, workers: int, rate: float = RATE) -> float:
    """When all had done their steps."""
    return outcome_of(strategy, workers, rate=rate).seconds


def simulated_seconds(strategy: AnyStrategy, workers: int, rate: float = RATE) -> float:
    return played(strategy, workers, rate=rate).ends[-1]


def rehearsed(strategy: AnyStrategy, workers: int, steps: int = STEPS) -> float:
    """Bytes out of all members, counted where they leave."""
    outcome = outcome_of(strategy, workers, steps)
    return workers * bytes_sent_per_member([*outcome.steps, *outcome.events], workers)


def played(
    strategy: AnyStrategy, workers: int, steps: int = STEPS, tags: tuple[Tag, ...] = TAGS, rate: float = RATE
) -> Played:
    """The same strategy, simulated; where there is a hub, it is one machine, as in a rehearsal."""
    workload = Workload(tags, (1.0,) * len(tags), (2,), (COMPUTE,), forward=1.0)
    cluster = Cluster(workers, 1, None, Tier(LATENCY, rate), jitter=0.0, writing=1e18, reading=1e18)
    servers = int(any(ex.hub for ex in slots(strategy)))
    return play(staged(strategy, cluster, workload, workers, seed=3, servers=servers), steps)


def simulated(strategy: AnyStrategy, workers: int, steps: int = STEPS, tags: tuple[Tag, ...] = TAGS) -> float:
    return workers * sum(played(strategy, workers, steps, tags).sent.values())


def bounds(strategy: AnyStrategy, workers: int, steps: int = STEPS) -> tuple[float, float]:
    """Fewest and most bytes that all members can have sent, from what codecs say of their wires."""
    found = loads(strategy, World(workers, 3), TAGS)
    times = [steps / load.exchange.synchrony.every for load in found]
    low = sum(floor(n) * (load.sent.low - 0.5) for n, load in zip(times, found, strict=True))
    return workers * low, workers * sum(ceil(n) * (load.sent.high + 0.5) for n, load in zip(times, found, strict=True))


def fixed(strategy: AnyStrategy) -> bool:
    """Whether no wire depends on the numbers in it."""
    return all(wire.low == wire.high for ex in slots(strategy) for wire in ex.wire_bytes(TAGS))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("workers", [4, 5])
def test_simulated_bytes_are_those_of_a_rehearsal(name: str, workers: int) -> None:
    strategy = parse(small(f"{name}({SOONER.get(name, '')})"))
    try:
        found = simulated(strategy, workers)
    except Refused:
        assert name in ("two_levels", "gossip_hosts") and workers == 5, "hosts of two are not filled by five"
        return
    sent = rehearsed(strategy, workers)
    if fixed(strategy):
        assert found == pytest.approx(sent, rel=1e-12)
    else:
        low, high = bounds(strategy, workers)
        assert low <= found <= high and low <= sent <= high
    assert sent > 0


def speaks_later(strategy: AnyStrategy) -> bool:
    """Whether something is said only when a delay is over: the simulator counts it with what was said first."""
    return any(ex.synchrony.delay and len(ex.wire_bytes(TAGS)) > 1 for ex in slots(strategy))


@settings(steady, max_examples=50)
@given(strategies(), st.sampled_from((2, 4)))
def test_so_are_those_of_any_strategy(strategy: AnyStrategy | Refused, workers: int) -> None:
    assume(not isinstance(strategy, Refused) and fixed(strategy) and not speaks_later(strategy))
    assert not isinstance(strategy, Refused)
    try:
        sent = rehearsed(strategy, workers, 4)
    except Refused:
        return
    assert simulated(strategy, workers, 4) == pytest.approx(sent, rel=1e-12)


@pytest.mark.parametrize("name", ["allreduce", "hogwild", "gossip_pull", "dpsgd", "easgd", "qsgd", "gossip_hosts"])
def test_one_number_more_is_told_apart(name: str) -> None:
    strategy = parse(small(name))
    longer = (replace(TAGS[0], shape=(TAGS[0].shape[0] + 1, *TAGS[0].shape[1:])), *TAGS[1:])
    sent = rehearsed(strategy, 4)
    assert simulated(strategy, 4) == pytest.approx(sent, rel=1e-12)
    assert simulated(strategy, 4, tags=longer) != pytest.approx(sent, rel=1e-3)
