"""A member's way in elements: as long as the schedule's tally, with room for what comes, and its own sums known."""

from __future__ import annotations

from itertools import pairwise

import pytest
from tests.laws.specimens import OPERATIONS, ROUTES
from tests.laws.travel import worlds

from gossamer.parts.route import Doubling, HalvingDoubling, Ring, Schedule, Tree, counted
from gossamer.parts.route.itinerary import SHORT, itinerary, meet, pieces

LENGTHS = (1, 7, 60)


def long(part: slice) -> int:
    return int(part.stop - part.start)


@pytest.mark.parametrize("schedule", [*ROUTES, *OPERATIONS], ids=repr)
def test_legs_are_what_was_counted(schedule: Schedule) -> None:
    for size in worlds(schedule, largest=9):
        for length in LENGTHS:
            for member in range(size):
                legs = itinerary(schedule, member, size, length).legs
                sent, heard = sum(long(leg.leaving) for leg in legs), sum(long(leg.coming) for leg in legs)
                assert (sent, heard) == counted(schedule, member, size, length)
                assert all((leg.to is None) == (long(leg.leaving) == 0) for leg in legs)
                assert all((leg.source is None) == (long(leg.coming) == 0) for leg in legs)


@pytest.mark.parametrize("length", [60, 60 * SHORT])
@pytest.mark.parametrize("schedule", ROUTES, ids=repr)
def test_what_comes_has_room_beside_what_came_just_before(schedule: Schedule, length: int) -> None:
    for size in worlds(schedule, largest=9):
        for member in range(size):
            plan = itinerary(schedule, member, size, length)
            legs = plan.legs
            places = [slice(leg.lands, leg.lands + long(leg.coming)) for leg in legs if leg.source is not None]
            assert all(place.start >= 0 and place.stop <= plan.room for place in places)
            short = [pair for pair in pairwise(places) if long(pair[0]) + long(pair[1]) <= length // 2]
            wrapped = [pair for pair in short if meet(*pair)]
            assert not wrapped


@pytest.mark.parametrize("schedule", ROUTES, ids=repr)
def test_every_sum_is_somebodys_own(schedule: Schedule) -> None:
    for size in worlds(schedule, largest=9):
        made = [part for member in range(size) for part in itinerary(schedule, member, size, 60).own]
        assert {n for part in made for n in range(part.start, part.stop)} == set(range(60))


def test_own_sums_are_those_that_nobody_sent() -> None:
    assert itinerary(Ring(), 1, 4, 8).own == (slice(2, 4),)
    assert itinerary(Tree(), 0, 4, 8).own == (slice(0, 8),)
    assert itinerary(Tree(), 3, 4, 8).own == ()
    assert itinerary(Doubling(), 3, 4, 8).own == (slice(0, 8),)


def test_only_where_both_add_is_what_was_sent_kept() -> None:
    assert all(leg.keeps for leg in itinerary(Doubling(), 0, 4, 8).legs)
    assert not any(leg.keeps for route in (Ring(), HalvingDoubling()) for leg in itinerary(route, 0, 4, 8).legs)


def test_pieces_cover_the_whole() -> None:
    assert list(pieces(slice(3, 10), 3)) == [slice(3, 6), slice(6, 9), slice(9, 10)]
    assert list(pieces(slice(3, 3), 3)) == []
