"""What the waves of a schedule put on links of hosts, counted in chunks. Knows no route and no rates."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from gossamer.parts.route.borders import Borders
    from gossamer.parts.route.schedule import Move, Schedule


class Flow(NamedTuple):
    """What leaves one host in a wave, or what enters it: chunks, and how many of its members send or receive them."""

    chunks: int
    members: int


class Load(NamedTuple):
    """What one wave puts on links, in chunks: the most that one member tells or hears inside its host; the flows of the
    busiest hosts (`busiest`); the most that is added by one member. And how many rounds leave at once."""

    inside: int
    across: tuple[Flow, ...]
    added: int
    rounds: int = 1


Loads = Iterable[tuple[Load, int]]  # loads of waves, in any order, and how many waves have each


def busiest(flows: Iterable[Flow]) -> tuple[Flow, ...]:
    """Of these flows, those that last longest for some number n of links that a host has: chunks / min(n, members).

    While links are few it is the one of most chunks; from then on the one of most chunks to a member, if it is another.
    """
    kept = list[Flow]()
    for flow in sorted(set(flows), key=lambda one: (-one.chunks, one.members)):
        if flow.chunks and (not kept or flow.chunks * kept[-1].members > kept[-1].chunks * flow.members):
            kept[1:] = [flow]
    return tuple(kept)


def mirrored_loads(way: Loads) -> Iterator[tuple[Load, int]]:
    """The loads of a way and of the same way backwards, on which nothing is added."""
    for load, times in way:
        yield load, times
        yield load._replace(added=0), times


def walked(schedule: Schedule, borders: Borders) -> Iterator[tuple[Load, int]]:
    """The loads of a schedule by every move of every member: right for all, and slow where there are many."""
    size, host = borders.size, borders.owners()
    rounds = zip(*(schedule.moves(member, size) for member in range(size)), strict=True)
    for together in schedule.waves(size):
        yield _load(tuple(islice(rounds, together)), host), 1


def _load(wave: Sequence[Sequence[Move]], host: Sequence[int]) -> Load:
    left, entered, told, heard, added = (Counter[int]() for _ in range(5))
    senders, receivers = set[int](), set[int]()
    for source, target, chunks in (message for moves in wave for message in _messages(moves)):
        here, there = host[source], host[target]
        if here == there:
            told[source] += chunks
            heard[target] += chunks
        else:
            left[here] += chunks
            entered[there] += chunks
            senders.add(source)
            receivers.add(target)
    for member, move in (one for moves in wave for one in enumerate(moves)):
        if move.receive is not None and move.add:
            added[member] += move.receive.chunks[1] - move.receive.chunks[0]
    inside = max([*told.values(), *heard.values()], default=0)
    flows = [*_flows(left, senders, host), *_flows(entered, receivers, host)]
    return Load(inside, busiest(flows), max(added.values(), default=0), len(wave))


def _flows(chunks: Counter[int], members: Iterable[int], host: Sequence[int]) -> Iterator[Flow]:
    """By host, what passes its border one way, and how many of its members it is from or for."""
    count = Counter(host[member] for member in members)
    return (Flow(passing, count[where]) for where, passing in chunks.items())


def _messages(moves: Sequence[Move]) -> Iterator[tuple[int, int, int]]:
    """Who sends to whom in a round, and how many chunks."""
    for member, move in enumerate(moves):
        if move.send is not None:
            yield member, move.send.member, move.send.chunks[1] - move.send.chunks[0]
