"""What was asked of `rehearse`, read and refused before anything heavy is loaded. Plays nothing."""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass
from math import ceil
from typing import TYPE_CHECKING

from gossamer.parts import units
from gossamer.parts.refusal import Refused, real, whole
from gossamer.parts.trouble import Script
from gossamer.parts.world import World
from gossamer.recipes import Optimizer
from gossamer.sim import Machines
from gossamer.strategy import AnyStrategy, fits, parse, parse_trouble

if TYPE_CHECKING:
    from gossamer.sim import Plan
    from gossamer.tasks import Task

EPOCHS, TURNS = 30.0, 5000  # how long, where nobody says: so many epochs, but no more steps of one worker in all
EVALUATIONS = 40  # in a run, where --evaluate-every does not say
RATES = {  # ones that train our tasks in every strategy
    "sgd": 0.12, "nesterov": 0.02, "adam": 0.002, "adamw": 0.002, "lars": 2.0, "lamb": 0.01, "rmsprop_to_sgd": 0.02,
}  # fmt: skip
MOMENTA = {"nesterov": 0.9, "lars": 0.9, "rmsprop_to_sgd": 0.9}


@dataclass(frozen=True)
class Part:
    """One strategy of the request: as it was typed, as it was read, and the optimizer it trains with."""

    text: str
    strategy: AnyStrategy
    optimizer: Optimizer


@dataclass(frozen=True)
class Request:
    """Everything that all strategies of a request share."""

    parts: tuple[Part, ...]
    world: World
    task: str
    task_options: dict[str, object]
    batch: int
    epochs: float | None
    steps: int | None
    machines: Machines
    trouble: Script
    evaluate_every: int | None
    target: float

    def __post_init__(self) -> None:
        whole("rehearse", "batch", self.batch, 1, 10**9)
        if self.steps is not None:
            whole("rehearse", "steps", self.steps, 1, 10**9)
        if self.epochs is not None:
            real("rehearse", "epochs", self.epochs, 0.0, 1e6, open_low=True)
        if self.evaluate_every is not None:
            whole("rehearse", "evaluate-every", self.evaluate_every, 1, 10**9)
        real("rehearse", "target", self.target, 0.0, 1.0, open_low=True)
        self.trouble.fits(self.world.size)
        for part in self.parts:
            fits(part.strategy, self.world)
            part.optimizer.suits(part.strategy)

    def plan(self, part: Part) -> Plan:
        """The plan of one strategy; a task of its own, since a rehearsal writes into the model it is given."""
        from gossamer import tasks
        from gossamer.sim import Plan

        task = tasks.build(self.task, self.world.seed, self.task_options)
        tasks.tried(self.task, task)
        self.holds(task)
        steps = self.steps or ceil((self.epochs or EPOCHS) * task.size / (self.batch * self.world.size))
        if self.steps is None and self.epochs is None:
            steps = min(steps, ceil(TURNS / self.world.size))
        every = self.evaluate_every or ceil(steps / EVALUATIONS)
        return Plan(
            task,
            part.strategy,
            self.world,
            part.optimizer,
            self.batch,
            steps,
            self.machines,
            self.trouble,
            every,
        )

    def holds(self, task: Task) -> None:
        """Refuse a task with too few samples for a step of everybody, or with replicas that memory does not hold."""
        from gossamer.tasks import Stream

        Stream(task.size, self.batch, self.world)  # before whether there is room
        _room(task, self.world.size)


def _room(task: Task, workers: int) -> None:
    """Refuse more replicas than memory holds: each has parameters, gradients and what an exchange needs besides."""
    needed = 3 * workers * sum(p.numel() * p.element_size() for p in task.model.parameters())
    here = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    if needed > here:
        told = f"{workers} replicas need {units.told_bytes(needed)} of memory, and there are {units.told_bytes(here)}"
        fitting = workers * here // needed
        raise Refused(f"rehearse: {told}", f"{fitting} worker{'s' * (fitting > 1)}" if fitting else "a smaller model")


def parts(texts: list[str], name: str, rate: float | None, momentum: float | None, decay: float) -> list[Part]:
    """The strategies of a request, each with the optimizer that was asked for."""
    pace = RATES.get(name, 0.1) if rate is None else rate
    optimizer = Optimizer(name, pace, MOMENTA.get(name, 0.0) if momentum is None else momentum, decay)
    return [Part(" ".join(text.split()), parse(text), optimizer) for text in texts]


def machines(compute: str, link: str, latency: str, jitter: float) -> Machines:
    """The imagined machines, from the words of the command line."""
    spans = tuple(units.seconds("compute", span) for span in compute.split(","))
    return Machines(spans, units.link(link), units.seconds("latency", latency), jitter)


def misfortune(text: str | None) -> Script:
    """The script of trouble; none by default."""
    return Script() if text is None or not text.strip() else parse_trouble(text)


def options(pairs: list[str]) -> dict[str, object]:
    """`key=value` pairs; a value that reads as a number or True or False is one, anything else is text."""
    found: dict[str, object] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals or not key.isidentifier():
            raise Refused(f"task-option: {pair!r} is not key=value", "--task-option model=cnn")
        if key in found or key == "seed":
            raise Refused(f"task-option: {key!r} is given twice" if key in found else "the seed is given by --seed")
        found[key] = _literal(value)
    return found


def _literal(text: str) -> object:
    if text in ("True", "False"):
        return text == "True"
    for kind in (int, float):
        with suppress(ValueError):
            return kind(text)
    return text
