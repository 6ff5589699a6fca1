"""What follows from a step's seconds: goodput, samples until a goal, intervals, and what must be said first."""

from __future__ import annotations

from dataclasses import replace
from math import exp, log

import pytest
from tests.sim.two_players import WORK, cluster

from gossamer.parts.refusal import Refused
from gossamer.parts.selection import Tag
from gossamer.parts.trouble import Script, Slow
from gossamer.parts.world import World
from gossamer.sim.cluster import Cluster, Tier
from gossamer.sim.forecast import DAY, goodput, samples
from gossamer.sim.simulate import simulate, staged
from gossamer.sim.workload import Goal, Workload
from gossamer.strategy import parse, slots
from gossamer.strategy.describe import joint_gap, spectral_gap

GOAL = Goal(1e6, 1000.0)
TAGS = (Tag("weight", (64, 64)), Tag("bias", (64,)))


def test_restarts_from_checkpoints_cost_a_fifth_of_2048_hosts() -> None:
    """A2.5: C = 20 s, R = 10 min and a failure every 1.8 h lose 20 %, with checkpoints every sqrt(2 C M) less."""
    machines = Cluster(4096, 1, None, Tier(1e-5, 1e9), failures=1000 * DAY / (1.8 * 3600 * 2048), save=20.0)
    between, every = 1.8 * 3600, (2 * 20 * 1.8 * 3600) ** 0.5
    assert goodput(machines, 2048) == pytest.approx(1 - 20 / every - (every / 2 + 600) / between)
    assert 1 - (20 / 1200 + (600 + 600) / between) == pytest.approx(0.8, abs=0.003)
    assert goodput(machines, 2048) > 0.8 > goodput(machines, 4096) and goodput(replace(machines, failures=0.0), 9) == 1


def test_machines_that_only_fail_never_reach_a_goal_and_that_is_said() -> None:
    work = replace(WORK, goal=GOAL)
    frail = Cluster(65536, 1, None, Tier(1e-5, 1e10))
    found = simulate("allreduce", frail, work, 65536, steps=2)
    assert found.goodput == 0 and found.goal is None and found.hopeless is not None and "fail" in found.hopeless
    sound = simulate("allreduce", replace(frail, failures=0.0), work, 65536, steps=2)
    assert sound.goal is not None and sound.hopeless is None


def needed(text: str, workers: int = 64) -> float:
    return samples(GOAL, parse(text), World(workers), TAGS, 1000.0, 0.0) / samples(
        GOAL, parse("allreduce"), World(workers), TAGS, 1000.0, 0.0
    )


@pytest.mark.parametrize(
    "text",
    [
        "two_levels",
        "Exchange(payload=PARAMETERS, topology=Inside(4)) + Exchange(payload=PARAMETERS, topology=Masters(per_host=4, "
        "among=Complete())) + Exchange(payload=PARAMETERS, topology=Follow(4))",
        "one_bit",
        "Exchange(where=Matrices(), topology=Hub()) + Exchange(where=Except(but=Matrices()))",
    ],
)
def test_who_agrees_in_the_end_needs_no_more_samples(text: str) -> None:
    """However many exchanges it takes: a mean inside hosts, of masters, and back is a mean of all."""
    assert needed(text) == 1.0


def test_gossip_needs_more_the_slower_it_mixes() -> None:
    assert 1.0 == needed("sgp") < needed("gossip_pull") < needed("dpsgd") <= 2.0
    assert needed("gossip_hosts", 8) < needed("Exchange(payload=PARAMETERS, topology=Inside(2))", 8) == 2.0
    assert needed("dpsgd") == 2.0 and needed("gossip_pga") < 1.2, "now and then all agree"
    aside = "Exchange(where=Matrices()) + Exchange(payload=PARAMETERS, where=Except(but=Matrices()), topology=Cycle())"
    assert needed(aside) == needed("dpsgd"), "the tensor that mixes worst counts"


def test_a_gap_of_several_is_that_of_their_product() -> None:
    world, twice = World(8), slots(parse("dpsgd + dpsgd"))
    alone = spectral_gap(twice[0].topology, world, 0)
    assert alone is not None
    assert joint_gap(dict(enumerate(twice)), world) == pytest.approx(1 - (1 - alone) ** 2)
    assert joint_gap({0: twice[0]}, world) == alone and joint_gap({}, world) == 1.0


def test_a_batch_far_from_any_that_was_measured_is_warned_of() -> None:
    def far(batch: float) -> tuple[str | None, float]:
        found = simulate("allreduce", replace(cluster(), measured=16), work, 4, batch=4 * batch, steps=4)
        return found.warning, log(found.step.high / found.step.value)

    work = replace(WORK, batches=(8, 16), seconds=(1e-3, 1.5e-3))
    near, at, beyond = far(4.0), far(12.0), far(16000.0)
    assert near[0] is None and at[0] is None and at[1] < near[1] < beyond[1]
    assert beyond[0] is not None and beyond[0].startswith("16,000 samples a worker are 1,000 times off any")


def test_seconds_of_batches_do_not_fall() -> None:
    with pytest.raises(Refused, match="seconds do not fall"):
        replace(WORK, batches=(8, 16), seconds=(0.11, 0.1))
    seen = WORK.timed({16: 0.1, 8: 0.11, 32: 0.2})
    assert (seen.batches, seen.seconds) == ((8, 16, 32), (0.11, 0.11, 0.2))
    steep = replace(WORK, batches=(8, 16), seconds=(0.1, 0.3))
    assert steep.compute(2) == pytest.approx(0.025), "a small batch is no quicker, sample by sample"


def test_wires_of_any_length_are_in_the_interval() -> None:
    """Half of the logarithm to the shortest and to the longest; wires of one length add nothing."""
    still = replace(cluster(1, 0.0), spread={"model": 0.01}, measured=16)
    found = simulate("strom", still, WORK, 8, steps=4)
    scene = staged("strom", still, WORK, 8)
    (matrices, *_) = scene.cargoes
    longest = replace(scene, bound="high").cargoes[0]
    assert longest.nbytes > 100 * matrices.nbytes and not matrices.steady
    assert found.step.high / found.step.value > 1.2 > found.step.value / found.step.low
    fixed = simulate("dgc(density=0.01)", still, WORK, 8, steps=4).step
    assert fixed.high / fixed.value < exp(1.645 * 0.011) * 1.02


def test_codecs_are_as_sure_as_their_rates() -> None:
    def width(text: str, doubt: float) -> float:
        unsure = replace(cluster(1, 0.0, writing=1e8, reading=1e8), spread={"writing": doubt}, measured=16)
        step = simulate(text, unsure, WORK, 8, steps=4).step
        return step.high / step.value

    assert width("one_bit", 0.7) > 1.05 * width("one_bit", 0.0) and width("allreduce", 0.7) == width("allreduce", 0.0)


@pytest.mark.parametrize("servers", [4, 64, 256])
def test_a_hub_that_sets_the_pace_is_in_the_interval_of_many_workers(servers: int) -> None:
    """Where links of servers are all that counts, a step is as unsure as they are, however many are tried out."""
    bound = replace(Workload.load("resnet50"), batches=(1,), seconds=(1e-6,), update=0.0)
    given = Cluster(1024, 1, None, Tier(0.0, 1e9), jitter=0.0, spread={"across.rate": 1.0, "model": 0.0}, measured=1024)
    step = simulate("hogwild", given, bound, 1024, servers=servers, steps=4).step
    assert step.high / step.value == pytest.approx(exp(1.645), rel=0.02)


def test_who_is_in_trouble_far_off_keeps_nobody_from_trying_few() -> None:
    slow = Script((Slow(rank=400, factor=2.0),))
    found = simulate("adpsgd", replace(cluster(), hosts=512), WORK, 512, trouble=slow, steps=2)
    assert found.step.low < found.step.value < found.step.high


def test_a_backend_goes_round_all_nics_and_a_ring_by_name_does_not() -> None:
    many, one = (replace(cluster(4, 0.0), nics=nics) for nics in (4, 1))
    for text, gains in (("allreduce(native)", True), ("one_bit", True), ("allreduce(ring)", False)):
        quick, slow = (simulate(text, given, WORK, 16, steps=4, interval=False).step.value for given in (many, one))
        assert (quick < 0.97 * slow) is gains and quick <= slow, text


def test_shards_on_all_workers_are_what_nobody_says() -> None:
    said, unsaid = (
        simulate("parameter_server", cluster(4), WORK, 16, shards=shards, interval=False).step for shards in (16, None)
    )
    assert said == unsaid
