"""The runs of a sweep: which there are, how long each is, and what one comes to. Plays nothing and draws nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product
from math import ceil, inf, lcm

import msgspec

from gossamer.cli.request import Part, Request
from gossamer.parts.refusal import Refused
from gossamer.parts.trouble import Script
from gossamer.parts.units import told_workers
from gossamer.parts.world import World
from gossamer.recipes import Optimizer

EVALUATIONS = 20  # points of a curve
SLACK = 1.25  # how much longer than asked a sweep may become so that every worker count does the same samples


class Setting(msgspec.Struct, frozen=True):
    """What all runs of a sweep share; runs of another setting are not put beside them."""

    task: str
    task_options: dict[str, str]
    optimizer: str
    batch: int
    samples: int
    machines: str


class Curve(msgspec.Struct, frozen=True):
    """A run's looks at the held-out data; a loss that is no number is None."""

    seconds: list[float]
    epochs: list[float]
    accuracy: list[float | None]
    loss: list[float | None]


class Result(msgspec.Struct, frozen=True):
    """One run of a sweep; seconds are virtual, but for `wall_seconds`."""

    setting: Setting
    strategy: str
    expression: str
    workers: int
    rate: float
    straggler: str | None
    seed: int
    steps: int
    samples: int
    seconds: float
    accuracy: float | None
    loss: float | None
    efficiency: float
    bytes_sent_per_member: float
    divergence: float | None
    failure: str | None
    wall_seconds: float
    curve: Curve

    @property
    def key(self) -> Key:
        """Which run it is."""
        return Key(self.strategy, self.workers, self.rate, self.straggler, self.seed)

    def seconds_to(self, target: float) -> float:
        """Until the accuracy was first reached; never is infinite."""
        return next(
            (s for s, a in zip(self.curve.seconds, self.curve.accuracy, strict=True) if (a or 0) >= target), inf
        )

    def seconds_before(self, target: float) -> float:
        """The look before the one that found it reached, which is as early as it can have been."""
        missed = [s for s, a in zip(self.curve.seconds, self.curve.accuracy, strict=True) if (a or 0) < target]
        reached = self.seconds_to(target)
        return reached if reached == inf else max((s for s in missed if s < reached), default=0.0)

    def epochs_to(self, target: float) -> float:
        """Until the accuracy was first reached; never is infinite."""
        return next((s for s, a in zip(self.curve.epochs, self.curve.accuracy, strict=True) if (a or 0) >= target), inf)


@dataclass(frozen=True)
class Key:
    """Which run of a sweep: no two have the same."""

    strategy: str
    workers: int
    rate: float
    straggler: str | None
    seed: int

    def label(self, name: str) -> str:
        """The run in a few words, its strategy by the name it was given."""
        trouble = ", straggler" if self.straggler else ""
        return f"{name}, {told_workers(self.workers)}, rate {self.rate:g}{trouble}, seed {self.seed}"


@dataclass(frozen=True)
class Case:
    """A run to be played: its key, and the request with one part that says all of it."""

    key: Key
    setting: Setting
    request: Request

    @property
    def part(self) -> Part:
        """The only strategy."""
        return self.request.parts[0]

    @property
    def label(self) -> str:
        """The run in a few words."""
        return self.key.label(self.part.text)


@dataclass(frozen=True)
class Axes:
    """What a sweep goes over, in the order of its table."""

    parts: tuple[Part, ...]
    workers: tuple[int, ...]
    rates: tuple[float, ...]
    stragglers: tuple[Script, ...]
    seeds: tuple[int, ...]

    def samples(self, batch: int, epochs: float, size: int) -> int:
        """What every run trains: the first count from `epochs` up that is whole steps of every worker count."""
        step, asked = batch * lcm(*self.workers), epochs * size
        found = ceil(asked / step - 1e-9) * step
        if found > SLACK * asked:
            counts = ",".join(map(str, self.workers))
            told = f"{found:,} samples, {found / size:.3g} epochs, and {epochs:g} are asked for"
            raise Refused(
                f"sweep: whole steps of {counts} workers x batch {batch} come together only at {told}",
                f"--epochs {found / size + 5e-4:.3f}, or worker counts that divide each other",
            )
        return found

    def cases(self, whole: Request, setting: Setting) -> list[Case]:
        """Every run, seed by seed, so that a sweep broken off has some seeds complete."""
        return [
            self._case(whole, setting, *choice)
            for choice in product(self.seeds, self.workers, self.rates, self.stragglers, self.parts)
        ]

    def _case(
        self, whole: Request, setting: Setting, seed: int, workers: int, rate: float, trouble: Script, part: Part
    ) -> Case:
        key = Key(repr(part.strategy), workers, rate, spelled(trouble), seed)
        steps = setting.samples // (workers * whole.batch)
        request = replace(
            whole,
            parts=(replace(part, optimizer=_paced(part.optimizer, rate)),),
            world=World(workers, seed),
            steps=steps,
            epochs=None,
            trouble=trouble,
            evaluate_every=max(1, round(steps / EVALUATIONS)),
        )
        return Case(key, setting, request)


def _paced(optimizer: Optimizer, rate: float) -> Optimizer:
    return replace(optimizer, rate=rate)


def spelled(trouble: Script) -> str | None:
    """A script of trouble as it is typed; None for none."""
    from gossamer.cli.report import lower

    return " + ".join(lower(repr(line)) for line in trouble.lines) or None


def chosen(results: Sequence[Result], cases: Sequence[Case]) -> list[Result]:
    """The results of these cases, in their order."""
    by_key = {result.key: result for result in results}
    return [by_key[case.key] for case in cases if case.key in by_key]
