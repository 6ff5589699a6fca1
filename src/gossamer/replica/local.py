"""One member's own compute: loss and gradient of its samples at its parameters. Knows no other member."""

from __future__ import annotations

from copy import deepcopy

import torch
from torch import Tensor

from gossamer.replica.layout import Layout
from gossamer.tasks import Batch, Task


class Local:
    """Runs the task's model on parameters that lie in a flat vector, wherever that is."""

    def __init__(self, task: Task, layout: Layout) -> None:
        self._task, self._layout = task, layout
        self._model = deepcopy(task.model)  # the task's own model is never written to
        self._own = [p for p in self._model.parameters() if p.requires_grad]

    def gradient(self, parameters: Tensor, batch: Batch, out: Tensor) -> float:
        """The loss of a batch; its gradient is written to `out`, zero where a parameter was not used."""
        for parameter, view in zip(self._own, self._layout.views(parameters), strict=True):
            parameter.data = view
        loss, _, _ = self._task.loss(self._model, batch)
        slopes = torch.autograd.grad(loss, self._own, materialize_grads=True)
        torch.cat([slope.reshape(-1) for slope in slopes], out=out)
        return loss.item()
