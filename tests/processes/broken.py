"""A task that goes wrong on one worker, for tests of how a crew fails."""

from __future__ import annotations

import os
from collections.abc import Callable

from tests.parity import small
from torch import Tensor

from gossamer.tasks.task import Batch, Task, classified


def raises(seed: int = 0) -> Task:
    """Worker 1 raises in its third step."""
    return _counting(seed, lambda: (_ for _ in ()).throw(ArithmeticError("the loss of worker 1 went wrong")))


def dies(seed: int = 0) -> Task:
    """Worker 1 is gone in its third step without a word."""
    return _counting(seed, lambda: os._exit(9))


def _counting(seed: int, end: Callable[[], object]) -> Task:
    task, calls = small.task(seed), 0

    def loss(model: Callable[..., Tensor], batch: Batch) -> tuple[Tensor, int, dict[str, Tensor]]:
        nonlocal calls
        calls += 1
        if os.environ.get("RANK") == "1" and calls == 3:
            end()
        return classified(model, batch)

    return Task(task.model, task.train, task.test, loss)


def prints(seed: int = 0) -> Task:
    """Talks while it is built."""
    print("done")
    print("building the task")
    return small.task(seed)
