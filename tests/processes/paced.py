"""The digits with a pause in every step, so that members of a crew keep about the same pace on however few cores."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace

from torch import Tensor, nn

from gossamer.tasks import Batch, Task, build


def digits(seed: int = 0, hidden: int = 32, pause: float = 0.0) -> Task:
    """The digits; their loss takes `pause` seconds longer, in which other members compute."""
    task = build("digits", seed, {"hidden": hidden})

    def loss(model: nn.Module, batch: Batch) -> tuple[Tensor, int, Mapping[str, float | Tensor]]:
        time.sleep(pause)
        return task.loss(model, batch)

    return replace(task, loss=loss)
