"""How what was heard comes back: adopt it, be pulled to it, step an outer optimizer, or be weighed first.

Plain arithmetic on whatever supports it; knows no network, no optimizer and no member.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from gossamer.parts.payload import Payload
from gossamer.parts.refusal import flag, real
from gossamer.parts.value import Value

if TYPE_CHECKING:
    from torch import Tensor

Memory = dict[str, "Tensor"]

ALL = frozenset(Payload)


@dataclass(frozen=True)
class Told:
    """What a hub knows of one contribution as it counts it: how many versions old it is, the centre as it is now, and
    as it was when the contributor last heard of it."""

    staleness: int
    centre: Tensor
    known: Tensor


class Merge(ABC, Value):
    """`member` is a member's side, `hub` the hub's; values are of the exchange's payload."""

    payloads: ClassVar[frozenset[Payload]] = ALL
    at_hub_only: ClassVar[bool] = False
    answers_with_before: ClassVar[bool] = False  # a hub answers with its centre as it was before the round
    moves_centre_gently: ClassVar[bool] = False  # one contribution alone may move the centre without erasing others
    compares: ClassVar[bool] = False  # a hub must remember what each member last heard

    @property
    def lookahead(self) -> float:
        """The momentum that a member feels before it takes its gradient; 0: none."""
        return 0.0

    def weighed(self, value: Tensor, told: Told, memory: Memory) -> Tensor:
        """What one contribution is worth when a hub counts it."""
        return value

    @abstractmethod
    def member(self, mine: Tensor, heard: Tensor, memory: Memory, size: int) -> Tensor:
        """What a member makes of its own value and what it heard, among `size` workers."""

    @abstractmethod
    def hub(self, centre: Tensor, mean: Tensor, memory: Memory, share: float) -> Tensor:
        """What a hub makes of the mean of a round's contributions, `share` being their number over the workers'.

        Returns the new centre (PARAMETERS), the change of it (DELTAS) or the gradient to step with (GRADIENTS).
        """


@dataclass(frozen=True, repr=False)
class Adopt(Merge):
    """Take what was heard."""

    def member(self, mine: Tensor, heard: Tensor, memory: Memory, size: int) -> Tensor:
        return heard

    def hub(self, centre: Tensor, mean: Tensor, memory: Memory, share: float) -> Tensor:
        return mean


@dataclass(frozen=True, repr=False)
class Share(Merge):
    """At a hub, each contribution counts for its 1/n of the workers, whenever it comes (SSP)."""

    payloads: ClassVar[frozenset[Payload]] = frozenset({Payload.GRADIENTS, Payload.DELTAS})
    at_hub_only: ClassVar[bool] = True

    def member(self, mine: Tensor, heard: Tensor, memory: Memory, size: int) -> Tensor:
        return heard

    def hub(self, centre: Tensor, mean: Tensor, memory: Memory, share: float) -> Tensor:
        return mean * share


@dataclass(frozen=True, repr=False)
class Tempered(Adopt):
    """At a hub, each contribution is divided by its staleness, where that is above 1 (n-softsync)."""

    payloads: ClassVar[frozenset[Payload]] = frozenset({Payload.GRADIENTS, Payload.DELTAS})
    at_hub_only: ClassVar[bool] = True

    def weighed(self, value: Tensor, told: Told, memory: Memory) -> Tensor:
        return value / max(1, told.staleness)


@dataclass(frozen=True, repr=False)
class Compensated(Adopt):
    """At a hub, a late gradient g is moved to where the centre is now: g + strength g g (centre - known) (DC-ASGD).

    Adaptive: strength / sqrt(mean square of g + 1e-7), the mean square being a moving average of 0.95.
    """

    payloads: ClassVar[frozenset[Payload]] = frozenset({Payload.GRADIENTS})
    at_hub_only: ClassVar[bool] = True
    compares: ClassVar[bool] = True

    strength: float = 0.04
    adaptive: bool = False

    def __post_init__(self) -> None:
        real("Compensated", "strength", self.strength, 0.0, 1e6)
        flag("Compensated", "adaptive", self.adaptive)

    def weighed(self, value: Tensor, told: Told, memory: Memory) -> Tensor:
        square = value * value
        return value + self._strength(square, memory) * square * (told.centre - told.known)

    def _strength(self, square: Tensor, memory: Memory) -> Tensor | float:
        if not self.adaptive:
            return self.strength
        before = memory.get("mean square")
        mean = 0.05 * square if before is None else 0.95 * before + 0.05 * square
        memory["mean square"] = mean
        return self.strength / (mean + 1e-7).sqrt()


@dataclass(frozen=True, repr=False)
class Elastic(Merge):
    """Be pulled by a = rate/n: x -= a (x - c); the hub's centre moves by the sum of the opposites (EASGD eqs 3, 4).

    inertia: the centre goes on by this much of its last move (CROSSBOW). lookahead: the member's own momentum d,
    its gradient taken at x + d v, then v = d v + step, x += v (EAMSGD).
    """

    payloads: ClassVar[frozenset[Payload]] = frozenset({Payload.PARAMETERS})
    answers_with_before: ClassVar[bool] = True
    moves_centre_gently: ClassVar[bool] = True

    rate: float = 0.9
    inertia: float = 0.0
    lookahead: float = 0.0

    def __post_init__(self) -> None:
        real("Elastic", "rate", self.rate, 0.0, 1.0, open_low=True)
        real("Elastic", "inertia", self.inertia, 0.0, 1.0, open_high=True)
        real("Elastic", "lookahead", self.lookahead, 0.0, 1.0, open_high=True)

    def member(self, mine: Tensor, heard: Tensor, memory: Memory, size: int) -> Tensor:
        return mine - (self.rate / size) * (mine - heard)

    def hub(self, centre: Tensor, mean: Tensor, memory: Memory, share: float) -> Tensor:
        moved = centre + (self.rate * share) * (mean - centre)
        if self.inertia:
            before = memory.get("centre before")
            memory["centre before"] = centre.clone()
            moved = moved if before is None else moved + self.inertia * (centre - before)
        return moved


@dataclass(frozen=True, repr=False)
class Outer(Merge):
    """Step an outer optimizer along the mean delta d: v = m v + d; move rate (d + m v), or rate v if not Nesterov."""

    payloads: ClassVar[frozenset[Payload]] = frozenset({Payload.DELTAS})

    rate: float = 0.7
    momentum: float = 0.9
    nesterov: bool = True

    def __post_init__(self) -> None:
        real("Outer", "rate", self.rate, 0.0, 100.0, open_low=True)
        real("Outer", "momentum", self.momentum, 0.0, 1.0, open_high=True)
        flag("Outer", "nesterov", self.nesterov)

    def member(self, mine: Tensor, heard: Tensor, memory: Memory, size: int) -> Tensor:
        return self._step(heard, memory)

    def hub(self, centre: Tensor, mean: Tensor, memory: Memory, share: float) -> Tensor:
        return self._step(mean, memory)

    def _step(self, delta: Tensor, memory: Memory) -> Tensor:
        before = memory.get("outer momentum")
        velocity = delta.clone() if before is None else self.momentum * before + delta
        memory["outer momentum"] = velocity
        return self.rate * (delta + self.momentum * velocity if self.nesterov else velocity)
