"""Scripted trouble, one script for every player: who is slow or dies, and when. Knows no clock."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

from gossamer.parts.refusal import Refused, real, whole
from gossamer.parts.value import Value


class Trouble(ABC, Value):
    """One line of the script."""

    @abstractmethod
    def slowdown(self, member: int, step: int) -> float:
        """How many times longer this member's compute takes at this step."""

    @abstractmethod
    def fatal(self, member: int, step: int) -> bool:
        """Whether this member dies as it begins this step."""

    @abstractmethod
    def worst_rank(self) -> int:
        """The largest rank the line names."""


@dataclass(frozen=True, repr=False)
class Slow(Trouble):
    """`rank` computes `factor` times longer from step `start` to before step `stop`."""

    rank: int
    factor: float
    start: int = 0
    stop: int | None = None

    def __post_init__(self) -> None:
        whole("slow", "rank", self.rank, 0, 2**20)
        real("slow", "factor", self.factor, 1.0, 1e6)
        whole("slow", "start", self.start, 0)
        if self.stop is not None:
            whole("slow", "stop", self.stop, self.start + 1)

    def slowdown(self, member: int, step: int) -> float:
        inside = self.start <= step and (self.stop is None or step < self.stop)
        return self.factor if member == self.rank and inside else 1.0

    def fatal(self, member: int, step: int) -> bool:
        return False

    def worst_rank(self) -> int:
        return self.rank


@dataclass(frozen=True, repr=False)
class Fail(Trouble):
    """`rank` dies as it begins step `step`."""

    rank: int
    step: int

    def __post_init__(self) -> None:
        whole("fail", "rank", self.rank, 0, 2**20)
        whole("fail", "step", self.step, 0)

    def slowdown(self, member: int, step: int) -> float:
        return 1.0

    def fatal(self, member: int, step: int) -> bool:
        return member == self.rank and step >= self.step

    def worst_rank(self) -> int:
        return self.rank


@dataclass(frozen=True)
class Script:
    """All lines of trouble of a run; their slowdowns multiply."""

    lines: tuple[Trouble, ...] = ()

    def slowdown(self, member: int, step: int) -> float:
        """The product of all lines' slowdowns."""
        product = 1.0
        for line in self.lines:
            product *= line.slowdown(member, step)
        return product

    def fatal(self, member: int, step: int) -> bool:
        """Whether any line kills the member at this step."""
        return any(line.fatal(member, step) for line in self.lines)

    def among(self, size: int) -> Script:
        """Only the lines about so many first ranks."""
        return Script(tuple(line for line in self.lines if line.worst_rank() < size))

    def fits(self, size: int) -> None:
        """Refuse a script that names a rank the world does not have."""
        for line in self.lines:
            if line.worst_rank() >= size:
                raise Refused(f"{line!r} names rank {line.worst_rank()}, but the ranks are 0 to {size - 1}")
