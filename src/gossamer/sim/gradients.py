"""Real gradients for many virtual members at once: asked for when a Compute begins, made when the first one is needed.

A member's parameters do not change while it computes, so all members that are computing are evaluated in one batch.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call, grad_and_value, vmap

from gossamer.replica import Layout, Local
from gossamer.tasks import Batch, Task

SLOW_TO_BATCH = (nn.modules.conv._ConvNd,)  # batched over members they become grouped convolutions, slow on CPUs


class Gradients:
    """Fills rows of `gradients` from rows of `parameters`, one row per member."""

    def __init__(self, task: Task, layout: Layout, parameters: Tensor, gradients: Tensor) -> None:
        self._task, self._layout = task, layout
        self._parameters, self._gradients = parameters, gradients
        self._asked: dict[int, Tensor] = {}
        self._losses: dict[int, float] = {}
        self._batched = not any(isinstance(part, SLOW_TO_BATCH) for part in task.model.modules())
        self._local = Local(task, layout)
        self._many: Callable[..., Any] = vmap(grad_and_value(self._loss))

    def ask(self, member: int, indices: Tensor) -> None:
        """A member begins to compute on these samples."""
        self._asked[member] = indices

    def loss(self, member: int) -> float:
        """A member is done computing: its loss; its gradient is in its row."""
        if member in self._asked:
            self._evaluate()
        return self._losses.pop(member)

    def _evaluate(self) -> None:
        members = sorted(self._asked)
        batch = self._task_batch(torch.stack([self._asked[member] for member in members]))
        self._asked = {}
        together = self._together if self._batched and len(members) > 1 else self._one_by_one
        self._losses.update(zip(members, together(members, batch), strict=True))

    def _task_batch(self, indices: Tensor) -> Batch:
        return tuple(part[indices] for part in self._task.train)

    def _loss(self, parameters: dict[str, Tensor], *batch: Tensor) -> Tensor:
        def model(*inputs: Tensor) -> Tensor:
            found: Tensor = functional_call(self._task.model, parameters, inputs)
            return found

        return self._task.loss(model, batch)[0]

    def _together(self, members: list[int], batch: Batch) -> list[float]:
        everybody = len(members) == len(self._parameters)
        rows = self._parameters if everybody else self._parameters[members]
        slopes, losses = self._many(self._layout.named(rows), *batch)
        flat = [slopes[name].reshape(len(members), -1) for name in self._layout.names]
        if everybody:
            torch.cat(flat, dim=1, out=self._gradients)
        else:
            self._gradients[members] = torch.cat(flat, dim=1)
        found: list[float] = losses.tolist()
        return found

    def _one_by_one(self, members: list[int], batch: Batch) -> list[float]:
        return [
            self._local.gradient(
                self._parameters[member], tuple(part[place] for part in batch), self._gradients[member]
            )
            for place, member in enumerate(members)
        ]
