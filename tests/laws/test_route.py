"""Every route and operation does as it claims in every world, says how many rounds it takes and what it sends, and is
right."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby, islice
from operator import itemgetter

import pytest
from tests.laws.specimens import OPERATIONS, ROUTES
from tests.laws.travel import misjudged, played, worlds

from gossamer.parts.route import (
    Broadcast,
    HalvingDoubling,
    Hop,
    Move,
    Ring,
    Route,
    Schedule,
    Torus,
    Tree,
    counted,
    span,
)
from gossamer.parts.route.borders import Borders
from gossamer.parts.route.check import flaw
from gossamer.parts.route.halving import folded, power
from gossamer.parts.route.load import Loads, mirrored_loads

Law = Callable[[Schedule], str | None]


def proved(schedule: Schedule) -> str | None:
    """The checker finds no flaw: everybody ends with what was claimed, every contribution exactly once."""
    found = ((size, flaw(schedule, size)) for size in worlds(schedule))
    return next((f"{size} members: {wrong}" for size, wrong in found if wrong), None)


def claims_enough(schedule: Schedule) -> str | None:
    """A route claims every contribution to every chunk everywhere; an operation, something of somebody."""
    for size in worlds(schedule):
        claims = [schedule.claim(member, size) for member in range(size)]
        if not any(claims):
            return f"{size} members: nothing is claimed"
        everything = {chunk: set(range(size)) for chunk in range(schedule.chunks(size))}
        if isinstance(schedule, Route) and any(claim != everything for claim in claims):
            return f"{size} members: a route claims less than an all-reduce"
    return None


def adds_up(schedule: Schedule) -> str | None:
    """Played on numbers, all chunks end as the sums claimed, also where vectors are shorter than the world."""
    for size in worlds(schedule):
        for length in sorted({1, size - 1, 3 * size + 2}):
            trip, count = played(schedule, size, length), schedule.chunks(size)
            for member in range(size):
                wanted = trip.held[member].copy()  # what is not claimed may be anything
                for chunks, whose in claims(schedule, member, size):
                    part = span(chunks, count, length)
                    wanted[part] = trip.start[whose, part].sum(0)
                if not (trip.held[member] == wanted).all():
                    return f"{size} members, {length} elements: member {member} has not what was claimed"
    return None


def claims(schedule: Schedule, member: int, size: int) -> Iterator[tuple[tuple[int, int], list[int]]]:
    """What is claimed, chunks of the same contributors next to each other taken together."""
    claimed = sorted(schedule.claim(member, size).items())
    for whose, run in groupby(claimed, key=itemgetter(1)):
        chunks = [chunk for chunk, _ in run]
        assert chunks == [*range(chunks[0], chunks[-1] + 1)]
        yield (chunks[0], chunks[-1] + 1), sorted(whose)


def rounds_are_counted(schedule: Schedule) -> str | None:
    """`rounds` is the number of moves of every member."""
    for size in worlds(schedule):
        lengths = {len(list(schedule.moves(member, size))) for member in range(size)}
        if lengths != {schedule.rounds(size)}:
            return f"{size} members: {schedule.rounds(size)} rounds said, {lengths} made"
    return None


def waves_wait_for_nothing_of_their_own(schedule: Schedule) -> str | None:
    """`waves` are all rounds, `starts` of them; in one nobody sends on what came, or copies over what it sends."""
    for size in worlds(schedule):
        waves = list(schedule.waves(size))
        if (len(waves), sum(waves)) != (schedule.starts(size), schedule.rounds(size)):
            return f"{size} members: {schedule.starts(size)} starts said, waves of {waves} rounds made"
        for member in range(size):
            moves = schedule.moves(member, size)
            for together in waves:
                came, left = set[int](), set[int]()
                for send, receive, add in islice(moves, together):
                    out, into = (set(range(*hop.chunks)) if hop else set[int]() for hop in (send, receive))
                    if out & came or (not add and into & (left | out)):
                        return f"{size} members: a message of member {member} waits for another of its wave"
                    came, left = came | into, left | out
    return None


def bytes_are_counted(schedule: Schedule) -> str | None:
    """With equal chunks `sent` is what leaves the busiest member, `total` all, `passed` the longest of each round."""
    for size in worlds(schedule):
        length = 3 * schedule.chunks(size)
        trip = played(schedule, size, length)
        found = {"sent": max(trip.each(trip.sent)), "passed": sum(map(max, trip.sent))}
        found["total"] = sum(map(sum, trip.sent))
        if isinstance(schedule, Route):
            found["added"] = sum(map(max, trip.added))
        for name, elements in found.items():
            said = getattr(schedule, name)(size, 8 * length)
            if abs(8 * elements - said) > 1e-6:
                return f"{size} members: {said} bytes {name} are said, {8 * elements} were"
    return None


def every_member_is_counted(schedule: Schedule) -> str | None:
    """`counted` is what leaves and reaches each member, also where chunks are uneven or empty."""
    for size in worlds(schedule, largest=17):
        for length in (1, size - 1, 5 * size + 2):
            trip = played(schedule, size, length)
            wanted = [*zip(trip.each(trip.sent), trip.each(trip.received), strict=True)]
            if wanted != [counted(schedule, member, size, length) for member in range(size)]:
                return f"{size} members, {length} elements: counted otherwise than sent"
    return None


def loads_are_those_walked(schedule: Schedule) -> str | None:
    """`loads` is what a walk of all moves comes to, on hosts of 1 to 9 members, of which the last may have less."""
    for size in worlds(schedule):
        wrong = misjudged(schedule, [Borders.of(size, per_host) for per_host in range(1, 10)])
        if wrong is not None:
            return f"{size} members: hosts at {wrong.at} are loaded otherwise than said"
    return None


def talks_to_others_only(schedule: Schedule) -> str | None:
    """A move leads to another member of the world and comes from another."""
    for size in worlds(schedule):
        for member in range(size):
            hops = (hop for move in schedule.moves(member, size) for hop in move[:2] if isinstance(hop, Hop))
            ends = {hop.member for hop in hops}
            if not ends <= set(range(size)) - {member}:
                return f"{size} members: member {member} talks to {ends}"
    return None


def suits_itself(schedule: Schedule) -> str | None:
    """What suits a wire is a route that suits it too, serves the same worlds and is as exact."""
    for nbytes in (0, 1, 65536, 65537, 10**9) if isinstance(schedule, Route) else ():
        chosen = schedule.suited(nbytes)
        if chosen.suited(nbytes) != chosen:
            return f"{chosen!r} is said to suit {nbytes} bytes, and it says another does"
        wrong = next((flaw(chosen, size) for size in worlds(schedule, 9) if flaw(chosen, size)), None)
        if wrong:
            return f"{chosen!r}: {wrong}"
    return None


LAWS = (
    proved, claims_enough, adds_up, rounds_are_counted, bytes_are_counted, every_member_is_counted,
    talks_to_others_only, suits_itself, waves_wait_for_nothing_of_their_own, loads_are_those_walked,
)  # fmt: skip


def back(hop: Hop | None, size: int) -> Hop:
    """The hop with its chunk moved back by one."""
    assert hop is not None
    low = (hop.chunks[0] - 1) % size
    return Hop(hop.member, (low, low + 1))


@dataclass(frozen=True, repr=False)
class Slipped(Ring):
    """A ring with the index slip of the paper's text: the gather sends the chunk it has not got yet."""

    def moves(self, member: int, size: int) -> Iterator[Move]:
        for number, (send, receive, add) in enumerate(super().moves(member, size)):
            late = number >= size - 1
            yield Move(back(send, size), back(receive, size), add) if late else Move(send, receive, add)


@dataclass(frozen=True, repr=False)
class Doubled(Ring):
    """Adds in the gather, too, where it should copy."""

    def moves(self, member: int, size: int) -> Iterator[Move]:
        for move in super().moves(member, size):
            yield Move(move.send, move.receive, True)


@dataclass(frozen=True, repr=False)
class Boastful(Torus):
    """Claims the paper's count of rounds, which leaves the columns out, and half the bytes."""

    def rounds(self, size: int) -> int:
        return 2 * (self.grid(size)[0] - 1)

    def sent(self, size: int, nbytes: float) -> float:
        return super().sent(size, nbytes) / 2

    def tally(self, member: int, size: int, length: int) -> tuple[int, int]:
        return length, length


@dataclass(frozen=True, repr=False)
class Vain(Ring):
    """Begins by sending itself what it has, and thinks nothing else suits it less."""

    def moves(self, member: int, size: int) -> Iterator[Move]:
        yield Move(Hop(member, (0, 1)), Hop(member, (0, 1)))
        yield from super().moves(member, size)

    def suited(self, nbytes: float) -> Route:
        return Vain() if type(self) is not Vain else Slipped()


@dataclass(frozen=True, repr=False)
class Idle(HalvingDoubling):
    """The fold-in without sending out: those that were absorbed are never told the sum."""

    def moves(self, member: int, size: int) -> Iterator[Move]:
        moves = list(super().moves(member, size))
        yield from (*moves[:-1], Move()) if size & (size - 1) else moves


@dataclass(frozen=True, repr=False)
class Modest(Tree):
    """Prices the way up only, and what the root holds is all it claims."""

    def passed(self, size: int, nbytes: float) -> float:
        return super().passed(size, nbytes) / 2

    def claim(self, member: int, size: int) -> Mapping[int, frozenset[int]]:
        return {} if member else super().claim(member, size)


@dataclass(frozen=True, repr=False)
class Overtaken(Route):
    """Two members swap vectors by copying, each writing over what it is sending."""

    def chunks(self, size: int) -> int:
        return 1

    def rounds(self, size: int) -> int:
        return 2 if size == 2 else 0

    def sent(self, size: int, nbytes: float) -> float:
        return 2 * nbytes

    def moves(self, member: int, size: int) -> Iterator[Move]:
        if size == 2:
            there = Hop(1 - member, (0, 1))
            yield from (Move(there, there), Move(there, there))


@dataclass(frozen=True, repr=False)
class Deaf(Broadcast):
    """The first to be told is not listening."""

    def moves(self, member: int, size: int) -> Iterator[Move]:
        for move in super().moves(member, size):
            yield Move() if member == size - 1 else move


@dataclass(frozen=True, repr=False)
class Hasty(Ring):
    """Lets the two halves of a ring go at once, though every round sends what came in the one before."""

    def starts(self, size: int) -> int:
        return 2 if size > 1 else 0

    def waves(self, size: int) -> Iterator[int]:
        return iter([size - 1] * self.starts(size))


@dataclass(frozen=True, repr=False)
class Unmoved(HalvingDoubling):
    """Says its loads as though those who go on after the fold-in were the first ones."""

    def loads(self, borders: Borders) -> Loads:
        line = borders.first(power(borders.size))
        halves = [1 << t for t in range(power(borders.size).bit_length() - 1)]
        yield from folded(borders, line.size)
        yield from mirrored_loads((line.swapped(d).load(line.size // (2 * d), add=True), 1) for d in halves)


@dataclass(frozen=True, repr=False)
class Lavish(Torus):
    """Says of its columns what would be true if only one of them left a host."""

    def loads(self, borders: Borders) -> Loads:
        x, y = self.grid(borders.size)
        rows = [(borders.circled(x).load(y, add=True), x - 1)] if x > 1 else []
        return mirrored_loads([*rows, (borders.shifted(1).load(1, add=True), y - 1)])


WRONG = (
    (proved, Slipped()),
    (proved, Doubled()),
    (proved, Boastful()),
    (proved, Idle()),
    (proved, Overtaken()),
    (proved, Deaf()),
    (claims_enough, Modest()),
    (adds_up, Slipped()),
    (adds_up, Doubled()),
    (adds_up, Idle()),
    (rounds_are_counted, Boastful()),
    (rounds_are_counted, Vain()),
    (bytes_are_counted, Boastful()),
    (bytes_are_counted, Modest()),
    (every_member_is_counted, Boastful()),
    (talks_to_others_only, Vain()),
    (suits_itself, Vain()),
    (waves_wait_for_nothing_of_their_own, Hasty()),
    (loads_are_those_walked, Hasty()),
    (loads_are_those_walked, Doubled()),
    (loads_are_those_walked, Unmoved()),
    (loads_are_those_walked, Lavish()),
)


@pytest.mark.parametrize("schedule", [*ROUTES, *OPERATIONS], ids=repr)
@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.__name__)
def test_holds(law: Law, schedule: Schedule) -> None:
    assert law(schedule) is None


@pytest.mark.parametrize(("law", "wrong"), WRONG, ids=lambda one: getattr(one, "__name__", repr(one)))
def test_rejects(law: Law, wrong: Schedule) -> None:
    assert law(wrong) is not None


def test_every_law_rejects_something() -> None:
    assert {law for law, _ in WRONG} == set(LAWS)


@pytest.mark.parametrize(
    ("wrong", "size", "reason"),
    [
        (Overtaken(), 2, "round 0: member 0 writes over what it is sending"),
        (Doubled(), 2, "round 1: member 0 adds a contribution to chunk 1 twice"),
        (Deaf(), 2, "round 0: member 0 sends (0, 1) to 1, which expects something else"),
        (Boastful(), 4, "members disagree on the number of rounds, which should be 2"),
        (Idle(), 3, "members [1] end without what was claimed"),
    ],
    ids=repr,
)
def test_a_flaw_is_told_by_round_and_member(wrong: Schedule, size: int, reason: str) -> None:
    assert flaw(wrong, size) == reason
