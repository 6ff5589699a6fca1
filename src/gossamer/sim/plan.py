"""What a rehearsal is asked and what it answers. Knows nothing of how it is played."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor

from gossamer.parts.refusal import whole
from gossamer.parts.trouble import Script
from gossamer.parts.world import World
from gossamer.recipes import Optimizer
from gossamer.records import Evaluation, Event, StepRecord
from gossamer.sim.machines import Machines
from gossamer.strategy import AnyStrategy, fits
from gossamer.tasks import Task


@dataclass(frozen=True)
class Plan:
    """What is rehearsed: who trains what, how long, on which imagined machines, with which trouble.

    The run ends when all members together have done workers x steps. `order` replaces the clock: it lists members in
    the order in which the visible parts of their steps happen, its length being the run's; members in a tuple are heard
    by a hub in the same moment, before it answers any of them.
    """

    task: Task
    strategy: AnyStrategy
    world: World
    optimizer: Optimizer = Optimizer()
    batch: int = 32
    steps: int = 100
    machines: Machines = Machines()
    trouble: Script = Script()
    evaluate_every: int = 0  # steps between evaluations; 0: only at the end
    order: tuple[int | tuple[int, ...], ...] | None = None
    truth: int = 0  # steps between looks beside lossy exchanges; 0: none

    def check(self) -> None:
        """Refuse what cannot be played."""
        whole("plan", "steps", self.steps, 0)
        whole("plan", "evaluate_every", self.evaluate_every, 0)
        whole("plan", "truth", self.truth, 0)
        for entry in self.order or ():
            for member in entry if isinstance(entry, tuple) else (entry,):
                whole("order", "member", member, 0, self.world.size - 1)
        fits(self.strategy, self.world)
        self.optimizer.suits(self.strategy)
        self.trouble.fits(self.world.size)


@dataclass
class Outcome:
    """Everything that happened, the replicas as they ended, and the model: their exact average, or what a hub owns."""

    steps: list[StepRecord] = field(default_factory=list)
    evaluations: list[Evaluation] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    replicas: Tensor = field(default_factory=lambda: torch.empty(0))
    model: Tensor = field(default_factory=lambda: torch.empty(0))
    order: list[int] = field(default_factory=list)
    seconds: float = 0.0
