"""Every route is exact for every world, says how many rounds it takes and how many bytes it sends, and is right."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy
import pytest
from tests.laws.specimens import ROUTES

from gossamer.parts.refusal import Refused
from gossamer.parts.route import Move, Ring, Route, Torus, counted, span
from gossamer.parts.route.check import flaw

Law = Callable[[Route], str | None]


def worlds(route: Route, largest: int = 33) -> Iterator[int]:
    """The worlds from 1 on that the route serves; one that serves none is wrong in itself."""
    serving = 0
    for size in range(1, largest + 1):
        try:
            route.fits(size)
        except Refused:
            continue
        serving += 1
        yield size
    assert serving, f"{route!r} serves no world"


def played(route: Route, size: int, length: int) -> tuple[numpy.ndarray, list[int], list[int]]:
    """What all hold after the moves, from small whole numbers that add up exactly; elements each sent and received."""
    held = numpy.random.default_rng(size).integers(-99, 99, (size, length)).astype(float)
    sent, received, count = [0] * size, [0] * size, route.chunks(size)
    plans = [list(route.moves(member, size)) for member in range(size)]
    for moves in zip(*plans, strict=True):
        under_way = [held[member, span(move.send, count, length)].copy() for member, move in enumerate(moves)]
        for member, move in enumerate(moves):
            sent[member] += len(under_way[member])
            received[member] += len(under_way[move.source])
            target = held[member, span(move.receive, count, length)]
            target[:] = target + under_way[move.source] if move.add else under_way[move.source]
    return held, sent, received


def proved(route: Route) -> str | None:
    """The checker finds no flaw: every rank ends with every contribution exactly once."""
    found = ((size, flaw(route, size)) for size in worlds(route))
    return next((f"{size} members: {wrong}" for size, wrong in found if wrong), None)


def sums_right(route: Route) -> str | None:
    """Played on numbers, every member ends with the sum, also where vectors are shorter than the world."""
    for size in worlds(route):
        for length in sorted({1, 2, max(0, size - 1), size + 1, 7 * size + 3}):
            start = numpy.random.default_rng(size).integers(-99, 99, (size, length)).astype(float)
            held, *_ = played(route, size, length)
            if not (held == start.sum(0)).all():
                return f"{size} members, {length} elements: not the sum everywhere"
    return None


def rounds_are_counted(route: Route) -> str | None:
    """`rounds` is the number of moves of every member."""
    for size in worlds(route):
        lengths = {len(list(route.moves(member, size))) for member in range(size)}
        if lengths != {route.rounds(size)}:
            return f"{size} members: {route.rounds(size)} rounds said, {lengths} made"
    return None


def bytes_are_counted(route: Route) -> str | None:
    """`sent` is what leaves each member when chunks are equal; `counted`, what leaves and reaches it at any length."""
    for size in worlds(route, largest=17):
        equal = 3 * route.chunks(size)
        _, sent, _ = played(route, size, equal)
        if any(abs(8 * elements - route.sent(size, 8 * equal)) > 1e-6 for elements in sent):
            return f"{size} members: {route.sent(size, 8 * equal)} bytes said, {[8 * s for s in sent]} sent"
        uneven = 5 * size + 2
        _, sent, received = played(route, size, uneven)
        if [*zip(sent, received, strict=True)] != [counted(route, member, size, uneven) for member in range(size)]:
            return f"{size} members: counted otherwise than sent"
    return None


def talks_to_others_only(route: Route) -> str | None:
    """A move leads to another member of the world and comes from another."""
    for size in worlds(route):
        for member in range(size):
            ends = {end for move in route.moves(member, size) for end in (move.to, move.source)}
            if not ends <= set(range(size)) - {member}:
                return f"{size} members: member {member} talks to {ends}"
    return None


LAWS = (proved, sums_right, rounds_are_counted, bytes_are_counted, talks_to_others_only)


@dataclass(frozen=True, repr=False)
class Slipped(Ring):
    """A ring with the index slip of the paper's text: the gather sends the chunk it has not got yet."""

    def moves(self, member: int, size: int) -> Iterator[Move]:
        for number, move in enumerate(super().moves(member, size)):
            if number < size - 1:
                yield move
            else:
                back = [((low - 1) % size, (low - 1) % size + 1) for low, _ in (move.send, move.receive)]
                yield Move(move.to, back[0], move.source, back[1], move.add)


@dataclass(frozen=True, repr=False)
class Doubled(Ring):
    """Adds in the gather, too, where it should copy."""

    def moves(self, member: int, size: int) -> Iterator[Move]:
        for move in super().moves(member, size):
            yield Move(move.to, move.send, move.source, move.receive, True)


@dataclass(frozen=True, repr=False)
class Boastful(Torus):
    """Claims the paper's count of rounds, which leaves the columns out, and half the bytes."""

    def rounds(self, size: int) -> int:
        return 2 * (self.grid(size)[0] - 1)

    def sent(self, size: int, nbytes: float) -> float:
        return super().sent(size, nbytes) / 2


@dataclass(frozen=True, repr=False)
class Vain(Ring):
    """Begins by sending itself what it has."""

    def moves(self, member: int, size: int) -> Iterator[Move]:
        yield Move(member, (0, 1), member, (0, 1), False)
        yield from super().moves(member, size)


WRONG = (
    (proved, Slipped()),
    (proved, Doubled()),
    (proved, Boastful()),
    (sums_right, Slipped()),
    (sums_right, Doubled()),
    (rounds_are_counted, Boastful()),
    (rounds_are_counted, Vain()),
    (bytes_are_counted, Boastful()),
    (talks_to_others_only, Vain()),
)


@pytest.mark.parametrize("route", ROUTES, ids=repr)
@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.__name__)
def test_holds(law: Law, route: Route) -> None:
    assert law(route) is None


@pytest.mark.parametrize(("law", "wrong"), WRONG, ids=lambda one: getattr(one, "__name__", repr(one)))
def test_rejects(law: Law, wrong: Route) -> None:
    assert law(wrong) is not None


def test_every_law_rejects_something() -> None:
    assert {law for law, _ in WRONG} == set(LAWS)


@pytest.mark.parametrize("x", range(1, 9))
def test_every_grid_is_exact(x: int) -> None:
    for y in range(1, 9):
        route, size = Torus(x=x), x * y
        route.fits(size)
        assert route.grid(size) == (x, y)
        assert flaw(route, size) is None
        assert route.rounds(size) == 2 * (x - 1) + 2 * (y - 1)
        held, sent, _ = played(route, size, 2 * size)
        assert (held == held[0]).all()
        assert sent == [2 * 2 * (size - 1)] * size  # the optimum 2n(N-1)/N, whatever the grid


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


def test_a_torus_that_is_not_filled_is_refused_with_one_that_is() -> None:
    with pytest.raises(Refused, match="Torus: 10 members do not fill rows of 4") as caught:
        Torus(x=4).fits(10)
    assert caught.value.nearest == "Torus(x=5)"


def test_a_prime_torus_is_the_ring() -> None:
    for size in (2, 3, 5, 13):
        for member in range(size):
            assert list(Torus().moves(member, size)) == list(Ring().moves(member, size))


def test_chunks_cover_a_vector_without_gap_or_overlap() -> None:
    for count in range(1, 20):
        for length in range(25):
            spans = [span((chunk, chunk + 1), count, length) for chunk in range(count)]
            assert [i for part in spans for i in range(part.start, part.stop)] == list(range(length))
