"""The routes' own numbers, against those of the papers: rounds, bytes, grids, blocks, and who is idle."""

from __future__ import annotations

from time import perf_counter

import pytest
from tests.laws.specimens import OPERATIONS, ROUTES
from tests.laws.travel import played, worlds

from gossamer.parts.refusal import Refused
from gossamer.parts.route import (
    BinaryBlocks,
    Broadcast,
    BySize,
    Doubling,
    HalvingDoubling,
    Hierarchical,
    Native,
    Reduce,
    Ring,
    ShardedHub,
    Torus,
    Tree,
    counted,
    span,
)
from gossamer.parts.route.blocks import blocks, handovers
from gossamer.parts.route.check import flaw
from gossamer.parts.route.halving import active, place, power

GRIDS = [(x, y) for x in range(1, 34) for y in range(1, 34 // x + 1) if x * y <= 33]
POWERS = [2, 4, 8, 16, 32, 1024]


@pytest.mark.parametrize("x", range(1, 34))
def test_every_grid_is_exact(x: int) -> None:
    for y in (y for other, y in GRIDS if other == x):
        route, size = Torus(x=x), x * y
        route.fits(size)
        assert route.grid(size) == (x, y)
        assert flaw(route, size) is None
        assert route.rounds(size) == 2 * (x - 1) + 2 * (y - 1)
        trip = played(route, size, 2 * size)
        assert (trip.held == trip.start.sum(0)).all()
        assert trip.each(trip.sent) == [2 * 2 * (size - 1)] * size  # the optimum 2n(N-1)/N, whatever the grid


@pytest.mark.parametrize(
    ("size", "grid"),
    [
        (1024, (32, 32)),
        (1088, (34, 32)),
        (2176, (64, 34)),
        (3456, (64, 54)),
        (1, (1, 1)),
        (12, (4, 3)),
        (4096, (64, 64)),
    ]
    + [(prime, (prime, 1)) for prime in (2, 3, 5, 13, 31, 1009)],
)
def test_the_grid_is_the_factor_pair_nearest_a_square(size: int, grid: tuple[int, int]) -> None:
    assert Torus().grid(size) == grid


@pytest.mark.parametrize(
    ("size", "x", "paper", "both", "ring"),
    [(1024, 32, 62, 124, 2046), (1088, 32, 62, 128, 2174), (2176, 64, 126, 192, 4350), (3456, 72, 142, 236, 6910)],
)
def test_rounds_of_the_grids_of_paper_5(size: int, x: int, paper: int, both: int, ring: int) -> None:
    route = Torus(x=x)
    assert 2 * (route.grid(size)[0] - 1) == paper  # what the paper counts leaves the columns out
    assert route.rounds(size) == both == len(list(route.moves(7, size)))
    assert Ring().rounds(size) == ring == len(list(Ring().moves(7, size)))
    assert route.sent(size, 1e6) == pytest.approx(Ring().sent(size, 1e6)) == pytest.approx(2e6 * (size - 1) / size)


@pytest.mark.parametrize("size", POWERS)
def test_powers_of_two_take_the_rounds_and_bytes_of_paper_1(size: int) -> None:
    steps, n = size.bit_length() - 1, 1e6
    for route in (HalvingDoubling(), BinaryBlocks()):
        assert (route.rounds(size), route.sent(size, n)) == (2 * steps, pytest.approx(2 * n * (size - 1) / size))
        assert route.passed(size, n) == pytest.approx(2 * n * (size - 1) / size)
    assert (Doubling().rounds(size), Doubling().sent(size, n)) == (steps, steps * n)
    assert (Tree().rounds(size), Tree().sent(size, n), Tree().passed(size, n)) == (2 * steps, steps * n, 2 * steps * n)
    for route in (Ring(), ShardedHub()):
        assert (route.rounds(size), route.sent(size, n)) == (2 * (size - 1), pytest.approx(2 * n * (size - 1) / size))


@pytest.mark.parametrize("size", [3, 6, 7, 12, 33, 600])
def test_the_fold_in_adds_two_rounds_and_a_vector_each_way(size: int) -> None:
    p, n, steps = power(size), 1e6, power(size).bit_length() - 1
    route = HalvingDoubling()
    assert route.rounds(size) == 2 * steps + 2
    assert route.sent(size, n) == pytest.approx(2 * n * (p - 1) / p + n)  # the even ones; the paper says 3 n
    assert route.passed(size, n) == pytest.approx(2 * n * (p - 1) / p + 2 * n)
    assert (Doubling().rounds(size), Doubling().passed(size, n)) == (steps + 2, (steps + 2) * n)


def test_600_members_leave_88_idle() -> None:
    assert (power(600), 600 - len(active(600))) == (512, 88)
    assert active(600) == (*range(0, 176, 2), *range(176, 600))  # the r even ones and the remaining p - 2r
    idle = [member for member in range(600) if place(member, 600) is None]
    assert idle == [*range(1, 176, 2)]
    assert [active(600)[at] for at in (place(m, 600) for m in range(600)) if at is not None] == [*active(600)]


def test_600_members_are_four_blocks() -> None:
    assert blocks(600) == [512, 64, 16, 8]
    assert handovers(600) == [range(10, 18), range(6, 10), range(4, 6)]
    assert BinaryBlocks().rounds(600) == 36
    for size in range(1, 200):
        assert sum(blocks(size)) == size
        assert all(block & (block - 1) == 0 for block in blocks(size))


def test_equal_blocks_are_quick_and_very_unequal_ones_are_not() -> None:
    quick, slow = BinaryBlocks(), BinaryBlocks()
    assert (quick.rounds(24), slow.rounds(33)) == (2 * (4 + 2), 2 * (5 + 32))
    assert quick.passed(24, 1e6) < HalvingDoubling().passed(24, 1e6)


def test_a_large_world_of_blocks_adds_up() -> None:
    assert flaw(BinaryBlocks(), 88) is None  # 64, 16, 8, as the idle ones of 600 would be
    assert flaw(HalvingDoubling(), 88) is None


def test_the_torus_sends_x_times_less_between_hosts_than_masters_do() -> None:
    for x, y in ((4, 3), (2, 5), (8, 2)):
        size, length = x * y, 3 * x * y
        across = []
        for route in (Torus(x=x), Hierarchical(per_host=x)):
            pairs = [pair for round in played(route, size, length).pairs for pair in round.items()]
            leaving = [sum(n for (m, to), n in pairs if m == member and m // x != to // x) for member in range(size)]
            across.append(max(leaving))
        assert across[1] == 2 * length * (y - 1) // y
        assert across[0] * x == across[1]


def test_masters_speak_for_hosts_of_which_the_last_may_be_smaller() -> None:
    route = Hierarchical(per_host=4)
    assert [route.hosts(size) for size in (1, 4, 5, 8, 10)] == [1, 1, 2, 2, 3]
    assert route.rounds(10) == 2 + 2 * (3 - 1) + 2
    silent = [move for move in route.moves(5, 10) if move.send is None and move.receive is None]
    assert len(silent) == 1 + 4 + 1  # member 5 is a leaf of the second host: one round up, one down
    assert {m.send.member for m in route.moves(4, 10) if m.send} == {8, 5, 6}


def test_a_torus_that_is_not_filled_is_refused_with_one_that_is() -> None:
    with pytest.raises(Refused, match="Torus: 10 members do not fill rows of 4") as caught:
        Torus(x=4).fits(10)
    assert caught.value.nearest == "Torus(x=5)"


def test_what_does_not_serve_masters_or_a_size_is_refused() -> None:
    with pytest.raises(Refused, match="among masters: Torus: 4 members do not fill rows of 3") as caught:
        Hierarchical(per_host=4, among=Torus(x=3)).fits(16)
    assert caught.value.nearest == "among=Torus(x=2)"
    with pytest.raises(Refused, match="do not fill rows of 3"):
        BySize(small=Torus(x=3)).fits(8)
    for root in (Reduce(root=3), Broadcast(root=3)):
        with pytest.raises(Refused, match="members 0 to 2 only") as caught:
            root.fits(3)
        assert caught.value.nearest == "root=2"


@pytest.mark.parametrize(
    ("make", "given", "reason"),
    [
        (Hierarchical, {"per_host": 0}, "per_host must be from 1"),
        (Hierarchical, {"per_host": 2.0}, "per_host must be a whole number"),
        (Hierarchical, {"among": "ring"}, "among must be a Route"),
        (BySize, {"limit": -1}, "limit must be from 1"),
        (BySize, {"small": Ring}, "small must be a Route"),
        (BySize, {"large": None}, "large must be a Route"),
        (Torus, {"x": 0}, "x must be from 1"),
        (Reduce, {"root": -1}, "Reduce: root must be from 0"),
    ],
)
def test_nonsense_is_refused(make: type, given: dict[str, object], reason: str) -> None:
    with pytest.raises(Refused, match=reason):
        make(**given)


def test_a_hybrid_goes_by_the_bytes_of_the_wire() -> None:
    route = BySize(small=Tree(), large=BySize(small=Torus(), large=Native(), limit=2000), limit=1000)
    assert [route.suited(n) for n in (0, 1000, 1001, 2000, 2001)] == [Tree(), Tree(), Torus(), Torus(), Native()]
    masters = Hierarchical(per_host=2, among=BySize(limit=10))
    assert masters.suited(10) == Hierarchical(per_host=2, among=Doubling())
    assert masters.suited(11) == Hierarchical(per_host=2, among=Ring())


def test_a_prime_torus_is_the_ring() -> None:
    for size in (2, 3, 5, 13):
        for member in range(size):
            assert list(Torus().moves(member, size)) == list(Ring().moves(member, size))


def test_chunks_cover_a_vector_without_gap_or_overlap() -> None:
    for count in range(1, 20):
        for length in range(25):
            spans = [span((chunk, chunk + 1), count, length) for chunk in range(count)]
            assert [i for part in spans for i in range(part.start, part.stop)] == list(range(length))


def test_all_routes_of_all_worlds_are_checked_in_seconds() -> None:
    began = perf_counter()
    for schedule in (*ROUTES, *OPERATIONS):
        assert [flaw(schedule, size) for size in worlds(schedule)] == [None] * len(list(worlds(schedule)))
    assert perf_counter() - began < 30  # about two on a quiet machine


@pytest.mark.parametrize("route", [Ring(), Torus(), ShardedHub(), HalvingDoubling(), Native()], ids=repr)
def test_bytes_of_thousands_of_members_are_counted_at_once(route: Ring) -> None:
    began = perf_counter()
    sent = sum(counted(route, member, 4096, 10_007)[0] for member in range(4096))
    assert perf_counter() - began < 3
    assert sent == 2 * 10_007 * 4095  # every element is sent twice by all but one
