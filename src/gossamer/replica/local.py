"""One member's own compute: loss and gradient of its samples at its parameters. Knows no other member."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from copy import deepcopy

import torch
from torch import Tensor

from gossamer.parts.chance import draw
from gossamer.parts.world import World
from gossamer.replica.layout import Layout
from gossamer.tasks import Batch, Task

_MODEL = 0x4D  # keeps what a model draws apart from every other use of the seed


class Local:
    """Runs the task's model on parameters that lie in a flat vector; the model's buffers are this one's own.

    What the model draws at random (dropout) is decided by the seed, the step and the member.
    """

    def __init__(self, task: Task, layout: Layout, world: World) -> None:
        self._task, self._layout, self._world = task, layout, world
        self._model = deepcopy(task.model)  # the task's own model is never written to
        self._own = [p for p in self._model.parameters() if p.requires_grad]

    def gradient(self, parameters: Tensor, batch: Batch, out: Tensor, key: tuple[int, int]) -> float:
        """The loss of a batch at `key`, step and member; its gradient is written to `out`, zero where unused."""
        for parameter, view in zip(self._own, self._layout.views(parameters), strict=True):
            parameter.data = view
        with drawing(parameters.device, self._world, key):
            loss, _, _ = self._task.loss(self._model, batch)
        slopes = torch.autograd.grad(loss, self._own, materialize_grads=True)
        torch.cat([slope.reshape(-1) for slope in slopes], out=out)
        return loss.item()

    def buffers(self) -> dict[str, Tensor]:
        """The model's buffers by name: running statistics and the like."""
        return dict(self._model.named_buffers())


@contextmanager
def drawing(device: torch.device, world: World, key: tuple[int, int]) -> Iterator[None]:
    """Torch's own randomness on `device`, for a step and a member; the caller's comes back afterwards."""
    seed, state = draw(world.seed, _MODEL, *key) >> 1, torch.get_rng_state()
    if device.type == "cpu":
        torch.default_generator.manual_seed(seed)  # torch.manual_seed asks every kind of device, which takes 100 us
        yield
    else:
        with torch.random.fork_rng(devices=[device], device_type=device.type):
            torch.manual_seed(seed)
            yield
    torch.set_rng_state(state)
