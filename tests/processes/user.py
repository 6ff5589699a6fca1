"""What a user brings: small models, data with an uneven end, and a plain loop to compare with."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

Batch = tuple[Tensor, Tensor]
Build = Callable[[Iterable[Tensor]], torch.optim.Optimizer]


def net(dtype: torch.dtype = torch.float64, seed: int = 1, inner: int = 7) -> nn.Module:
    """A small model."""
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(5, inner), nn.Tanh(), nn.Linear(inner, 3)).to(dtype)


def data(count: int, dtype: torch.dtype = torch.float64) -> TensorDataset:
    """Numbers that a small model can learn something from."""
    draw = torch.Generator().manual_seed(7)
    x = torch.randn(count, 5, generator=draw, dtype=torch.float64)
    y = torch.sin(x[:, :3] * 2.0) + 0.1 * torch.randn(count, 3, generator=draw, dtype=torch.float64)
    return TensorDataset(x.to(dtype), y.to(dtype))


def inputs(rank: int, step: int, dtype: torch.dtype = torch.float32) -> Tensor:
    """What a member computes with in a step, unlike any other's."""
    return torch.randn(8, 5, generator=torch.Generator().manual_seed(10 * step + rank)).to(dtype)


def loader(count: int, batch: int, dtype: torch.dtype = torch.float64) -> DataLoader[Batch]:
    """Batches in order."""
    return DataLoader(data(count, dtype), batch_size=batch)


def loss_of(model: nn.Module, batch: Batch) -> Tensor:
    """The mean over a batch."""
    return (model(batch[0]) - batch[1]).square().mean()


def close(mine: nn.Module, theirs: nn.Module, within: float) -> None:
    """Two models are the same, to a relative distance."""
    for (name, a), (_, b) in zip(mine.named_parameters(), theirs.named_parameters(), strict=True):
        apart = (a - b).detach().abs().max().item()
        assert apart <= within * max(1.0, b.detach().abs().max().item()), f"{name} is {apart} off"


def cycle(batches: Iterable[Batch], steps: int) -> Iterable[Batch]:
    """As many batches, over as many epochs as they take."""
    done = 0
    while True:
        for batch in batches:
            if done == steps:
                return
            yield batch
            done += 1


def share(batch: Sequence[Tensor], rank: int, size: int) -> Batch:
    """A member's rows of a batch that all could see."""
    x, y = batch
    return x[rank::size], y[rank::size]
