"""What a route costs: the formulas of the papers, equal to what is counted message by message, and the cheapest."""

from __future__ import annotations

from math import log2

import pytest
from tests.laws.specimens import ROUTES
from tests.laws.travel import played, worlds

from gossamer.parts.refusal import Refused
from gossamer.parts.route import (
    BinaryBlocks,
    Direct,
    Doubling,
    HalvingDoubling,
    Ring,
    Route,
    ShardedHub,
    Torus,
    Tree,
    cheapest,
    cost,
)
from gossamer.parts.route.price import EVERY

A, B, C = 1e-4, 1e-9, 3e-10  # seconds per message, per byte sent, per byte added


def counted_cost(route: Route, size: int, nbytes: int) -> float:
    """Played in step: in every round the longest message sets the pace, to send and to add. Of rounds that leave at
    once the first starts, and every other one holds its sender up for a tenth of a start-up."""
    route = route.suited(nbytes)
    trip = played(route, size, nbytes)
    passing = sum(B * max(sent) + C * max(added) for sent, added in zip(trip.sent, trip.added, strict=True))
    return passing + sum(A * (1 + 0.1 * (together - 1)) for together in route.waves(size))


@pytest.mark.parametrize("route", ROUTES, ids=repr)
def test_the_cost_is_the_counted_one(route: Route) -> None:
    for size in worlds(route, largest=17):
        nbytes = 102 * route.chunks(size)
        assert cost(route, size, nbytes, A, B, C) == pytest.approx(counted_cost(route, size, nbytes), rel=1e-9)


@pytest.mark.parametrize("size", [2, 4, 8, 64, 512])
def test_powers_of_two_cost_what_the_draft_of_paper_1_says(size: int) -> None:
    n, share = 1e6, (size - 1) / size
    scattered = 2 * A * log2(size) + 2 * B * n * share + C * n * share
    assert cost(HalvingDoubling(), size, n, A, B, C) == pytest.approx(scattered)
    assert cost(Doubling(), size, n, A, B, C) == pytest.approx(log2(size) * (A + n * B + n * C))
    assert cost(Ring(), size, n, A, B) == pytest.approx(2 * (size - 1) * A + 2 * n * share * B)


@pytest.mark.parametrize(
    ("size", "nbytes", "route"),
    [
        (8, 100, Doubling()),
        (8, 10**8, Direct()),
        (7, 100, Direct()),
        (7, 10**9, Direct()),
        (24, 10**6, Direct()),
        (64, 10**6, HalvingDoubling()),  # 2 + 12.4 start-ups against 12
        (96, 10**6, BinaryBlocks()),
        (1024, 2000, Doubling()),
        (1000, 10**9, Torus()),
    ],
)
def test_the_cheapest(size: int, nbytes: int, route: Route) -> None:
    assert cheapest(size, nbytes, A, B, C) == route
    assert cost(route, size, nbytes, A, B, C) == min(cost(other, size, nbytes, A, B, C) for other in EVERY)


def test_without_latency_the_fewest_bytes_win_and_without_bytes_the_fewest_start_ups() -> None:
    for size in range(2, 34):
        assert cost(cheapest(size, 1e6, 0.0, B), size, 1e6, 0.0, B) == pytest.approx(B * Ring().sent(size, 1e6))
        fewest = min(route.delays(size) for route in EVERY)
        assert cost(cheapest(size, 1e6, A, 0.0), size, 1e6, A, 0.0) == pytest.approx(A * fewest)


def test_what_leaves_at_once_starts_at_once_but_holds_its_sender_up() -> None:
    for size in (2, 3, 8, 64):
        sent = 2 * B * 1e6 * (size - 1) / size
        assert cost(Direct(), size, 1e6, A, B) == pytest.approx(A * (2 + 0.2 * (size - 2)) + sent)
        assert cost(ShardedHub(), size, 1e6, A, B) == pytest.approx(A * 2 * (size - 1) + sent)
    assert cheapest(7, 1e9, A, B, among=[route for route in EVERY if route != Direct()]) == Ring()


def test_routes_that_do_not_fit_are_left_out() -> None:
    assert cheapest(7, 1e6, A, B, among=(Torus(x=2), Tree())) == Tree()
    with pytest.raises(Refused, match="serves 7 members"):
        cheapest(7, 1e6, A, B, among=(Torus(x=2),))
    with pytest.raises(Refused, match="do not fill rows"):
        cost(Torus(x=2), 7, 1e6, A, B)
    with pytest.raises(Refused, match="cost: size must be from 1"):
        cost(Ring(), 0, 1e6, A, B)
    with pytest.raises(Refused, match="cost: beta must lie"):
        cost(Ring(), 4, 1e6, A, -1.0)
