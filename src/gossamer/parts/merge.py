"""How what was heard comes back: adopt it, be pulled to it, step an outer optimizer, or count for a share.

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


class Merge(ABC, Value):
    """`member` is a member's side, `hub` the hub's; values are of the exchange's payload."""

    payloads: ClassVar[frozenset[Payload]] = ALL
    at_hub_only: ClassVar[bool] = False
    answers_with_before: ClassVar[bool] = False  # a hub answers with its centre as it was before the round
    moves_centre_gently: ClassVar[bool] = False  # one contribution alone may move the centre without erasing others

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
class Elastic(Merge):
    """Be pulled by a = rate/n: x -= a (x - c); the hub's centre moves by the sum of the opposites (EASGD eqs 3, 4)."""

    payloads: ClassVar[frozenset[Payload]] = frozenset({Payload.PARAMETERS})
    answers_with_before: ClassVar[bool] = True
    moves_centre_gently: ClassVar[bool] = True

    rate: float = 0.9

    def __post_init__(self) -> None:
        real("Elastic", "rate", self.rate, 0.0, 1.0, open_low=True)

    def member(self, mine: Tensor, heard: Tensor, memory: Memory, size: int) -> Tensor:
        return mine - (self.rate / size) * (mine - heard)

    def hub(self, centre: Tensor, mean: Tensor, memory: Memory, share: float) -> Tensor:
        return centre + (self.rate * share) * (mean - centre)


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
