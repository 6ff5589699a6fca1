"""A training run that can be started: every setting checked, the ones nobody gave chosen. Starts nothing."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gossamer.cli import request as asked
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
    from gossamer.tasks import Task

MOST = 1024  # workers on one host
EPOCHS, EVALUATIONS, CHECKPOINTS = 40.0, 20, 5  # of a run, where nobody says


@dataclass(frozen=True)
class Request:
    """Settings that were found to work together, and what they come to."""

    resolved: Resolved
    strategy: AnyStrategy
    world: World
    optimizer: Optimizer
    samples: int
    tags: tuple[Tag, ...]

    @property
    def settings(self) -> Settings:
        """All of them, chosen ones included."""
        return self.resolved.settings

    @property
    def steps(self) -> int:
        """How long: steps of each worker."""
        assert self.settings.steps is not None
        return self.settings.steps

    @property
    def shares(self) -> str:
        """The batch of everybody together, and how it is shared."""
        each, workers = self.settings.batch, self.world.size
        return f"batch {each * workers} = {workers} x {each}"

    def job(self, folder: Path, resume: Path | None) -> TrainJob:
        """What the workers are told."""
        import msgspec

        from gossamer.engine.job import TrainJob

        names = {each for each in TrainJob.__struct_fields__ if hasattr(self.settings, each)} - {"folder"}
        said = {name: getattr(self.settings, name) for name in names}
        return msgspec.convert({**said, "folder": str(folder), "resume": resume and str(resume)}, TrainJob)


def check(resolved: Resolved, where: Sequence[str]) -> Request:
    """Refuse whatever would stop the run later; `where` is where a task of the user's own may lie."""
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
    from gossamer.replica.layout import tags_of

    task = _built(filled.settings, world, where)
    return Request(_length(filled, task.size), strategy, world, optimizer, task.size, tags_of(task.model))


def _numbers(said: Settings) -> None:
    for name, least, most in (("workers", 1, MOST), ("servers", 0, MOST), ("batch", 1, 10**9), ("keep", 2, 10**6)):
        whole("train", name, getattr(said, name), least, most)
    for name in ("steps", "evaluate_every", "save_every", "truth"):
        if getattr(said, name) is not None:
            whole("train", name.replace("_", "-"), getattr(said, name), 1, 10**9)
    if said.epochs is not None:
        real("train", "epochs", said.epochs, 0.0, 1e6, open_low=True)
    if said.clip is not None:
        real("train", "clip", said.clip, 0.0, 1e12, open_low=True)
    real("train", "target", said.target, 0.0, 1.0, open_low=True)


def _fabric(name: str) -> str:
    return nearest(name, FABRICS) or FABRICS[0]


def _optimizer(said: Settings, strategy: AnyStrategy) -> Optimizer:
    rate = asked.RATES.get(said.optimizer, 0.1) if said.rate is None else said.rate
    momentum = asked.MOMENTA.get(said.optimizer, 0.0) if said.momentum is None else said.momentum
    return Optimizer(said.optimizer, rate, momentum, said.decay)


def _chosen(resolved: Resolved, optimizer: Optimizer) -> Resolved:
    """The optimizer's numbers, and a model of ours that learns more than the smallest one."""
    said, found, why = resolved.settings, dict[str, Any](), dict[str, str]()
    for name in ("rate", "momentum"):
        if getattr(said, name) is None:
            found[name], why[name] = getattr(optimizer, name), f"{DEFAULT} for {optimizer.name}"
    if said.task == "digits" and not said.options:
        found["options"], why["options"] = {"model": "cnn"}, f"{DEFAULT} for digits"
    return resolved.filled(found, why)


def _built(said: Settings, world: World, where: Sequence[str]) -> Task:
    """Build the task as every worker will, and refuse one that breaks the contract or has too few samples."""
    from gossamer import tasks

    if ":" in said.task:
        sys.path[:0] = [each for each in where if each not in sys.path]
    task = tasks.build(said.task, said.seed, said.options)
    tasks.tried(said.task, task)
    tasks.Stream(task.size, said.batch, world)
    return task


def _length(resolved: Resolved, samples: int) -> Resolved:
    """Steps, and how many lie between evaluations and between checkpoints."""
    said, found, why = resolved.settings, dict[str, Any](), dict[str, str]()
    steps = said.steps
    if steps is None:
        epochs = said.epochs or EPOCHS
        steps = ceil(epochs * samples / (said.batch * said.workers))
        if said.epochs is None and steps * said.workers > asked.TURNS:
            steps, why["steps"] = ceil(asked.TURNS / said.workers), f"{DEFAULT}: {asked.TURNS:,} of all workers"
        else:
            why["steps"] = f"{resolved.origins['epochs']}: {epochs:g} epochs of {samples:,} samples"
        found["steps"] = steps
    for name, times in (("evaluate_every", EVALUATIONS), ("save_every", CHECKPOINTS)):
        if getattr(said, name) is None:
            found[name], why[name] = ceil(steps / times), f"{DEFAULT}: {times} times"
    if said.epochs is not None:
        found["epochs"], why["epochs"] = None, f"{resolved.origins['epochs']}: in steps from here on"
    return resolved.filled(found, why)
