"""What a task is: a model, data to train and to test on, and a loss. Knows no worker."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from gossamer.parts.refusal import Refused

Batch = tuple[Tensor, ...]
Loss = Callable[[Callable[..., Tensor], Batch], tuple[Tensor, int, dict[str, Tensor]]]


@dataclass(frozen=True)
class Task:
    """`loss(model, batch)` gives (mean loss, samples, metrics); train and test are tensors of equal first dimension.

    `metrics["correct"]`, if it is there, counts the samples that were right; accuracy is its share.
    """

    model: nn.Module
    train: Batch
    test: Batch
    loss: Loss

    def __post_init__(self) -> None:
        if not isinstance(self.model, nn.Module):
            raise Refused(f"task: the model must be a torch module, not a {type(self.model).__name__}")
        for name, data in (("train", self.train), ("test", self.test)):
            _samples(name, data)

    @property
    def size(self) -> int:
        """Samples to train on."""
        return len(self.train[0])


def _samples(name: str, data: object) -> None:
    """Refuse data that cannot be cut into batches."""
    if not isinstance(data, tuple) or not data or not all(isinstance(p, Tensor) and p.ndim for p in data):
        raise Refused(f"task: {name} must be a tuple of tensors, one row per sample", f"{name}=(inputs, labels)")
    rows = [len(part) for part in data]
    if len(set(rows)) > 1:
        raise Refused(
            f"task: the tensors of {name} have {', '.join(map(str, rows))} rows; every sample needs one in each"
        )
    if not rows[0]:
        raise Refused(f"task: {name} holds no samples")


def classified(model: Callable[..., Tensor], batch: Batch) -> tuple[Tensor, int, dict[str, Tensor]]:
    """Cross-entropy of (inputs, labels), and how many labels were right."""
    inputs, labels = batch
    scores = model(inputs)
    right = (scores.detach().argmax(-1) == labels).sum()
    return nn.functional.cross_entropy(scores, labels), len(labels), {"correct": right}


def smoothed(task: Task, share: float) -> Task:
    """The same task with targets (1 - share) onehot + share / classes while it trains; tests are as they were."""
    if not share:
        return task
    if task.loss is not classified:
        raise Refused("label smoothing: the task has a loss of its own", "smooth the labels in it, and smoothing 0")

    def loss(model: Callable[..., Tensor], batch: Batch) -> tuple[Tensor, int, dict[str, Tensor]]:
        inputs, labels = batch
        scores = model(inputs)
        right = (scores.detach().argmax(-1) == labels).sum()
        smooth = share if torch.is_grad_enabled() else 0.0
        return (
            nn.functional.cross_entropy(scores, labels, label_smoothing=smooth),
            len(labels),
            {"correct": right},
        )

    return replace(task, loss=loss)


@torch.no_grad()
def evaluate(task: Task, model: Callable[..., Tensor], piece: int = 4096) -> tuple[float, float]:
    """Loss and accuracy of `model` on the held-out data; the task's module is in evaluation mode meanwhile."""
    total, right, count = 0.0, 0.0, 0
    with evaluating(task.model):
        for start in range(0, len(task.test[0]), piece):
            batch = tuple(part[start : start + piece] for part in task.test)
            loss, samples, metrics = task.loss(model, batch)
            total += float(loss) * samples
            right += float(metrics.get("correct", torch.zeros(())))
            count += samples
    return total / count, right / count


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Put a module into evaluation mode (dropout off, running statistics used), and every part back as it was."""
    training = [(part, part.training) for part in model.modules()]
    model.eval()
    try:
        yield
    finally:
        for part, was in training:
            part.training = was
