"""A script of one worker: every strategy that is idle alone trains as the bare loop does, to the bit."""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import gossamer


def train(strategy: str | None) -> list[torch.Tensor]:
    """The parameters after an epoch of an ordinary loop, with clipping, gathering and a NaN."""
    torch.manual_seed(1)
    model = nn.Sequential(nn.Linear(5, 7), nn.Tanh(), nn.Dropout(0.1), nn.Linear(7, 3))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    x = torch.randn(50, 5, generator=torch.Generator().manual_seed(2))
    batches = DataLoader(TensorDataset(x, x[:, :3]), batch_size=8, shuffle=True)
    if strategy is not None:
        model, optimizer, batches = gossamer.prepare(model, optimizer, batches, strategy=strategy)
    for number, (a, b) in enumerate(batches):
        if strategy is not None:
            gossamer_weight(model, a)
        (model(a) - b).square().mean().backward()
        if number % 2:
            nn.utils.clip_grad_norm_(model.parameters(), 0.5)
            optimizer.step()
            optimizer.zero_grad()
    return [p.detach().clone() for p in model.parameters()]


def gossamer_weight(model: nn.Module, batch: torch.Tensor) -> None:
    """What a script for many workers would call; alone it changes nothing."""
    model(batch[:0].detach())
    gossamer.weight(len(batch))


def main() -> None:
    """Compare."""
    torch.set_num_threads(1)
    bare = train(None)
    for strategy in ("allreduce", "allreduce(route=sharded)", "allreduce(route=ring)", "local_sgd", "post_local_sgd"):
        mine = train(strategy)
        assert all(torch.equal(a, b) for a, b in zip(bare, mine, strict=True)), strategy
    assert not dist.is_initialized()
    print("fine")


if __name__ == "__main__":
    main()
