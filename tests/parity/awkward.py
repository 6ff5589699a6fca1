"""Tasks whose models draw at random, keep statistics or read values: nothing that can be batched over members."""

from __future__ import annotations

from collections.abc import Callable

import torch
from tests.parity import small
from torch import Tensor, nn

from gossamer.tasks.task import Batch, Task, classified


def dropped(seed: int = 0) -> Task:
    """Half of the hidden layer is left out at random."""
    return _with(seed, nn.Dropout(0.5))


def normed(seed: int = 0) -> Task:
    """Batch norm, with statistics that each member keeps."""
    return _with(seed, nn.BatchNorm1d(6).double())


def read(seed: int = 0) -> Task:
    """A loss that looks at its own value."""

    def loss(model: Callable[..., Tensor], batch: Batch) -> tuple[Tensor, int, dict[str, Tensor]]:
        value, count, metrics = classified(model, batch)
        return (value * 2 if value.item() > 1.0 else value), count, metrics

    plain = small.task(seed)
    return Task(plain.model, plain.train, plain.test, loss)


def _with(seed: int, layer: nn.Module) -> Task:
    plain = small.task(seed)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = nn.Sequential(nn.Linear(5, 6).double(), layer, nn.Tanh(), nn.Linear(6, 3).double())
    return Task(model, plain.train, plain.test, plain.loss)
