"""The hierarchical all-reduce: masters speak for their hosts (P1)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain

from gossamer.parts.refusal import Refused, kind, whole
from gossamer.parts.route.borders import Borders
from gossamer.parts.route.lines import climb, logarithm
from gossamer.parts.route.load import Loads, mirrored_loads
from gossamer.parts.route.ring import Ring
from gossamer.parts.route.schedule import IDLE, Hop, Move, Route, mirrored


@dataclass(frozen=True, repr=False)
class Hierarchical(Route):
    """Reduce to a master inside each host, all-reduce whole vectors `among` the masters, broadcast inside (P1).

    Hosts are `per_host` members one after the other, the first of each its master; the last host may be smaller.
    Inside a host a binomial tree. Masters send most.
    """

    per_host: int = 4
    among: Route = Ring()

    def __post_init__(self) -> None:
        whole("Hierarchical", "per_host", self.per_host, 1, 2**20)
        kind("Hierarchical", "among", self.among, Route)

    def hosts(self, size: int) -> int:
        """How many hosts, and so masters, there are."""
        return -(-size // self.per_host)

    def suited(self, nbytes: float) -> Route:
        return Hierarchical(self.per_host, self.among.suited(nbytes))

    def fits(self, size: int) -> None:
        try:
            self.among.fits(self.hosts(size))
        except Refused as error:
            raise Refused(f"Hierarchical, among masters: {error.reason}", f"among={error.nearest}") from None

    def chunks(self, size: int) -> int:
        return self.among.chunks(self.hosts(size))

    def moves(self, member: int, size: int) -> Iterator[Move]:
        host, place = divmod(member, self.per_host)
        first, deep, hosts = host * self.per_host, self._depth(size), self.hosts(size)
        line = range(first, min(first + self.per_host, size))
        inside = list(climb(line, place, (0, self.chunks(size))))
        inside += [IDLE] * (deep - len(inside))
        yield from inside
        for move in self.among.moves(host, hosts) if place == 0 else [IDLE] * self.among.rounds(hosts):
            yield Move(self._master(move.send), self._master(move.receive), move.add)
        yield from mirrored(inside)

    def rounds(self, size: int) -> int:
        return 2 * self._depth(size) + self.among.rounds(self.hosts(size))

    def starts(self, size: int) -> int:
        return 2 * self._depth(size) + self.among.starts(self.hosts(size))

    def waves(self, size: int) -> Iterator[int]:
        inside = [1] * self._depth(size)
        return chain(inside, self.among.waves(self.hosts(size)), inside)

    def sent(self, size: int, nbytes: float) -> float:
        return self._depth(size) * nbytes + self.among.sent(self.hosts(size), nbytes)

    def total(self, size: int, nbytes: float) -> float:
        return 2.0 * nbytes * (size - self.hosts(size)) + self.among.total(self.hosts(size), nbytes)

    def passed(self, size: int, nbytes: float) -> float:
        return 2 * self._depth(size) * nbytes + self.among.passed(self.hosts(size), nbytes)

    def added(self, size: int, nbytes: float) -> float:
        return self._depth(size) * nbytes + self.among.added(self.hosts(size), nbytes)

    def loads(self, borders: Borders) -> Loads:
        """Masters are every `per_host`-th member: what they do among each other is on hosts of as many as each has."""
        every, whole = self.per_host, self.chunks(borders.size)
        climbs = (borders.climbed(1 << t, every).load(whole, add=True) for t in range(self._depth(borders.size)))
        masters = Borders.among(-(-at // every) for at in borders.at)
        return chain(mirrored_loads((load, 1) for load in climbs), self.among.loads(masters))

    def tally(self, member: int, size: int, length: int) -> tuple[int, int]:
        """Every whole vector that goes up the tree comes down again."""
        host, place = divmod(member, self.per_host)
        line = range(min(self.per_host, size - host * self.per_host))
        both = length * sum(move is not IDLE for move in climb(line, place, (0, 1)))
        sent, received = self.among.tally(host, self.hosts(size), length) if place == 0 else (0, 0)
        return both + sent, both + received

    def _depth(self, size: int) -> int:
        """Rounds of the tree inside a full host."""
        return logarithm(min(self.per_host, size))

    def _master(self, hop: Hop | None) -> Hop | None:
        """A hop between hosts as one between their masters."""
        return None if hop is None else Hop(hop.member * self.per_host, hop.chunks)
