"""A route for short wires and another for long ones (P1 on Tencent's hybrid all-reduce)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from gossamer.parts.refusal import kind, whole
from gossamer.parts.route.borders import Borders
from gossamer.parts.route.halving import Doubling
from gossamer.parts.route.load import Loads
from gossamer.parts.route.ring import Ring
from gossamer.parts.route.schedule import Move, Route


@dataclass(frozen=True, repr=False)
class BySize(Route):
    """Wires of up to `limit` bytes travel by `small`, others by `large`; whoever asks nothing is told of `large`."""

    small: Route = Doubling()
    large: Route = Ring()
    limit: int = 65536

    def __post_init__(self) -> None:
        kind("BySize", "small", self.small, Route)
        kind("BySize", "large", self.large, Route)
        whole("BySize", "limit", self.limit)

    def suited(self, nbytes: float) -> Route:
        return (self.small if nbytes <= self.limit else self.large).suited(nbytes)

    def fits(self, size: int) -> None:
        self.small.fits(size)
        self.large.fits(size)

    def chunks(self, size: int) -> int:
        return self.large.chunks(size)

    def moves(self, member: int, size: int) -> Iterator[Move]:
        return self.large.moves(member, size)

    def rounds(self, size: int) -> int:
        return self.large.rounds(size)

    def starts(self, size: int) -> int:
        return self.large.starts(size)

    def waves(self, size: int) -> Iterator[int]:
        return self.large.waves(size)

    def sent(self, size: int, nbytes: float) -> float:
        return self.large.sent(size, nbytes)

    def total(self, size: int, nbytes: float) -> float:
        return self.large.total(size, nbytes)

    def passed(self, size: int, nbytes: float) -> float:
        return self.large.passed(size, nbytes)

    def added(self, size: int, nbytes: float) -> float:
        return self.large.added(size, nbytes)

    def loads(self, borders: Borders) -> Loads:
        return self.large.loads(borders)

    def tally(self, member: int, size: int, length: int) -> tuple[int, int]:
        return self.large.tally(member, size, length)
