"""A small float64 task that rehearsal and workers build alike, each from the seed."""

from __future__ import annotations

import torch
from torch import nn

from gossamer.tasks.task import Task, classified


def task(seed: int = 0) -> Task:
    """Two layers on made-up data in three classes."""
    generator = torch.Generator().manual_seed(7)
    inputs = torch.randn(240, 5, generator=generator, dtype=torch.float64)
    labels = (inputs[:, 0] > 0).long() + (inputs[:, 1] > 0.5).long()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = nn.Sequential(nn.Linear(5, 6), nn.Tanh(), nn.Linear(6, 3)).double()
    return Task(model, (inputs[:200], labels[:200]), (inputs[200:], labels[200:]), classified)
