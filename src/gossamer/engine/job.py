"""What a crew is asked to run, as one line of JSON: everything a worker needs to know, nothing to execute."""

from __future__ import annotations

import msgspec


class Job(msgspec.Struct, frozen=True):
    """A strategy by its expression, a task by its reference, and where to leave what came of it."""

    name: str
    folder: str
    strategy: str
    task: str = "digits"
    options: dict[str, str | int | float] = {}
    optimizer: str = "sgd"
    rate: float = 0.1
    momentum: float = 0.0
    decay: float = 0.0
    batch: int = 32
    steps: int = 10
    seed: int = 0
    order: list[int] | None = None
