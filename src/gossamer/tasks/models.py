"""The small models of our tasks. Only one has batch norm: its statistics make k workers differ from one."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from gossamer.parts.refusal import Refused, whole

WIDEST = 8192  # units of a hidden layer
HEAVIEST = 2**27  # weights in hidden layers: half a gigabyte of 32-bit floats
WIDTH = 16  # channels of the residual blocks


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


class Residual(nn.Module):
    """x + two convolutions of x, each with batch norm."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.first, self.second = (nn.Conv2d(width, width, 3, padding=1, bias=False) for _ in range(2))
        self.norm1, self.norm2 = (nn.BatchNorm2d(width) for _ in range(2))

    def forward(self, x: Tensor) -> Tensor:
        inner: Tensor = self.norm1(self.first(x)).relu()
        found: Tensor = (x + self.norm2(self.second(inner))).relu()
        return found


def resnet(features: int, hidden: int, classes: int) -> nn.Module:
    """A convolution, two residual blocks with one pooling between them, one hidden layer."""
    return nn.Sequential(
        nn.Conv2d(1, WIDTH, 3, padding=1, bias=False),
        nn.BatchNorm2d(WIDTH),
        nn.ReLU(),
        Residual(WIDTH),
        nn.MaxPool2d(2),
        Residual(WIDTH),
        nn.Flatten(),
        nn.Linear(features, hidden),
        nn.ReLU(),
        nn.Linear(hidden, classes),
    )


MODELS = {"mlp": mlp, "cnn": cnn, "resnet": resnet}


def image_model(name: str, height: int, width: int, hidden: int, classes: int, seed: int) -> nn.Module:
    """The named model for images of this size, its parameters drawn from the seed alone."""
    if name not in MODELS:
        raise Refused(f"task: there is no model {name!r}", "mlp, cnn or resnet")
    if name != "mlp" and min(height, width) < 2:
        raise Refused(f"task: a {name} pools pixels two by two, and images of {height} x {width} have too few", "mlp")
    features = height * width if name == "mlp" else 16 * (height // 2) * (width // 2)
    bounded("task", features, hidden, again=name == "mlp")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return MODELS[name](features, hidden, classes)


def bounded(owner: str, inputs: int, hidden: int, *, again: bool = False) -> None:
    """Refuse hidden layers that no small model has, before memory is asked for; `again`: a second one follows."""
    whole(owner, "hidden", hidden, 1, WIDEST)
    weights = hidden * (inputs + again * hidden)
    if weights > HEAVIEST:
        most = HEAVIEST * hidden // weights
        told = f"hidden={hidden} on {inputs:,} inputs makes {weights:,} weights, more than {HEAVIEST:,}"
        raise Refused(f"{owner}: {told}", f"hidden={most}" if most else None)
