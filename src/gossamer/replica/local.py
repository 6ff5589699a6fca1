"""One member's own compute: loss and gradient of its samples at its parameters. Knows no other member."""

from __future__ import annotations

from copy import deepcopy

import torch
from torch import Tensor

from gossamer.parts.chance import draw
from gossamer.parts.world import World
from gossamer.replica.layout import Layout
from gossamer.tasks import Batch, Task

_MODEL = 0x4D  # keeps what a model draws apart from every other use of the seed


class Local:
    """Runs the task's model on parameters that lie in a flat vector; its buffers are the member's own.

    What the model draws at random (dropout) is decided by the seed, the step and the member.
    """

    def __init__(self, task: Task, layout: Layout, world: World, member: int) -> None:
        self._task, self._layout, self._world, self._member = task, layout, world, member
        self._model = deepcopy(task.model)  # the task's own model is never written to
        self._own = [p for p in self._model.parameters() if p.requires_grad]

    def gradient(self, parameters: Tensor, batch: Batch, out: Tensor, step: int) -> float:
        """The loss of a batch; its gradient is written to `out`, zero where a parameter was not used."""
        for parameter, view in zip(self._own, self._layout.views(parameters), strict=True):
            parameter.data = view
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(draw(self._world.seed, _MODEL, step, self._member) >> 1)
            loss, _, _ = self._task.loss(self._model, batch)
        slopes = torch.autograd.grad(loss, self._own, materialize_grads=True)
        torch.cat([slope.reshape(-1) for slope in slopes], out=out)
        return loss.item()

    def buffers(self) -> dict[str, Tensor]:
        """The model's buffers by name: running statistics and the like."""
        return dict(self._model.named_buffers())
