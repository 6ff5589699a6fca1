"""When an exchange happens, how stale and how delayed it may be, and how many must be in. Knows no members."""

from __future__ import annotations

from dataclasses import dataclass

from gossamer.parts.payload import Order
from gossamer.parts.refusal import Refused, kind, whole
from gossamer.parts.value import Value, Word


class Late(Word):
    """What a hub does with a contribution whose round is closed: DROP it, or APPLY it to the open round."""

    DROP = "drop"
    APPLY = "apply"


@dataclass(frozen=True, repr=False)
class AllBut(Value):
    """A quorum counted from the other end: everybody but `count` (N of N+b backup workers is AllBut(b))."""

    count: int

    def __post_init__(self) -> None:
        whole("AllBut", "count", self.count, 1, 2**20)


@dataclass(frozen=True, repr=False)
class OneIn(Value):
    """A quorum that grows with the world: one contribution in `count` workers, floor(n / count) (n-softsync)."""

    count: int

    def __post_init__(self) -> None:
        whole("OneIn", "count", self.count, 1, 2**20)


@dataclass(frozen=True, repr=False)
class Synchrony(Value):
    """The clock of one exchange.

    every: local updates between two exchanges. staleness: how many steps a member may be ahead of the slowest
    (0 in step, None unbounded). delay: steps between Send and Settle. quorum: contributions that close a round
    at a hub (None: everybody). late: what happens to the others.
    """

    every: int = 1
    staleness: int | None = 0
    delay: int = 0
    quorum: int | AllBut | OneIn | None = None
    late: Late = Late.DROP

    def __post_init__(self) -> None:
        whole("Synchrony", "every", self.every, 1, 10**9)
        if self.staleness is not None:
            whole("Synchrony", "staleness", self.staleness, 0, 10**6)
        whole("Synchrony", "delay", self.delay, 0, 1000)
        if self.quorum is not None and not isinstance(self.quorum, AllBut | OneIn):
            whole("Synchrony", "quorum", self.quorum, 1, 2**20)
        kind("Synchrony", "late", self.late, Late)
        if self.delay and self.staleness != 0:
            raise Refused(
                "Synchrony: a delayed answer already is stale; delay and staleness do not add up",
                f"Synchrony(staleness={self.staleness})",
            )
        if self.delay and self.quorum is not None:
            raise Refused(
                "Synchrony: a quorum answers the round that is open; a delay asks for a closed one", "delay=0"
            )
        if self.late is Late.APPLY and self.quorum is None:
            raise Refused("Synchrony: nobody is late when everybody must be in", "late=DROP")

    def closes(self, size: int) -> int:
        """How many contributions close a round among `size` workers."""
        if isinstance(self.quorum, AllBut):
            return size - self.quorum.count
        if isinstance(self.quorum, OneIn):
            return size // self.quorum.count
        return size if self.quorum is None else self.quorum

    def due(self, step: int, order: Order) -> bool:
        """Whether `every` local updates have passed: counted before the step's own update, or after it."""
        done = step if order is Order.BEFORE else step + 1
        return done % self.every == 0

    def round(self, step: int, order: Order) -> int:
        """The number of this exchange among those that were due, from 0."""
        return step // self.every if order is Order.BEFORE else (step + 1) // self.every - 1
