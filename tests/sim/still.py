"""A task that does not learn, to see mixing alone: its gradient is zero, and replicas start apart."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from gossamer.parts.world import World
from gossamer.sim import Outcome, Plan, Rehearsal
from gossamer.strategy import parse
from gossamer.tasks.task import Batch, Task


def flat(model: Callable[..., Tensor], batch: Batch) -> tuple[Tensor, int, dict[str, Tensor]]:
    """A loss without slope."""
    return (model(batch[0]) * 0).sum(), len(batch[0]), {}


def task() -> Task:
    model = nn.Linear(4, 2).double()
    data = (torch.zeros(200, 4, dtype=torch.float64),)
    return Task(model, data, data, flat)


def mixed(expression: str, size: int, steps: int) -> tuple[Tensor, Outcome, Rehearsal]:
    """Start replicas apart, mix, and return (how they started, what happened, the rehearsal)."""
    rehearsal = Rehearsal(Plan(task(), parse(expression), World(size), batch=1, steps=steps))
    apart = torch.randn(rehearsal.parameters.shape, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    rehearsal.parameters.copy_(apart)
    return apart, rehearsal.run(), rehearsal
