"""What of a schedule crosses from one host to another. Hosts are members one after the other; knows no rates."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import islice
from typing import NamedTuple

from gossamer.parts.refusal import whole
from gossamer.parts.route.schedule import Move, Schedule, extent


class Load(NamedTuple):
    """What one wave puts on links, in chunks: the most that one member tells or hears inside its host; of the busiest
    host, the sum of what leaves it or of what enters it, whichever is more; the most that is added by one member. And
    how many rounds leave at once."""

    inside: int
    across: int
    added: int
    rounds: int = 1


def crossing(schedule: Schedule, size: int, per_host: int, length: int) -> list[int]:
    """Elements that leave each host, of a vector of `length`; `per_host` members a host, the last may have fewer.

    A host's members share its link: this is what its interface sends, whoever of them does.
    """
    whole("crossing", "per_host", per_host)
    count, left = schedule.chunks(size), [0] * -(-size // per_host)
    for member in range(size):
        for send, _, _ in schedule.moves(member, size):
            if send is not None and send.member // per_host != member // per_host:
                left[member // per_host] += extent(send.chunks, count, length)
    return left


@lru_cache(maxsize=2**10)
def loads(schedule: Schedule, size: int, per_host: int) -> tuple[tuple[Load, int], ...]:
    """The loads of all waves, and how many waves have each. Walks every move of every member, once."""
    whole("loads", "per_host", per_host)
    rounds = zip(*(schedule.moves(member, size) for member in range(size)), strict=True)
    waves = (tuple(islice(rounds, count)) for count in schedule.waves(size))
    return tuple(Counter(_load(wave, per_host) for wave in waves).items())


def _load(wave: Sequence[Sequence[Move]], per_host: int) -> Load:
    left, entered, told, heard, added = (Counter[int]() for _ in range(5))
    for source, target, chunks in (message for moves in wave for message in _messages(moves)):
        here, there = source // per_host, target // per_host
        if here == there:
            told[source] += chunks
            heard[target] += chunks
        else:
            left[here] += chunks
            entered[there] += chunks
    for member, move in (one for moves in wave for one in enumerate(moves)):
        if move.receive is not None and move.add:
            added[member] += move.receive.chunks[1] - move.receive.chunks[0]
    inside = max([*told.values(), *heard.values()], default=0)
    across = max([*left.values(), *entered.values()], default=0)
    return Load(inside, across, max(added.values(), default=0), len(wave))


def _messages(moves: Sequence[Move]) -> Iterator[tuple[int, int, int]]:
    """Who sends to whom in a round, and how many chunks."""
    for member, move in enumerate(moves):
        if move.send is not None:
            yield member, move.send.member, move.send.chunks[1] - move.send.chunks[0]
