"""What `show` works out without running: bytes equal those that leave in a rehearsal, gaps equal textbook formulas."""

from __future__ import annotations

from collections.abc import Callable
from math import cos, pi, prod, sqrt

import numpy
import pytest
from tests.texts import small

from gossamer import tasks
from gossamer.parts.codec import Size
from gossamer.parts.topology import (
    Complete,
    Cycle,
    Exponential,
    Graph,
    Hub,
    Masters,
    RandomPair,
    RandomPeer,
    RandomPush,
    Topology,
)
from gossamer.parts.world import World
from gossamer.recipes import Optimizer
from gossamer.records.summary import bytes_sent_per_member
from gossamer.replica import Layout
from gossamer.sim.machines import Machines
from gossamer.sim.rehearse import Plan, rehearse
from gossamer.strategy import CATALOG, describe, parse
from gossamer.strategy.describe import Load, loads, messages, period, spectral_gap, stand_in

STEPS = 32  # as many rounds as are looked at where partners are drawn


def sent_in_rehearsal(text: str, workers: int) -> float:
    """Bytes a member sent, counted where they left."""
    plan = Plan(
        task=tasks.build("digits", 0, {"hidden": 8}),
        strategy=parse(text),
        world=World(workers, 3),
        optimizer=Optimizer(rate=0.01),
        batch=1,
        steps=STEPS,
        machines=Machines(),
    )
    outcome = rehearse(plan)
    return bytes_sent_per_member([*outcome.steps, *outcome.events], workers)


def foretold(text: str, workers: int, per_step: Callable[[Load], float]) -> float:
    tags = Layout(tasks.build("digits", 0, {"hidden": 8}).model).tags
    return STEPS * sum(per_step(load) for load in loads(parse(text), World(workers, 3), tags))


COMPOSED = [
    "allreduce(ring)",
    "allreduce(torus)",
    "local_sgd(every=4)",
    "diloco(every=16)",
    "easgd(every=8)",
    "sparknet(every=16)",
    "bmuf(every=8)",
    "async_easgd(every=8)",
    "eamsgd(every=4)",
    "slowmo(every=8)",
    "gossip_pga(every=4)",
    "gossip_hosts(per_host=1)",
    "gossip_pull(pulls=2)",
    "Exchange(codec=Ternary())",
    "Exchange(codec=ErrorFeedback(codec=TopK(keep=0.1)))",
    "Exchange(codec=Half())",
    "Exchange(payload=PARAMETERS, topology=Cycle(), codec=Difference(codec=TopK(keep=0.2)))",
    "Exchange(payload=PARAMETERS, topology=Graph(edges=EDGES))",
    "Exchange(where=Dims(least=2), codec=DGC(density=0.1)) + Exchange(where=Dims(most=1))",
    *(f"allreduce({route})" for route in ("halving_doubling", "doubling", "binary_blocks", "sharded_hub", "direct")),
    "allreduce(hierarchical(per_host=3, among=doubling))",
    "allreduce(by_size(small=doubling, large=tree, limit=100))",
    "Exchange(where=Dims(least=2), route=BySize(limit=1000000)) + Exchange(where=Dims(most=1), route=BySize(limit=9))",
]
UNEVEN = {  # whose period does not divide STEPS, or which switch in between, with one that does
    "easgd", "diloco", "sparknet", "post_local_sgd", "bmuf", "async_easgd", "eamsgd", "slowmo", "gossip_pga",
}  # fmt: skip
VARYING = tuple(map(small, ("strom", "dryden", "adacomp", "ako", "gaia")))  # how much these send depends on the numbers
HOSTED = ("gossip_hosts", "two_levels")  # whose hosts seven workers do not fill
EVEN = [small(e.name) for e in CATALOG if small(e.name) not in VARYING and e.name not in (*UNEVEN, *HOSTED)]
CASES = [(text, workers) for text in (*EVEN, *COMPOSED) for workers in (4, 7)] + [
    ("dpsgd(Grid())", 4),
    ("dpsgd(Grid())", 6),
]


@pytest.mark.parametrize(("text", "workers"), CASES)
def test_foretold_bytes_are_the_bytes_that_leave(text: str, workers: int) -> None:
    circle = tuple((member, (member + 1) % workers) for member in range(workers))
    text = text.replace("EDGES", repr((*circle, (0, 2), (2, 0), (3, 1))))
    foreseen, rounding = foretold(text, workers, lambda load: load.per_step), foretold(text, workers, lambda _: 0.5)
    assert sent_in_rehearsal(text, workers) == pytest.approx(foreseen, rel=0, abs=rounding)


@pytest.mark.parametrize("graph", ["Exponential()", "Cycle()", "Complete()", "RandomPeer()"])
@pytest.mark.parametrize(("workers", "per_host"), [(4, 2), (12, 3), (6, 6)])
def test_foretold_bytes_of_hosts_are_the_bytes_that_leave(graph: str, workers: int, per_host: int) -> None:
    every = 1 if "Random" in graph else 2  # of what is drawn, as many rounds must be played as are looked at
    text = f"gossip_hosts({per_host}, {graph}, {every})"
    foreseen, rounding = foretold(text, workers, lambda load: load.per_step), foretold(text, workers, lambda _: 0.5)
    assert sent_in_rehearsal(text, workers) == pytest.approx(foreseen, rel=0, abs=rounding)


@pytest.mark.parametrize("text", VARYING)
@pytest.mark.parametrize("workers", [4, 7])
def test_bytes_that_vary_leave_within_their_bounds(text: str, workers: int) -> None:
    low, high = (
        foretold(text, workers, lambda load: load.sent.low),
        foretold(text, workers, lambda load: load.sent.high),
    )
    assert low <= sent_in_rehearsal(text, workers) <= high
    assert low < high


def test_the_law_rejects_a_load_that_forgets_to_gather() -> None:
    wrong = foretold("Exchange(codec=DGC())", 4, lambda load: load.exchange.route.sent(4, load.wires[0].likely))
    assert sent_in_rehearsal("Exchange(codec=DGC())", 4) != pytest.approx(wrong, rel=0.1)


@pytest.mark.parametrize(
    ("text", "workers", "rounds"),
    [
        ("allreduce(ring)", 8, 14),
        ("allreduce(torus)", 16, 12),
        ("allreduce(torus)", 4096, 252),
        ("allreduce(ring)", 4096, 8190),
        ("Exchange(codec=DGC())", 8, 7),
        ("powersgd", 8, 28),
        ("parameter_server", 8, 2),
        ("sgp", 8, 1),
        ("Exchange(payload=PARAMETERS, topology=Cycle())", 8, 2),
        ("allreduce", 1, 0),
    ],
)
def test_rounds(text: str, workers: int, rounds: int) -> None:
    assert sum(load.rounds for load in loads(parse(text), World(workers), stand_in(10**6))) == rounds


@pytest.mark.parametrize("nbytes", [4, 8, 60, 64, 1000, 10**6, 10**8 + 3, 7 * 10**11])
def test_the_stand_in_is_as_large_as_was_asked(nbytes: int) -> None:
    tags = stand_in(nbytes)
    assert sum(tag.bytes for tag in tags) == nbytes // 4 * 4
    assert all(prod(tag.shape) > 0 for tag in tags)
    matrices = [tag for tag in tags if len(tag.shape) == 2]
    assert len(matrices) == (8 if nbytes >= 64 else 0)


def circle(size: int) -> float:
    """The gap of a circle with weights of a third: its eigenvalues are (1 + 2 cos(2 pi k / n)) / 3."""
    return 1 - max(abs(1 + 2 * cos(2 * pi * k / size)) / 3 for k in range(1, size))


@pytest.mark.parametrize("size", [3, 4, 5, 8, 33, 256])
def test_gap_of_a_circle(size: int) -> None:
    assert spectral_gap(Cycle(), World(size), 0) == pytest.approx(circle(size), rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("size", [2, 4, 8, 16, 64])
def test_partners_at_powers_of_two_all_agree_after_a_period(size: int) -> None:
    assert spectral_gap(Exponential(), World(size), 0) == 1.0
    assert period(Exponential(), World(size), 0) == max(1, size.bit_length() - 1)


def textbook(rounds: list[numpy.ndarray], power: bool = True) -> float:
    product = numpy.eye(len(rounds[0]))
    for weights in rounds:
        product = weights @ product
    second = sorted(numpy.linalg.svd(product)[1])[-2]
    return float(1 - second ** (1 / len(rounds) if power else 1))


def test_gap_of_rotating_partners_and_what_a_wrong_one_would_say() -> None:
    size = 6
    shifts = [numpy.roll(numpy.eye(size), -hop, axis=1) for hop in (1, 2, 4)]
    rounds = [(numpy.eye(size) + shift) / 2 for shift in shifts]
    found = spectral_gap(Exponential(), World(size), 0)
    assert found == pytest.approx(textbook(rounds), rel=1e-9)
    assert found != pytest.approx(textbook(rounds, power=False), rel=0.1)
    assert found != pytest.approx(textbook(rounds[:1]), rel=0.1)


def test_gap_of_random_partners_is_the_mean_square_one() -> None:
    """Two who pull: both stay (1/4), one moves (1/2, a quarter is left), or both do: 1/4 + 1/8 is left on average."""
    assert period(RandomPeer(), World(2), 0) is None
    found = [spectral_gap(RandomPeer(), World(2, seed), 0) for seed in range(4)]
    assert found == pytest.approx([1 - sqrt(3 / 8)] * 4, rel=0.05)
    for size in (3, 4, 8):
        gaps = [spectral_gap(topology, World(size, 1), 0) for topology in (RandomPeer(), RandomPush(), RandomPair())]
        assert all(gap is not None and 0.1 < gap < 0.95 for gap in gaps), "drawn partners never all agree at once"


def test_a_round_of_trades_moves_both_sides() -> None:
    weights = describe.mixing_matrix(RandomPair(), 0, World(5), 0)
    assert weights.sum(0) == pytest.approx(numpy.ones(5)) and weights.sum(1) == pytest.approx(numpy.ones(5))
    assert spectral_gap(RandomPair(), World(2), 0) == 1.0


def test_a_graph_in_two_halves_never_agrees() -> None:
    assert spectral_gap(Graph(edges=((0, 1), (1, 0), (2, 3), (3, 2))), World(4), 0) == pytest.approx(0.0, abs=1e-12)


def test_nothing_n_by_n_for_a_complete_mix(monkeypatch: pytest.MonkeyPatch) -> None:
    def forbidden(*_: object) -> None:
        raise AssertionError("a complete mix is one value")

    monkeypatch.setattr(describe, "hears", forbidden)
    monkeypatch.setattr(describe, "mixing_matrix", forbidden)
    assert spectral_gap(Complete(), World(2**20), 0) == 1.0
    assert loads(parse("allreduce(torus)"), World(2**20), stand_in(10**9))[0].rounds == 2 * (1023 + 1023)


@pytest.mark.parametrize("topology", [Cycle(), RandomPeer(), Exponential()])
def test_no_gap_is_worked_out_for_large_worlds(topology: Topology) -> None:
    assert spectral_gap(topology, World(257), 0) is None
    assert spectral_gap(topology, World(16), 0) is not None


def test_a_hub_has_no_gap_and_answers_what_it_was_asked_about() -> None:
    assert spectral_gap(Hub(), World(8), 0) is None
    load = loads(parse("Exchange(topology=Hub(), codec=Half())"), World(8), stand_in(1000))[0]
    assert (load.sent, load.answered) == (Size(500, 500, 500), 1000)


@pytest.mark.parametrize("per_host", [2, 3, 8])
def test_messages_of_masters_are_told_for_all_members_where_only_some_are_looked_at(per_host: int) -> None:
    for size in (24 * 170, 24 * 1700):
        most, mean = messages(Masters(per_host, RandomPeer()), World(size), 0)
        assert (most, mean) == (1, pytest.approx(1 / per_host, rel=0.05))


def test_messages_of_random_partners_leave_out_draws_of_oneself() -> None:
    most, mean = messages(RandomPeer(), World(64), 0)
    assert most == 1
    assert mean == pytest.approx(63 / 64, abs=0.01)
