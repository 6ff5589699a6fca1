"""A training run that can be started: every setting checked, the ones nobody gave chosen. Starts nothing."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gossamer.cli import request as asked
from gossamer.cli import train_pace
from gossamer.cli.train_model import fitted
from gossamer.cli.train_settings import DEFAULT, Resolved, Settings
from gossamer.engine.job import FABRICS
from gossamer.parts.refusal import Refused, real, whole
from gossamer.parts.spelling import nearest
from gossamer.parts.world import World
from gossamer.recipes import Optimizer
from gossamer.strategy import AnyStrategy, fits, parse

if TYPE_CHECKING:
    from gossamer.engine.job import TrainJob
    from gossamer.parts.selection import Tag
    from gossamer.recipes import Pace
    from gossamer.tasks import Task

MOST = 1024  # workers on one host
EVALUATIONS, CHECKPOINTS = 20, 5  # of a run, where nobody says


@dataclass(frozen=True)
class Request:
    """Settings that were found to work together, and what they come to."""

    resolved: Resolved
    strategy: AnyStrategy
    world: World
    optimizer: Optimizer
    samples: int
    tags: tuple[Tag, ...]
    pace: Pace | None = None

    @property
    def settings(self) -> Settings:
        """All of them, chosen ones included."""
        return self.resolved.settings

    @property
    def steps(self) -> int:
        """How long: steps of each worker."""
        if self.pace is not None:
            return self.pace.steps
        assert self.settings.steps is not None
        return self.settings.steps

    @property
    def shares(self) -> str:
        """The batch of everybody together, and how it is shared."""
        sizes = [self.mean_batch * self.world.size] if self.pace is None else [leg.size for leg in self.pace.table.legs]
        shares = " -> ".join(str(train_pace.share(self.settings, size)) for size in sizes)
        return f"batch {' -> '.join(f'{size:,}' for size in sizes)} = {self.world.size} x {shares}"

    @property
    def mean_batch(self) -> int:
        """Samples of a worker in a step, on the mean."""
        if self.pace is None:
            return train_pace.each(self.settings)
        return round(self.pace.table.read / self.pace.steps / self.world.size)

    def epochs(self, steps: float) -> float:
        """How many epochs so many steps are."""
        if self.pace is None:
            return steps * self.mean_batch * self.world.size / self.samples
        done = int(steps)
        return self.pace.table.epoch(done) if done < self.pace.steps else self.pace.table.read / self.samples

    def longer(self, done: int) -> str:
        """What to say for a run twice as long as this one, or as the steps that were done."""
        if self.pace is None:
            return f"--steps {2 * max(done, self.steps)}"
        long = self.pace.epochs if done <= self.pace.steps else self.pace.table.epoch(done)
        return f"--epochs {ceil(2 * long)}"

    def job(self, folder: Path, resume: Path | None) -> TrainJob:
        """What the workers are told."""
        import msgspec

        from gossamer.engine.job import TrainJob

        names = {each for each in TrainJob.__struct_fields__ if hasattr(self.settings, each)} - {"folder"}
        said = {name: getattr(self.settings, name) for name in names}
        said |= {"batch": self.mean_batch, "folder": str(folder), "resume": resume and str(resume), "steps": self.steps}
        return msgspec.convert(said, TrainJob)


def check(resolved: Resolved, where: Sequence[str]) -> Request:
    """Refuse whatever would stop the run later; `where` is where a task of the user's own may lie."""
    _numbers(resolved.settings)
    train_pace.once(resolved.settings)
    if resolved.settings.recipe is not None:
        resolved = train_pace.by_recipe(resolved, _built(resolved.settings, where).size)
    resolved = train_pace.sized(resolved)
    said = resolved.settings
    _numbers(said)
    strategy, world = parse(said.strategy), World(said.workers, said.seed)
    fits(strategy, world, said.servers)
    asked.misfortune(said.trouble).fits(world.size)
    if said.fabric not in FABRICS:
        raise Refused(
            f"train: there is no fabric {said.fabric!r}; there are {', '.join(FABRICS)}", _fabric(said.fabric)
        )
    optimizer = _optimizer(said, strategy)
    optimizer.suits(strategy)
    filled = _chosen(resolved, optimizer)
    from gossamer import tasks
    from gossamer.recipes.precision import Precision
    from gossamer.replica.layout import tags_of

    task = _built(filled.settings, where)
    pace = train_pace.pace(filled, optimizer, task.size)
    if pace is None:
        tasks.Stream(task.size, train_pace.each(said), world)
    tasks.smoothed(task, said.smoothing)
    Precision(said.precision, said.scale)
    filled = fitted(filled, task, strategy)
    return Request(_length(filled, task.size, pace), strategy, world, optimizer, task.size, tags_of(task.model), pace)


def _numbers(said: Settings) -> None:
    for name, least, most in (("workers", 1, MOST), ("servers", 0, MOST), ("keep", 2, 10**6)):
        whole("train", name, getattr(said, name), least, most)
    for name in ("batch", "steps", "evaluate_every", "save_every", "truth", "at_once"):
        if getattr(said, name) is not None:
            whole("train", name.replace("_", "-"), getattr(said, name), 1, 10**9)
    if said.epochs is not None:
        real("train", "epochs", said.epochs, 0.0, 1e6, open_low=True)
    real("train", "smoothing", said.smoothing, 0.0, 1.0, open_high=True)
    if said.clip is not None:
        real("train", "clip", said.clip, 0.0, 1e12, open_low=True)
    real("train", "target", said.target, 0.0, 1.0, open_low=True)


def _fabric(name: str) -> str:
    return nearest(name, FABRICS) or FABRICS[0]


def _optimizer(said: Settings, strategy: AnyStrategy) -> Optimizer:
    rate = asked.RATES.get(said.optimizer, 0.1) if said.rate is None else said.rate
    momentum = asked.MOMENTA.get(said.optimizer, 0.0) if said.momentum is None else said.momentum
    return Optimizer(said.optimizer, rate, momentum, said.decay, said.trust)


def _chosen(resolved: Resolved, optimizer: Optimizer) -> Resolved:
    """The optimizer's numbers, and a model of ours that learns more than the smallest one."""
    said, found, why = resolved.settings, dict[str, Any](), dict[str, str]()
    for name in ("rate", "momentum"):
        if getattr(said, name) is None:
            found[name], why[name] = getattr(optimizer, name), f"{DEFAULT} for {optimizer.name}"
    if said.task == "digits" and not said.options:
        found["options"], why["options"] = {"model": "cnn"}, f"{DEFAULT} for digits"
    return resolved.filled(found, why)


def _built(said: Settings, where: Sequence[str]) -> Task:
    """Build the task as every worker will, and refuse one that breaks the contract or has too few samples."""
    from gossamer import tasks

    if ":" in said.task:
        sys.path[:0] = [each for each in where if each not in sys.path]
    task = tasks.build(said.task, said.seed, said.options)
    tasks.tried(said.task, task)
    return task


def _length(resolved: Resolved, samples: int, pace: Pace | None) -> Resolved:
    """Steps, and how many lie between evaluations and between checkpoints."""
    said, found, why = resolved.settings, dict[str, Any](), dict[str, str]()
    if pace is None:
        steps, why["steps"] = train_pace.length(resolved, samples)
        found["steps"] = steps
    else:
        steps, found["steps"] = pace.steps, None
        why |= {} if said.steps is None else {"steps": f"{resolved.origins['steps']}: in epochs from here on"}
    for name, times in (("evaluate_every", EVALUATIONS), ("save_every", CHECKPOINTS)):
        if getattr(said, name) is None:
            found[name], why[name] = ceil(steps / times), f"{DEFAULT}: {times} times"
    if pace is not None:
        found["epochs"], why["epochs"] = pace.epochs, resolved.origins["epochs"]
    elif said.epochs is not None:
        found["epochs"], why["epochs"] = None, f"{resolved.origins['epochs']}: in steps from here on"
    return resolved.filled(found, why)
