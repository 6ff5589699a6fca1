"""The operations all-reduces are composed of: reduce-scatter, all-gather, reduce and broadcast, as schedules."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from gossamer.parts.refusal import Refused, whole
from gossamer.parts.route.borders import Borders
from gossamer.parts.route.lines import climb, gather, logarithm, scatter
from gossamer.parts.route.load import Loads
from gossamer.parts.route.schedule import Move, Schedule, mirrored


class Operation(Schedule):
    """A collective of its own; everybody starts with a vector, and every number is sent by all but one."""

    def total(self, size: int, nbytes: float) -> float:
        return nbytes * (size - 1)


@dataclass(frozen=True, repr=False)
class ReduceScatter(Operation):
    """Along a ring: member i ends with the sum of chunk i; what it holds of the others is spoilt."""

    def chunks(self, size: int) -> int:
        return size

    def moves(self, member: int, size: int) -> Iterator[Move]:
        return scatter(range(size), member)

    def claim(self, member: int, size: int) -> Mapping[int, frozenset[int]]:
        return {member: frozenset(range(size))}

    def loads(self, borders: Borders) -> Loads:
        if borders.size > 1:
            yield borders.circled(borders.size).load(1, add=True), borders.size - 1

    def rounds(self, size: int) -> int:
        return size - 1

    def sent(self, size: int, nbytes: float) -> float:
        return nbytes * (size - 1) / size


@dataclass(frozen=True, repr=False)
class AllGather(Operation):
    """Along a ring: everybody ends with chunk i as member i had it."""

    def chunks(self, size: int) -> int:
        return size

    def moves(self, member: int, size: int) -> Iterator[Move]:
        return gather(range(size), member)

    def claim(self, member: int, size: int) -> Mapping[int, frozenset[int]]:
        return {chunk: frozenset([chunk]) for chunk in range(size)}

    def loads(self, borders: Borders) -> Loads:
        if borders.size > 1:
            yield borders.circled(borders.size).load(1, add=False), borders.size - 1

    def rounds(self, size: int) -> int:
        return size - 1

    def sent(self, size: int, nbytes: float) -> float:
        return nbytes * (size - 1) / size


class Rooted(Operation):
    """An operation in which one member, the root, has a part of its own, over a binomial tree."""

    root: int
    adds: ClassVar[bool]  # what is heard is added

    def __post_init__(self) -> None:
        whole(type(self).__name__, "root", self.root, 0, 2**20 - 1)

    def fits(self, size: int) -> None:
        if self.root >= size:
            raise Refused(f"{self!r}: there are members 0 to {size - 1} only", f"root={size - 1}")

    def chunks(self, size: int) -> int:
        return 1

    def rounds(self, size: int) -> int:
        return logarithm(size)

    def passed(self, size: int, nbytes: float) -> float:
        return logarithm(size) * nbytes

    def loads(self, borders: Borders) -> Loads:
        if self.root not in borders.at:  # its host lies at both ends of the line
            yield from super().loads(borders)
            return
        size = borders.size
        line = Borders.among((*((at - self.root) % size for at in borders.at), size))
        for t in range(logarithm(size)):
            yield line.climbed(1 << t, size).load(1, add=self.adds), 1

    def _line(self, member: int, size: int) -> tuple[Sequence[int], int]:
        """Everybody from the root on, and this member's place among them."""
        line = [*range(self.root, size), *range(self.root)] if self.root else range(size)
        return line, (member - self.root) % size


@dataclass(frozen=True, repr=False)
class Reduce(Rooted):
    """Up the tree: the root ends with the sum."""

    adds = True

    root: int = 0

    def moves(self, member: int, size: int) -> Iterator[Move]:
        return climb(*self._line(member, size), (0, 1))

    def claim(self, member: int, size: int) -> Mapping[int, frozenset[int]]:
        return {0: frozenset(range(size))} if member == self.root else {}

    def sent(self, size: int, nbytes: float) -> float:
        return nbytes if size > 1 else 0.0


@dataclass(frozen=True, repr=False)
class Broadcast(Rooted):
    """Down the tree of `Reduce`: everybody ends with the vector of the root, which sends most."""

    adds = False

    root: int = 0

    def moves(self, member: int, size: int) -> Iterator[Move]:
        return mirrored(climb(*self._line(member, size), (0, 1)))

    def claim(self, member: int, size: int) -> Mapping[int, frozenset[int]]:
        return {0: frozenset([self.root])}

    def sent(self, size: int, nbytes: float) -> float:
        return logarithm(size) * nbytes
