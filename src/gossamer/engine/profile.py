"""How long a task computes on this machine, batch by batch, and when each gradient is there. Knows no workload file.

One process, the task's own loss, real gradients; nothing is exchanged.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from statistics import median
from time import perf_counter

import torch
from torch import Tensor

from gossamer.parts.refusal import Refused, whole
from gossamer.parts.selection import Tag
from gossamer.tasks.task import Batch, Task

WARM = 2  # steps of every size that are not counted
LONGEST, LEAST = 60.0, 3  # seconds that all turns may take before fewer of them must do, and how few
Progress = Callable[[int, int, float], None]  # batch, turn, seconds


@dataclass(frozen=True)
class Step:
    """One forward and backward, in seconds from its beginning; `moments` by parameter, those that got a gradient."""

    forward: float
    whole: float
    update: float
    moments: dict[int, float]


@dataclass(frozen=True)
class Profile:
    """What was seen: `steps` by batch size, in the order of their turns. Tensors stand in model order."""

    tags: tuple[Tag, ...]
    steps: dict[int, list[Step]] = field(default_factory=dict)

    @property
    def batches(self) -> tuple[int, ...]:
        """The sizes, growing."""
        return tuple(sorted(self.steps))

    def seconds(self, batch: int) -> float:
        """Forward and backward of such a batch: the median of its turns."""
        return median(step.whole for step in self.steps[batch])

    def spread(self, batch: int) -> tuple[float, float]:
        """The shortest and the longest turn."""
        spans = [step.whole for step in self.steps[batch]]
        return min(spans), max(spans)

    @property
    def update(self) -> float:
        """Seconds of the optimizer, whatever the batch: the median of all."""
        return median(step.update for steps in self.steps.values() for step in steps)

    @property
    def forward(self) -> float:
        """The share of a step of the largest batch that is over before backward begins: the median."""
        return median(step.forward / step.whole for step in self.steps[self.batches[-1]])

    @property
    def ready(self) -> tuple[float, ...]:
        """By tensor, the share of a step of the largest batch that is over when its gradient is there: the median.

        What is sent in the order of backward waits for all behind it, so none is there before one of them. A tensor
        that no gradient reaches waits for nothing else.
        """
        found, latest = list[float](), self.forward
        for place in reversed(range(len(self.tags))):
            latest = max(latest, self._moment(place))
            found.append(min(1.0, latest))
        return (1.0, *reversed(found[:-1]))

    @property
    def shares(self) -> tuple[float, ...]:
        """By tensor, how long backward works from the gradient behind it to its own, as a share of all backward."""
        ready = [*self.ready, self.forward]
        whole_ = 1.0 - self.forward
        return tuple((here - behind) / whole_ for here, behind in pairwise(ready))

    def _moment(self, place: int) -> float:
        seen = [step.moments[place] / step.whole for step in self.steps[self.batches[-1]] if place in step.moments]
        return median(seen) if seen else 0.0


def profile(
    task: Task, optimizer: torch.optim.Optimizer, batches: Sequence[int], repeats: int, told: Progress | None = None
) -> Profile:
    """Sizes take turns, so that what slows the machine for a while slows them all."""
    whole("profile", "repeats", repeats, LEAST, 10_000)
    for batch in batches:
        whole("profile", "batch", batch, 1, task.size)
    named = [(name, p) for name, p in task.model.named_parameters() if p.requires_grad]
    if any(p.device.type != "cpu" for _, p in named):
        raise Refused("profile: the model lies on another device than the CPU, whose moments cannot be seen from here")
    seen = Profile(
        tuple(Tag(name, tuple(p.shape), p.element_size()) for name, p in named), {b: [] for b in sorted(set(batches))}
    )
    task.model.train()
    began = perf_counter()
    for turn in range(-WARM, repeats):
        if turn >= LEAST and perf_counter() - began > LONGEST:
            break
        for batch, steps in seen.steps.items():
            step = _step(task, optimizer, [p for _, p in named], _cut(task, batch, turn + WARM))
            if turn >= 0:
                steps.append(step)
            if told is not None:
                told(batch, turn, step.whole)
    return seen


def _cut(task: Task, batch: int, turn: int) -> Batch:
    """Other samples in every turn."""
    start = turn * batch % (task.size - batch + 1)
    return tuple(part[start : start + batch].clone() for part in task.train)


def _step(task: Task, optimizer: torch.optim.Optimizer, held: Sequence[Tensor], batch: Batch) -> Step:
    moments: dict[int, float] = {}

    def hook(place: int) -> Callable[[Tensor], None]:
        return lambda _: moments.update({place: perf_counter()})

    hooks = [
        tensor.register_post_accumulate_grad_hook(hook(place))  # type: ignore[no-untyped-call]
        for place, tensor in enumerate(held)
    ]
    optimizer.zero_grad(set_to_none=True)
    began = perf_counter()
    loss = task.loss(task.model, batch)[0]
    middle = perf_counter()
    loss.backward()  # type: ignore[no-untyped-call]
    ended = perf_counter()
    optimizer.step()
    stepped = perf_counter()
    for each in hooks:
        each.remove()
    spans = {place: moment - began for place, moment in moments.items()}
    return Step(middle - began, ended - began, stepped - ended, spans)
