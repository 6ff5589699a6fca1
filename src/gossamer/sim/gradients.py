"""Real gradients for many virtual members at once: asked for when a Compute begins, made when the first one is needed.

A member's parameters do not change while it computes, so all members that are computing are evaluated in one batch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call, grad_and_value, vmap

from gossamer.parts.world import World
from gossamer.replica import Layout, Local
from gossamer.tasks import Batch, Task

APART = (
    nn.modules.conv._ConvNd,  # batched over members they become grouped convolutions, slow on CPUs
    nn.modules.batchnorm._NormBase,  # keeps statistics of its own
)


class Gradients:
    """Fills rows of `gradients` from rows of `parameters`, one row per member."""

    def __init__(self, task: Task, layout: Layout, world: World, parameters: Tensor, gradients: Tensor) -> None:
        self._task, self._layout, self._world = task, layout, world
        self._parameters, self._gradients = parameters, gradients
        self._asked: dict[int, tuple[int, Tensor]] = {}
        self._losses: dict[int, float] = {}
        self._batched = not any(isinstance(part, APART) for part in task.model.modules())
        self._keeps = any(True for _ in task.model.buffers())
        self._locals: dict[int, Local] = {}
        self._many: Callable[..., Any] = vmap(grad_and_value(self._loss))

    def ask(self, member: int, step: int, indices: Tensor) -> None:
        """A member begins to compute a step on these samples."""
        self._asked[member] = (step, indices)

    def buffers(self, members: Sequence[int]) -> dict[str, Tensor]:
        """What the members' buffers are on average; those that are no floating numbers, as the first has them."""
        found = [self._locals[member].buffers() for member in members if member in self._locals]
        if not found:
            return dict(self._task.model.named_buffers())
        means = {name: torch.stack([each[name] for each in found]) for name in found[0]}
        return {name: many.mean(0) if many.is_floating_point() else many[0] for name, many in means.items()}

    def settle(self, member: int) -> None:
        """A member's parameters are about to change: what it was asked for must be made of what they are now."""
        if member in self._asked:
            self._evaluate()

    def loss(self, member: int) -> float:
        """A member is done computing: its loss; its gradient is in its row."""
        self.settle(member)
        return self._losses.pop(member)

    def _evaluate(self) -> None:
        members, asked = sorted(self._asked), self._asked
        batch = tuple(part[torch.stack([asked[member][1] for member in members])] for part in self._task.train)
        self._asked = {}
        losses = self._together(members, batch) if self._batched and len(members) > 1 else None
        if losses is None:
            losses = [
                self._alone(member, asked[member][0], tuple(part[place] for part in batch))
                for place, member in enumerate(members)
            ]
        self._losses.update(zip(members, losses, strict=True))

    def _loss(self, parameters: dict[str, Tensor], *batch: Tensor) -> Tensor:
        def model(*inputs: Tensor) -> Tensor:
            found: Tensor = functional_call(self._task.model, parameters, inputs)
            return found

        return self._task.loss(model, batch)[0]

    def _together(self, members: list[int], batch: Batch) -> list[float] | None:
        """All members' losses in one go; None where the model will not have it: it draws at random, reads a value."""
        everybody = len(members) == len(self._parameters)
        rows = self._parameters if everybody else self._parameters[members]
        try:
            slopes, losses = self._many(self._layout.named(rows), *batch)
        except Exception:  # whatever is the model's own fault shows again when it is asked alone
            self._batched = False
            return None
        flat = [slopes[name].reshape(len(members), -1) for name in self._layout.names]
        if everybody:
            torch.cat(flat, dim=1, out=self._gradients)
        else:
            self._gradients[members] = torch.cat(flat, dim=1)
        found: list[float] = losses.tolist()
        return found

    def _alone(self, member: int, step: int, batch: Batch) -> float:
        return self._local(member).gradient(self._parameters[member], batch, self._gradients[member], (step, member))

    def _local(self, member: int) -> Local:
        """The member's own where the model keeps something in buffers, else one for all."""
        owner = member if self._keeps else 0
        if owner not in self._locals:
            self._locals[owner] = Local(self._task, self._layout, self._world)
        return self._locals[owner]
