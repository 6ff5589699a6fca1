"""A training run that can be started: every setting checked, the ones nobody gave chosen. Starts nothing."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gossamer.cli import request as asked
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
        each, workers = self.settings.batch, self.world.size
        if self.pace is None:
            return f"batch {each * workers} = {workers} x {each}"
        met = self.pace.check(workers, self.settings.at_once)
        shares = [f"{share.batch}{f' x {share.times}' * (share.times > 1)}" for share in met]
        totals = [f"{leg.size:,}" for leg in self.pace.table.legs]
        return f"batch {' -> '.join(totals)} = {workers} x {' -> '.join(shares)}"

    @property
    def mean_batch(self) -> int:
        """Samples of a worker in a step, on the mean."""
        if self.pace is None:
            return self.settings.batch
        return round(self.pace.table.read / self.pace.steps / self.world.size)

    def epochs(self, steps: float) -> float:
        """How many epochs so many steps are."""
        if self.pace is None:
            return steps * self.settings.batch * self.world.size / self.samples
        done = int(steps)
        return self.pace.table.epoch(done) if done < self.pace.steps else self.pace.table.read / self.samples

    def job(self, folder: Path, resume: Path | None) -> TrainJob:
        """What the workers are told."""
        import msgspec

        from gossamer.engine.job import TrainJob

        names = {each for each in TrainJob.__struct_fields__ if hasattr(self.settings, each)} - {"folder"}
        said = {name: getattr(self.settings, name) for name in names}
        said |= {"folder": str(folder), "resume": resume and str(resume), "steps": self.steps}
        return msgspec.convert(said, TrainJob)


def check(resolved: Resolved, where: Sequence[str]) -> Request:
    """Refuse whatever would stop the run later; `where` is where a task of the user's own may lie."""
    if resolved.settings.recipe is not None:
        resolved = _by_recipe(resolved, where)
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
    pace = _pace(filled, task.size)
    if pace is None:
        tasks.Stream(task.size, filled.settings.batch, world)
    else:
        pace.check(world.size, said.at_once)
    tasks.smoothed(task, said.smoothing)
    Precision(said.precision, said.scale)
    filled = fitted(filled, task, strategy)
    return Request(_length(filled, task.size, pace), strategy, world, optimizer, task.size, tags_of(task.model), pace)


def _by_recipe(resolved: Resolved, where: Sequence[str]) -> Resolved:
    """What a recipe says for the data and workers at hand, wherever nobody says otherwise."""
    from gossamer.recipes.recipe import named

    said, told = resolved.settings, {name for name, origin in resolved.origins.items() if origin != DEFAULT}
    _numbers(said)
    if "steps" in told:
        raise Refused("train: a recipe counts in epochs", "--epochs instead of --steps")
    if {"--batch", "--batches"} <= set(resolved.origins.values()):
        raise Refused("train: --batch and --batches both say how large a step is", "one of them")
    given: dict[str, Any] = {"base_batch": said.batch * said.workers} if "batch" in told else {}
    found = named(said.recipe or "", **given, **({"epochs": said.epochs} if said.epochs is not None else {}))
    if said.epochs is not None and found.epochs != said.epochs and resolved.origins["epochs"].startswith("--"):
        raise Refused(f"train: the recipe says {found.epochs:g} epochs, and --epochs {said.epochs:g}", "one of them")
    samples = _built(said, where).size
    asks = {name: value for name, value in found.settings(samples, said.workers).items() if name not in told}
    return resolved.filled(asks, dict.fromkeys(asks, f"recipe {said.recipe}"))


def _pace(resolved: Resolved, samples: int) -> Pace | None:
    """How rate and batch go over the run, where anything says that they go at all."""
    from gossamer.recipes import Pace
    from gossamer.recipes.recipe import RULES

    said = resolved.settings
    if said.schedule is None and said.batches is None and said.at_once is None:
        return None
    if said.rule not in RULES:
        raise Refused(f"train: there is no rule {said.rule!r} for the rate", " or ".join(RULES))
    if said.steps is not None:
        raise Refused("train: a schedule, and batches, count in epochs", "--epochs instead of --steps")
    if {"--batch", "--batches"} <= set(resolved.origins.values()):
        raise Refused("train: --batch and --batches both say how large a step is", "one of them")
    assert said.rate is not None
    batches = said.batches or str(said.batch * said.workers)
    return Pace.of(batches, said.schedule, samples, said.epochs or EPOCHS, said.rate, said.rule)


def _numbers(said: Settings) -> None:
    for name, least, most in (("workers", 1, MOST), ("servers", 0, MOST), ("batch", 1, 10**9), ("keep", 2, 10**6)):
        whole("train", name, getattr(said, name), least, most)
    for name in ("steps", "evaluate_every", "save_every", "truth", "at_once"):
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
    steps = said.steps if pace is None else pace.steps
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
    if pace is not None:
        found["epochs"], why["epochs"] = pace.epochs, resolved.origins["epochs"]
    elif said.epochs is not None:
        found["epochs"], why["epochs"] = None, f"{resolved.origins['epochs']}: in steps from here on"
    return resolved.filled(found, why)
