"""The 1,797 real handwritten digits that ship with scikit-learn; one third is held out for test."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import numpy
import torch
from torch import Tensor

from gossamer.tasks.models import image_model
from gossamer.tasks.task import Task, classified

FILE = "datasets/data/digits.csv.gz"  # read where it lies: to import all of the library takes a second


def digits(seed: int = 0, model: str = "mlp", hidden: int = 64) -> Task:
    """8 x 8 images in ten classes; which third is held out does not depend on the seed."""
    table = _table()
    images = table[:, :-1].reshape(-1, 1, 8, 8).float() / 16.0
    labels = table[:, -1].long()
    held = torch.arange(len(labels)) % 3 == 0
    return Task(
        model=image_model(model, 8, 8, hidden, 10, seed),
        train=(images[~held], labels[~held]),
        test=(images[held], labels[held]),
        loss=classified,
    )


def _table() -> Tensor:
    """A row for each digit: its 64 pixels, and which it is."""
    for folder in ((spec := find_spec("sklearn")) and spec.submodule_search_locations) or ():
        if (path := Path(folder) / FILE).exists():
            return torch.as_tensor(numpy.loadtxt(path, delimiter=","))
    from sklearn.datasets import load_digits

    raw = load_digits()
    return torch.as_tensor(numpy.column_stack([raw.data, raw.target]))
