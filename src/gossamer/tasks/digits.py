"""The 1,797 real handwritten digits that ship with scikit-learn; one third is held out for test."""

from __future__ import annotations

import torch

from gossamer.tasks.models import image_model
from gossamer.tasks.task import Task, classified


def digits(seed: int = 0, model: str = "mlp", hidden: int = 64) -> Task:
    """8 x 8 images in ten classes; which third is held out does not depend on the seed."""
    from sklearn.datasets import load_digits

    raw = load_digits()
    images = torch.as_tensor(raw.images, dtype=torch.float32).unsqueeze(1) / 16.0
    labels = torch.as_tensor(raw.target, dtype=torch.int64)
    held = torch.arange(len(labels)) % 3 == 0
    return Task(
        model=image_model(model, 8, 8, hidden, 10, seed),
        train=(images[~held], labels[~held]),
        test=(images[held], labels[held]),
        loss=classified,
    )
