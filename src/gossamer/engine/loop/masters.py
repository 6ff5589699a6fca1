"""What stands between a model of 16 bits and the course that steps its 32-bit masters. Knows no exchange.

The course lays out, exchanges, steps and keeps the masters; weights are rounded to them, and gradients come from there.
Where the optimizer steps the model's own weights there are none, and nothing here does anything.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from gossamer.recipes.master import Master

if TYPE_CHECKING:
    from gossamer.engine.loop.strand import Strand


class Masters:
    """The masters of one optimizer, as the user holds it, with the weights that are rounded to them."""

    def __init__(self, optimizer: torch.optim.Optimizer) -> None:
        self.owner, self.by = optimizer, 1.0  # `by` takes the scale of the loss off, once 32 bits are there
        self._held = optimizer if isinstance(optimizer, Master) else None
        self._pairs = [] if self._held is None else self._held.pairs
        self._weights = {id(master): weight for weight, master in self._pairs}
        self._masters = {id(weight): master for weight, master in self._pairs}
        for weight, master in self._pairs:
            master.requires_grad_(weight.requires_grad)

    @property
    def any(self) -> bool:
        """Whether there are any."""
        return self._held is not None

    @property
    def inner(self) -> torch.optim.Optimizer:
        """What steps them; else the user's optimizer itself."""
        return self.owner if self._held is None else self._held.inner

    def named(self, weights: Iterable[tuple[str, Tensor]]) -> list[tuple[str, Tensor]]:
        """What is stepped, by the names that the model has for its weights."""
        return [(name, self._masters.get(id(weight), weight)) for name, weight in weights]

    def weight(self, tensor: Tensor) -> Tensor:
        """What the model has of a tensor that is stepped: that very tensor, unless it is a master."""
        return self._weights.get(id(tensor), tensor)

    def forget(self) -> None:
        """A backward begins: gradients of masters are taken from it anew, unless the user has taken them already."""
        for _, master in () if self._taken else self._pairs:
            master.grad = None

    def take(self, master: Tensor) -> None:
        """The gradient of a weight is complete: it is its master's, in 32 bits."""
        if self.any:
            slope = self.weight(master).grad
            master.grad = None if slope is None else slope.float()

    def take_rest(self) -> None:
        """Gradients that came in an earlier backward, or that nobody told of."""
        for weight, master in self._pairs:
            if master.grad is None and weight.grad is not None:
                self.take(master)

    def show(self, strand: Strand) -> None:
        """What was mixed is the gradient of the weights, for whoever clips it or looks at it."""
        for master in [strand.tensors[place] for place in strand.due.places] if self.any else ():
            weight = self.weight(master)
            weight.grad = None if master.grad is None else master.grad.to(weight.dtype)

    def hear(self) -> None:
        """Masters are stepped with what the user left in the weights' gradients, less the scale of the loss; or in
        their own, where it was taken there."""
        for _, master in () if self._taken else self._pairs:
            self.take(master)
            if self.by != 1.0 and master.grad is not None:
                master.grad = master.grad * self.by
        self.by = 1.0
        if self._held is not None:
            self._held.taken = False

    @property
    def _taken(self) -> bool:
        return self._held is not None and self._held.taken

    def scaled(self, by: float) -> None:
        """The loss was scaled: `by` takes that off what is heard, unless the user has taken it off himself."""
        self.by = 1.0 if self._taken else by

    def follow(self) -> None:
        """Masters, and the optimizer within, are as the user has made the weights and the settings since."""
        if self._held is not None:
            self._held.follow()

    def step(self) -> None:
        """Step the masters; whoever waits for a step of the user's optimizer is told."""
        for hook in self.owner._optimizer_step_pre_hooks.values():
            hook(self.owner, (), {})
        self.inner.step()
        for hook in self.owner._optimizer_step_post_hooks.values():
            hook(self.owner, (), {})

    def round(self, strands: Sequence[Strand]) -> None:
        """Weights are what masters are now, whoever changed them."""
        if self._held is None:
            return
        for strand in strands:
            with strand.stepper.still():
                self._held.round(strand.tensors)

    def loaded(self, strands: Sequence[Strand]) -> None:
        """Masters and the settings of the optimizer within are those of a checkpoint: so are the user's."""
        if self._held is not None:
            self._held.heed()
            self.round(strands)
