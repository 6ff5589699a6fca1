"""The all-reduces against textbook plays of the papers, and the systems built on them against synchronous SGD."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from tests.laws.travel import played as travelled
from tests.papers import oracles, route_oracles
from tests.papers.problem import EXACT, RATE, WRONG, gap, given, played

from gossamer.parts.route import (
    BinaryBlocks,
    Direct,
    Doubling,
    HalvingDoubling,
    Hierarchical,
    Ring,
    Route,
    ShardedHub,
    Torus,
    Tree,
)
from gossamer.parts.route.blocks import blocks
from gossamer.strategy import parse
from gossamer.strategy.reduced import REDUCED

STEPS = 12
PAIRS = [
    (Ring(), route_oracles.ring),
    (HalvingDoubling(), route_oracles.halving_doubling),
    (Doubling(), route_oracles.doubling),
    (BinaryBlocks(), route_oracles.binary_blocks),
    (Tree(), route_oracles.tree),
    (ShardedHub(), route_oracles.sharded_hub),
    (Direct(), route_oracles.direct),
    (Hierarchical(), partial(route_oracles.hierarchical, k=4)),
    (Hierarchical(per_host=3, among=Tree()), partial(route_oracles.hierarchical, k=3, among=route_oracles.tree)),
    (Torus(x=1), partial(route_oracles.torus, x=1)),
]
SIZES = pytest.mark.parametrize("size", range(2, 10))


def vectors(size: int, length: int) -> np.ndarray:
    return np.random.default_rng(size + 100 * length).integers(-99, 99, (size, length)).astype(float)


@SIZES
@pytest.mark.parametrize(("route", "oracle"), PAIRS, ids=lambda one: repr(one) if isinstance(one, Route) else "")
def test_a_route_sends_what_the_textbook_sends(route: Route, oracle: route_oracles.AllReduce, size: int) -> None:
    for length in (1, size + 1, 5040):  # 5040 is cut evenly by all
        start = vectors(size, length)
        held, sent = oracle(start)
        assert all((one == start.sum(0)).all() for one in held)
        trip = travelled(route, size, length)
        assert (trip.held == trip.start.sum(0)).all()
        if length == 5040:
            assert trip.each(trip.sent) == sent


@pytest.mark.parametrize(("x", "y"), [(2, 2), (3, 2), (2, 3), (4, 2), (3, 3), (2, 4), (5, 2)])
def test_a_torus_sends_what_the_textbook_sends(x: int, y: int) -> None:
    start = vectors(x * y, 5040)
    held, sent = route_oracles.torus(start, x)
    assert all((one == start.sum(0)).all() for one in held)
    trip = travelled(Torus(x=x), x * y, 5040)
    assert trip.each(trip.sent) == sent


def test_a_textbook_play_of_another_route_is_told_apart() -> None:
    trip = travelled(HalvingDoubling(), 6, 5040)
    assert trip.each(trip.sent) != route_oracles.ring(vectors(6, 5040))[1]
    assert trip.each(trip.sent) != route_oracles.binary_blocks(vectors(6, 5040))[1]


def test_600_is_decomposed_as_the_paper_does() -> None:
    assert route_oracles.decomposition(600) == [512, 64, 16, 8]
    assert all(route_oracles.decomposition(size) == blocks(size) for size in range(1, 700))


def wanted(name: str, size: int, mu: float) -> np.ndarray:
    """Synchronous SGD, the mean of gradients taken along the system's own all-reduce."""
    (w, data), step = given(size, STEPS), oracles.SGD(RATE, mu)
    for now in zip(*data, strict=True):
        held, _ = getattr(route_oracles, name)([oracles.gradient(w, batch) for batch in now])
        assert all((one == held[0]).all() for one in held)
        w = step(w, held[0].astype(float) / size)
    return np.tile(w, (size, 1))


@pytest.mark.parametrize("size", [2, 3, 4, 6])
@pytest.mark.parametrize("mu", [0.0, 0.9])
@pytest.mark.parametrize("name", [entry.name for entry in REDUCED])
def test_every_system_is_synchronous_sgd(name: str, mu: float, size: int) -> None:
    found = played(parse(name), size, STEPS, momentum=mu).outcome.replicas
    plain = oracles.allreduce(*given(size, STEPS), RATE, mu)
    if name in ("tencent", "sony"):  # 16 bits tell, but not much; sums of 32 bits may differ in their last
        assert gap(found, wanted(name, size, mu)) < 1e-5
        assert WRONG < gap(found, plain) < 5e-3
    else:
        assert gap(found, wanted(name, size, mu)) < EXACT
        assert gap(found, plain) < EXACT


def test_a_system_in_16_bits_is_not_taken_for_one_in_32() -> None:
    found = played(parse("horovod"), 4, STEPS).outcome.replicas
    assert gap(found, wanted("sony", 4, 0.0)) > WRONG
