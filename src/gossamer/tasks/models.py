"""The small models of our tasks. No batch norm: its statistics would make k workers differ from one."""

from __future__ import annotations

import torch
from torch import nn

from gossamer.parts.refusal import Refused, whole

WIDEST = 8192  # units of a hidden layer
HEAVIEST = 2**27  # weights in hidden layers: half a gigabyte of 32-bit floats


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


def cnn(features: int, hidden: int, classes: int) -> nn.Module:
    """Two convolutions, one pooling, one hidden layer; `features` come out of the pooling."""
    return nn.Sequential(
        nn.Conv2d(1, 8, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(8, 16, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(features, hidden),
        nn.ReLU(),
        nn.Linear(hidden, classes),
    )


def image_model(name: str, height: int, width: int, hidden: int, classes: int, seed: int) -> nn.Module:
    """The named model for images of this size, its parameters drawn from the seed alone."""
    if name not in ("mlp", "cnn"):
        raise Refused(f"task: there is no model {name!r}", "mlp or cnn")
    if name == "cnn" and min(height, width) < 2:
        raise Refused(f"task: a cnn pools pixels two by two, and images of {height} x {width} have too few", "mlp")
    features = height * width if name == "mlp" else 16 * (height // 2) * (width // 2)
    bounded("task", features, hidden, again=name == "mlp")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return (mlp if name == "mlp" else cnn)(features, hidden, classes)


def bounded(owner: str, inputs: int, hidden: int, *, again: bool = False) -> None:
    """Refuse hidden layers that no small model has, before memory is asked for; `again`: a second one follows."""
    whole(owner, "hidden", hidden, 1, WIDEST)
    weights = hidden * (inputs + again * hidden)
    if weights > HEAVIEST:
        most = HEAVIEST * hidden // weights
        told = f"hidden={hidden} on {inputs:,} inputs makes {weights:,} weights, more than {HEAVIEST:,}"
        raise Refused(f"{owner}: {told}", f"hidden={most}" if most else None)
