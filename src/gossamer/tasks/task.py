"""What a task is: a model, data to train and to test on, and a loss. Knows no worker."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from gossamer.parts.refusal import Refused

Batch = tuple[Tensor, ...]
Loss = Callable[[Callable[..., Tensor], Batch], tuple[Tensor, int, dict[str, Tensor]]]


@dataclass(frozen=True)
class Task:
    """`loss(model, batch)` gives (mean loss, samples, metrics); train and test are tensors of equal first dimension."""

    model: nn.Module
    train: Batch
    test: Batch
    loss: Loss

    @property
    def size(self) -> int:
        """Samples to train on."""
        return len(self.train[0])


def classified(model: Callable[..., Tensor], batch: Batch) -> tuple[Tensor, int, dict[str, Tensor]]:
    """Cross-entropy of (inputs, labels), and how many labels were right."""
    inputs, labels = batch
    scores = model(inputs)
    right = (scores.detach().argmax(-1) == labels).sum()
    return nn.functional.cross_entropy(scores, labels), len(labels), {"correct": right}


@torch.no_grad()
def evaluate(task: Task, model: Callable[..., Tensor], piece: int = 4096) -> tuple[float, float]:
    """Loss and accuracy of `model` on the held-out data."""
    total, right, count = 0.0, 0.0, 0
    for start in range(0, len(task.test[0]), piece):
        batch = tuple(part[start : start + piece] for part in task.test)
        loss, samples, metrics = task.loss(model, batch)
        total += float(loss) * samples
        right += float(metrics.get("correct", torch.zeros(())))
        count += samples
    return total / count, right / count


def build(reference: str, seed: int, options: dict[str, Any]) -> Task:
    """The task a reference names: one of ours by name, or `module:function` called with seed and options."""
    module, _, function = (
        reference.partition(":") if ":" in reference else (f"gossamer.tasks.{reference}", "", reference)
    )
    ours = ("digits", "characters", "idx")
    if ":" not in reference and reference not in ours:
        raise Refused(f"task: there is no {reference!r}", f"{', '.join(ours)}, or your own module:function")
    try:
        make = getattr(importlib.import_module(module), function)
    except (ValueError, TypeError):
        raise Refused(f"task: {reference!r} is not module:function", "package.module:function") from None
    except ModuleNotFoundError as error:
        raise Refused(f"task: module {error.name!r} cannot be found", "a module on PYTHONPATH") from None
    except AttributeError:
        raise Refused(f"task: {module} has no function {function!r}") from None
    try:
        task = make(seed=seed, **options)
    except TypeError as error:
        raise Refused(f"task: {reference} cannot be called so: {error}") from None
    if not isinstance(task, Task):
        raise Refused(f"task: {reference} gave a {type(task).__name__}, not a Task")
    return task
