"""What leaves each host along a route, against closed forms; and that nearest-first halving is what we do."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.laws.specimens import ROUTES
from tests.laws.travel import worlds
from tests.papers import crossing_oracles as oracles

from gossamer.parts.refusal import Refused
from gossamer.parts.route import (
    Direct,
    Doubling,
    HalvingDoubling,
    Hierarchical,
    Ring,
    Route,
    ShardedHub,
    Torus,
    counted,
    crossing,
)

ANY = [(h, k) for h in range(1, 6) for k in range(1, 5)]
POWERS = [(h, k) for h in (1, 2, 4, 8) for k in (1, 2, 4)]
LENGTH = 2**6 * 9 * 5  # cut evenly by all
Made = Callable[[int], Route]
Form = Callable[[int, int, int], float]


@pytest.mark.parametrize(
    ("route", "oracle", "shapes"),
    [
        (lambda k: Ring(), oracles.ring, ANY),
        (lambda k: Torus(x=k), oracles.torus, ANY),
        (lambda k: Hierarchical(k), oracles.hierarchical, ANY),
        (lambda k: ShardedHub(), oracles.sharded_hub, ANY),
        (lambda k: Direct(), oracles.sharded_hub, ANY),
        (lambda k: Hierarchical(k, Direct()), oracles.hierarchical, ANY),
        (lambda k: HalvingDoubling(), oracles.halving_nearest_first, POWERS),
        (lambda k: Doubling(), oracles.doubling, POWERS),
    ],
    ids=["ring", "torus", "hierarchical", "sharded hub", "direct", "masters by direct", "halving-doubling", "doubling"],
)
def test_what_leaves_a_host_is_the_closed_form(route: Made, oracle: Form, shapes: list[tuple[int, int]]) -> None:
    for h, k in shapes:
        assert crossing(route(k), h * k, k, LENGTH) == [pytest.approx(oracle(h, k, LENGTH))] * h, (h, k)


def test_halving_the_farthest_first_would_be_told_apart() -> None:
    found = crossing(HalvingDoubling(), 8, 2, LENGTH)
    assert 2 * found[0] == oracles.halving_farthest_first(4, 2, LENGTH)


def test_a_torus_whose_rows_are_no_hosts_sends_more() -> None:
    assert min(crossing(Torus(), 8, 2, LENGTH)) > oracles.torus(4, 2, LENGTH) == crossing(Torus(x=2), 8, 2, LENGTH)[0]


@pytest.mark.parametrize("route", ROUTES, ids=repr)
def test_with_a_member_on_every_host_all_that_is_sent_crosses(route: Route) -> None:
    for size in worlds(route, largest=9):
        for length in (1, size + 1, 100):
            sent = [counted(route, member, size, length)[0] for member in range(size)]
            assert crossing(route, size, 1, length) == sent
            assert crossing(route, size, size, length) == [0]


def test_the_last_host_may_be_smaller() -> None:
    assert crossing(Ring(), 5, 2, 50) == [80, 80, 80]
    assert crossing(Hierarchical(per_host=2), 5, 2, 30) == [40, 40, 40]
    with pytest.raises(Refused, match="crossing: per_host must be from 1"):
        crossing(Ring(), 4, 0, 10)
