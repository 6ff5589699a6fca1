"""Links are shared: whatever a strategy does, no member sends or hears faster than its link's rate."""

from __future__ import annotations

from collections import Counter

import pytest
from tests.parity import small

from gossamer.parts.world import World
from gossamer.recipes import Optimizer
from gossamer.sim import Machines, Outcome, Plan
from gossamer.sim.links import Lane, Links
from gossamer.sim.rehearse import rehearse
from gossamer.strategy import parse

NARROW = Machines(compute=(1e-4,), rate=1e5, latency=1e-4)  # links are all that matters
NBYTES = 57 * 8  # the small task's parameters, float64
STEPS = 60


def run(expression: str, size: int = 4, machines: Machines = NARROW) -> Outcome:
    return rehearse(Plan(small.task(), parse(expression), World(size), Optimizer(rate=0.01), 5, STEPS, machines))


def busiest(outcome: Outcome, what: str) -> int:
    total: Counter[int] = Counter()
    for record in outcome.steps:
        total[record.member] += sum(getattr(record, what).values())
    return max(total.values())


@pytest.mark.parametrize(
    ("expression", "in_flight"),
    [
        ("allreduce(ring)", 0),
        ("Exchange(synchrony=Synchrony(delay=1))", 1),
        ("Exchange(synchrony=Synchrony(delay=10))", 10),
        ("Exchange(codec=TopK(keep=0.5), synchrony=Synchrony(delay=4))", 4),
        ("Exchange(topology=Hub(), synchrony=Synchrony(delay=5))", 5),
        ("Exchange(PARAMETERS, topology=Cycle())", 0),
        ("Exchange(PARAMETERS, topology=Cycle(), synchrony=Synchrony(every=3, delay=2))", 1),
        ("sgp()", 0),
        ("gossip_pull(pulls=3)", 3),
        ("downpour()", 1),
        ("ssp(3)", 1),
    ],
)
def test_nobody_beats_the_rate_of_its_link(expression: str, in_flight: int) -> None:
    outcome = run(expression)
    for what in ("sent", "heard"):
        carried = busiest(outcome, what)
        assert carried > 0
        slack = 2 * in_flight * 3 * NBYTES  # sent and not yet through when the run ended
        assert carried - slack <= NARROW.rate * outcome.seconds * (1 + 1e-9), what


def test_a_delay_hides_compute_and_never_bandwidth() -> None:
    ring = 2 * 3 / 4 * NBYTES / NARROW.rate
    for delay in (1, 5, 20):
        seconds = run(f"Exchange(route=Ring(), synchrony=Synchrony(delay={delay}))").seconds
        assert (STEPS - delay) * ring <= seconds <= (STEPS + 1) * (ring + 7e-4)


def test_who_is_pulled_by_many_serves_them_one_after_the_other() -> None:
    """A partner's way out is one lane: n simultaneous pulls from it take n transfers."""
    links = Links(NARROW)
    heard = [links.carry(0, puller, NBYTES, 0.0) for puller in (1, 2, 3)]
    assert heard == pytest.approx([k * NBYTES / 1e5 + 1e-4 for k in (1, 2, 3)])


def test_who_is_told_by_many_hears_them_one_after_the_other() -> None:
    links = Links(NARROW)
    heard = [links.carry(teller, 0, NBYTES, 0.0) for teller in (1, 2, 3)]
    assert heard == pytest.approx([k * NBYTES / 1e5 + 1e-4 for k in (1, 2, 3)])


def test_a_free_lane_is_taken_at_once_and_a_busy_one_later() -> None:
    lane = Lane()
    assert [lane.take(1.0, 2.0), lane.take(1.5, 1.0), lane.take(9.0, 1.0)] == [3.0, 4.0, 10.0]


def test_a_light_push_costs_less_than_the_heavy_answer() -> None:
    light = run("Exchange(topology=Hub(), codec=ErrorFeedback(TopK(keep=0.05)))", 1).steps[0].spans
    places = 3  # one element of each of the small task's tensors is kept at least
    assert light["send"] < 2 * 1e-4 + 1.5 * NBYTES / 1e5
    assert light["send"] > 2 * 1e-4 + NBYTES / 1e5 + places * 8 / 1e5 - 1e-12
