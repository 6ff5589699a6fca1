"""The digits are those that scikit-learn gives, read without it."""

from __future__ import annotations

import torch
from sklearn.datasets import load_digits

from gossamer.tasks import digits as module
from gossamer.tasks.digits import digits


def test_they_are_the_librarys_own(monkeypatch) -> None:  # type: ignore[no-untyped-def]
    raw, held = load_digits(), torch.arange(1797) % 3 == 0
    for file in (module.FILE, "not there"):
        monkeypatch.setattr("gossamer.tasks.digits.FILE", file)
        task = digits()
        images = torch.as_tensor(raw.images, dtype=torch.float32) / 16
        assert torch.equal(task.train[0], images[~held].unsqueeze(1)) and torch.equal(
            task.test[0].squeeze(1), images[held]
        )
        assert task.test[1].tolist() == raw.target[held.numpy()].tolist()
