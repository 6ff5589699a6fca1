"""The small models of our tasks. No batch norm: its statistics would make k workers differ from one."""

from __future__ import annotations

import torch
from torch import nn

from gossamer.parts.refusal import Refused, whole


def mlp(features: int, hidden: int, classes: int) -> nn.Module:
    """Two hidden layers."""
    return nn.Sequential(
        nn.Flatten(),
        nn.Linear(features, hidden),
        nn.ReLU(),
        nn.Linear(hidden, hidden),
        nn.ReLU(),
        nn.Linear(hidden, classes),
    )


def cnn(side: int, hidden: int, classes: int) -> nn.Module:
    """Two convolutions, one pooling, one hidden layer."""
    return nn.Sequential(
        nn.Conv2d(1, 8, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(8, 16, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(16 * (side // 2) ** 2, hidden),
        nn.ReLU(),
        nn.Linear(hidden, classes),
    )


def image_model(name: str, side: int, hidden: int, classes: int, seed: int) -> nn.Module:
    """The named model for square images, its parameters drawn from the seed alone."""
    whole("task", "hidden", hidden, 1, 10**6)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        if name == "mlp":
            return mlp(side * side, hidden, classes)
        if name == "cnn":
            return cnn(side, hidden, classes)
    raise Refused(f"task: there is no model {name!r}", "mlp or cnn")
