"""The local update: which of torch's own optimizers steps a member's parameters, as a frozen value."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from gossamer.parts.merge import Share
from gossamer.parts.refusal import Refused, real
from gossamer.parts.value import Value
from gossamer.strategy import AnyStrategy, slots

if TYPE_CHECKING:
    import torch

NAMES = ("sgd", "nesterov", "adam", "adamw", "lars", "lamb", "rmsprop_to_sgd")
BY_TENSOR = ("lars", "lamb")  # whose step of one number depends on its whole tensor


@dataclass(frozen=True, repr=False)
class Optimizer(Value):
    """`sgd`, `nesterov`, `lars` and `rmsprop_to_sgd` use `momentum`; `adam`, `adamw` and `lamb` keep torch's own betas.

    `trust` is LARS's. What `lars` and `lamb` do not decay, biases and norms, the others do, unless a group says no.
    """

    name: str = "sgd"
    rate: float = 0.1
    momentum: float = 0.0
    decay: float = 0.0
    trust: float = 0.001

    def __post_init__(self) -> None:
        if self.name not in NAMES:
            raise Refused(f"optimizer: there is no {self.name!r}", ", ".join(NAMES))
        real("optimizer", "rate", self.rate, 0.0, 1e4, open_low=True)
        real("optimizer", "momentum", self.momentum, 0.0, 1.0, open_high=True)
        real("optimizer", "decay", self.decay, 0.0, 1.0)
        real("optimizer", "trust", self.trust, 0.0, 1e6, open_low=True)
        if self.momentum and (self.name.startswith("adam") or self.name == "lamb"):
            raise Refused(f"optimizer: {self.name} has its own momentum", "momentum=0")
        if self.name == "nesterov" and not self.momentum:
            raise Refused("optimizer: nesterov without momentum is plain sgd", "momentum=0.9")

    def build(self, parameters: Iterable[torch.Tensor | dict[str, Any]]) -> torch.optim.Optimizer:
        """The torch optimizer over `parameters`, or over groups of them with settings of their own."""
        import torch

        given: Any = list(parameters)
        if self.name == "lars":
            from gossamer.recipes.lars import LARS

            return LARS(given, self.rate, self.momentum, self.decay, self.trust)
        if self.name == "lamb":
            from gossamer.recipes.lars import LAMB

            return LAMB(given, self.rate, weight_decay=self.decay)
        if self.name == "rmsprop_to_sgd":
            from gossamer.recipes.warm import RMSpropToSGD

            return RMSpropToSGD(given, self.rate, self.momentum, self.decay)
        if self.name == "adam":
            return torch.optim.Adam(given, lr=self.rate, weight_decay=self.decay)
        if self.name == "adamw":
            return torch.optim.AdamW(given, lr=self.rate, weight_decay=self.decay)
        return torch.optim.SGD(
            given,
            lr=self.rate,
            momentum=self.momentum,
            weight_decay=self.decay,
            nesterov=self.name == "nesterov",
        )

    @property
    def by_tensor(self) -> bool:
        """Whether a step of one tensor depends on no other."""
        return True

    def settings(self) -> bytes:
        """Nothing: they never change."""
        return b"[]"

    @property
    def paced(self) -> bool:
        """Whether its step changes with the moment of the run, whatever the rate does."""
        return self.name == "rmsprop_to_sgd"

    @property
    def elementwise(self) -> bool:
        """Whether a step of one number depends on its own past alone."""
        return self.name not in BY_TENSOR

    def over_places(self, placed: Sequence[tuple[int, torch.Tensor]]) -> torch.optim.Optimizer:
        """One over tensors, or pieces of them, wherever they belong."""
        return self.build([tensor for _, tensor in placed])

    def suits(self, strategy: AnyStrategy) -> None:
        """Refuse a strategy that this optimizer would spoil."""
        suited(strategy, self.name, self.momentum, self.decay)


def suited(strategy: AnyStrategy, name: str, momentum: float, decay: float) -> None:
    """Refuse a strategy whose codec or merge keeps the momentum itself when the optimizer has one too."""
    for exchange in slots(strategy):
        if isinstance(exchange.merge, Share) and exchange.updates_at_hub and (decay or "adam" in name):
            raise Refused(
                f"{exchange.merge!r} gives each gradient its share; {name} with decay {decay} would still"
                " take a whole step for each",
                "optimizer sgd without decay",
            )
        if exchange.codec.owns_momentum and (momentum or name != "sgd"):
            raise Refused(
                f"{exchange.codec!r} keeps the momentum itself; optimizer {name} would apply another on top",
                f"optimizer sgd with momentum 0, and momentum={momentum or 0.9} in the codec",
            )
        if exchange.merge.lookahead and (momentum or name != "sgd"):
            raise Refused(
                f"{exchange.merge!r} keeps the momentum itself; optimizer {name} would apply another on top",
                f"optimizer sgd with momentum 0, and lookahead={momentum or 0.9} in the merge",
            )
