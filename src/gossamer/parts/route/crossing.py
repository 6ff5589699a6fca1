"""What of a schedule crosses from one host to another. Hosts are members one after the other; knows no rates."""

from __future__ import annotations

from collections import Counter
from functools import lru_cache

from gossamer.parts.refusal import whole
from gossamer.parts.route.borders import Borders
from gossamer.parts.route.load import Load
from gossamer.parts.route.schedule import Schedule, extent


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
    """The loads of all waves on hosts of `per_host`, each once, and how many waves have it; worked out once."""
    whole("loads", "per_host", per_host)
    found = Counter[Load]()
    for load, times in schedule.loads(Borders.of(size, per_host)):
        found[load] += times
    return tuple((+found).items())
