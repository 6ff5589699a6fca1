"""What every simulation keeps: the same again from the same seed, no gain from worse links, machines or neighbours, and
intervals that hold their value.

In step that is exact, step by step. Where members go on without each other and push to a hub, the first to come is
served first, and a delay can be a gain of a thousandth: who comes later may find a way free that it would have queued
for.
"""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.laws.arbitrary import steady, strategies
from tests.sim.two_players import WORK, cluster

from gossamer.parts.refusal import Refused
from gossamer.parts.trouble import Script, Slow
from gossamer.sim.cluster import Cluster, Tier
from gossamer.sim.lockstep import in_step
from gossamer.sim.scene import Played
from gossamer.sim.simulate import play, simulate, staged
from gossamer.strategy import CATALOG, AnyStrategy, parse

SIZE, STEPS = 8, 8
FREE = [entry.name for entry in CATALOG if not in_step(entry.make())]
SOME = ["allreduce", "parameter_server", "dpsgd", "osgp", "gossip_hosts", "powersgd", "local_sgd(every=3)"]
SLOW = Script((Slow(rank=2, factor=2.0),))
FIRST_COME = 0.003  # what a delay gains at most, by chance, where the first to come is served first


def timed(
    strategy: AnyStrategy, given: Cluster, trouble: Script = Script(), steps: int = STEPS, seed: int = 0
) -> Played:
    return play(staged(strategy, given, WORK, SIZE, seed=seed, trouble=trouble), steps)


def worse(given: Cluster, what: str, factor: float) -> Cluster:
    """The cluster with something worse about it."""
    assert given.inside is not None and given.across is not None
    if what == "jitter":
        return replace(given, jitter=given.jitter * factor)
    if what == "latency":
        tiers = [replace(tier, latency=tier.latency * factor) for tier in (given.inside, given.across)]
    else:
        tiers = [replace(tier, bandwidth=tier.bandwidth / factor) for tier in (given.inside, given.across)]
    return replace(given, inside=tiers[0], across=tiers[1])


@settings(steady, max_examples=40)
@given(
    strategies(), st.sampled_from((1, 4)), st.sampled_from(("bandwidth", "latency", "jitter")), st.floats(1.0, 30.0),
    st.integers(0, 9),
)  # fmt: skip
def test_nothing_worse_makes_a_step_in_lockstep_faster(
    strategy: AnyStrategy | Refused, per_host: int, what: str, factor: float, seed: int
) -> None:
    if isinstance(strategy, Refused) or not in_step(strategy):
        return
    try:
        one = timed(strategy, cluster(per_host), seed=seed)
    except Refused:
        return
    other = timed(strategy, worse(cluster(per_host), what, factor), seed=seed)
    slower = timed(strategy, cluster(per_host), SLOW, seed=seed)
    for found in (other, slower):
        assert all(b >= a * (1 - 1e-12) for a, b in zip(one.ends, found.ends, strict=True))


@pytest.mark.parametrize("what", ["bandwidth", "latency", "jitter", "slow"])
@pytest.mark.parametrize("name", FREE)
def test_nothing_worse_makes_the_free_faster(name: str, what: str) -> None:
    """But for the way to a hub that others leave free."""
    strategy, given = parse(name), cluster(1, 0.05)
    one = timed(strategy, given, steps=40).ends[-1]
    for factor in (1.1, 2.0, 10.0):
        trouble = Script((Slow(rank=2, factor=factor),)) if what == "slow" else Script()
        other = timed(strategy, given if what == "slow" else worse(given, what, factor), trouble, steps=40).ends[-1]
        assert other >= (1 - FIRST_COME) * one, (name, what, factor)
    assert other > one or (name, what) == ("gossip_push", "latency"), "ten times worse is felt by who waits for it"


@pytest.mark.parametrize("name", [*SOME, *FREE])
def test_the_same_seed_gives_the_same_and_another_does_not(name: str) -> None:
    strategy, given = parse(name), cluster(4)
    one, two = timed(strategy, given), timed(strategy, given)
    assert (one.ends, one.sent, one.exposed, one.stale) == (two.ends, two.sent, two.exposed, two.stale)
    assert timed(strategy, given, seed=1).ends != one.ends


PROGRAM = """
import sys
from gossamer.sim.simulate import simulate
for name in ("allreduce", "hogwild", "gossip_pull", "sgp"):
    print(simulate(name, "a100-pod", "resnet50", 64, steps=20, seed=3).played.ends)
print(sorted(name for name in sys.modules if name.split(".")[0] == "torch")[:3])
"""
LARGE = """
from pathlib import Path
from gossamer.sim.cluster import Cluster, Tier
from gossamer.sim.simulate import simulate
many = Cluster(8192, 8, Tier(1e-6, 1e11), Tier(1e-5, 1e10))
for name in ("allreduce", "hogwild", "sgp"):
    simulate(name, many, "resnet50", 65536, steps=2, interval=False)
status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
print(status["VmHWM"].split()[0])  # of this program alone; getrusage remembers whoever started it
"""


def run(program: str, hashes: str = "0") -> str:
    environment = {**os.environ, "PYTHONHASHSEED": hashes, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    return subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True
    ).stdout


def test_a_fresh_process_says_the_same_to_the_bit_and_loads_no_torch() -> None:
    lines = run(PROGRAM, "1").splitlines()
    assert lines == run(PROGRAM, "2").splitlines()
    for name, line in zip(("allreduce", "hogwild", "gossip_pull", "sgp"), lines, strict=False):
        assert repr(simulate(name, "a100-pod", "resnet50", 64, steps=20, seed=3).played.ends) == line
    assert lines[-1] == "[]"


def test_65536_members_fit_into_a_gigabyte() -> None:
    assert int(run(LARGE)) < 1e6  # kilobytes


@settings(steady, max_examples=40)
@given(st.sampled_from([*SOME, *FREE]), st.integers(1, 8), st.floats(0.0, 0.2))
def test_an_interval_holds_its_value_and_efficiency_is_a_share(name: str, hosts: int, jitter: float) -> None:
    forecast = simulate(parse(name), cluster(4, jitter), WORK, 4 * hosts, steps=8)
    assert 0 < forecast.step.low < forecast.step.value < forecast.step.high
    assert 0 < forecast.efficiency <= 1 + 1e-12
    assert forecast.exposed >= 0 and forecast.sent >= 0


def test_an_interval_widens_with_extrapolation_and_with_doubt() -> None:
    def width(workers: int, **other: object) -> float:
        given = replace(cluster(), hosts=1024, **other)  # type: ignore[arg-type]
        step = simulate("allreduce", given, WORK, workers, steps=4).step
        return step.high / step.low

    widths = [width(n, measured=4) for n in (4, 16, 64, 1024)]
    assert widths == sorted(widths) and widths[0] < widths[-1]
    sure, unsure = ({"across.rate": spread} for spread in (0.01, 1.0))
    assert width(64, spread=sure) < width(64, spread=unsure)
    assert width(64, measured=64) < width(64, measured=0)


@pytest.mark.parametrize("every", [2, 7, 8, 25, 64, 300])
def test_rare_exchanges_are_timed_and_doubted_like_often_ones(every: int) -> None:
    """A run of few steps is as long as it takes to see them, and bytes are those of whole periods."""
    given = replace(cluster(1, 0.0), spread={"across.rate": 1.0}, measured=16)
    always, found = (simulate(f"local_sgd(every={n})", given, WORK, 4, steps=20) for n in (1, every))
    waits = always.step.value - always.alone
    assert found.sent == pytest.approx(always.sent / every, rel=1e-12)
    assert found.step.value == pytest.approx(always.alone + waits / every, rel=1e-9)
    assert found.exposed == pytest.approx(waits / every, rel=1e-9)
    less = simulate("local_sgd(every=300)", given, WORK, 4, steps=20)
    assert less.step.high / less.step.low <= found.step.high / found.step.low <= always.step.high / always.step.low
    sure = simulate(f"local_sgd(every={every})", replace(given, spread={"across.rate": 0.0}), WORK, 4, steps=20)
    assert sure.step.high / sure.step.low < found.step.high / found.step.low


def test_what_is_never_exchanged_is_refused() -> None:
    with pytest.raises(Refused, match="nothing is exchanged"):
        simulate("local_sgd(every=1000000)", cluster(), WORK, 4)


def test_a_parameter_as_large_as_may_be_is_tried_smaller() -> None:
    given = replace(cluster(1, 10.0), speed=1e9, across=Tier(3600.0, 1e16))
    step = simulate("allreduce", given, WORK, 4, steps=4).step
    assert step.low < step.value < step.high


@pytest.mark.parametrize("asked", [{"bucket": 0}, {"bucket": -1}, {"shards": 0}, {"shards": 5}, {"servers": -1},
                                   {"servers": 1.5}, {"batch": "8"}, {"batch": float("nan")}])  # fmt: skip
def test_what_cannot_be_is_refused(asked: dict[str, object]) -> None:
    with pytest.raises(Refused, match=next(iter(asked))):
        simulate("parameter_server", cluster(), WORK, 4, steps=2, **asked)  # type: ignore[arg-type]


def test_a_hub_of_one_member_is_told_over_no_link() -> None:
    quick, slow = (replace(cluster(4, 0.0), inside=Tier(0.0, rate)) for rate in (1e12, 1e6))
    assert (
        simulate("hogwild", slow, WORK, 1, steps=4).step.value
        == simulate("hogwild", quick, WORK, 1, steps=4).step.value
    )


def test_a_law_that_is_broken_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """A link that is quicker the less it is given would pass none of this."""
    strategy, given = parse("allreduce(ring)"), cluster()
    monkeypatch.setattr(Tier, "rate", property(lambda tier: 1e18 / tier.bandwidth))
    quicker = timed(strategy, worse(given, "bandwidth", 2.0)).ends[-1]
    assert quicker < timed(strategy, given).ends[-1]
