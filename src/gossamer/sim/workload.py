"""A workload: the tensors of a model, how long a batch computes and when each gradient is there. Knows no cluster."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from itertools import accumulate, pairwise
from pathlib import Path

from gossamer.parts import units
from gossamer.parts.refusal import Refused, real, told, whole
from gossamer.parts.selection import Tag
from gossamer.sim.description import Table, made, read

HEAVIEST = 10**15  # bytes of a model: a thousand times the largest there is


@dataclass(frozen=True)
class Goal:
    """What training is to reach: with the smallest batches it takes `samples`, with batches of B as many times
    (1 + B / critical)."""

    samples: float
    critical: float
    what: str = ""

    def __post_init__(self) -> None:
        real("goal", "samples", self.samples, 1.0, 1e18)
        real("goal", "critical", self.critical, 0.0, 1e18, open_low=True)

    def needed(self, batch: float) -> float:
        """Samples until the goal, with such batches."""
        return self.samples * (1.0 + batch / self.critical)


@dataclass(frozen=True)
class Workload:
    """Tensors in model order, `shares[i]` of the compute going into the i-th; backward comes to the last one first.

    A local batch of `batches[j]` samples computes `seconds[j]`, forward and backward; in between and beyond on straight
    lines. `forward` is the share of it that is over before any gradient is there; `update` seconds follow.
    """

    tags: tuple[Tag, ...]
    shares: tuple[float, ...]
    batches: tuple[int, ...]
    seconds: tuple[float, ...]
    forward: float = 1 / 3
    update: float = 0.0
    epoch: int | None = None
    goal: Goal | None = None
    name: str = ""
    source: str = ""

    def __post_init__(self) -> None:
        where = f"workload {self.name}".strip()
        if not self.tags:
            raise Refused(f"{where}: tensors are missing: a model without layers exchanges nothing", "tensors = [...]")
        heaviest = max(self.tags, key=lambda tag: tag.bytes)
        if self.nbytes > HEAVIEST:
            reason = f"{where}: tensors are of {HEAVIEST:.0e} bytes together at most; the largest is {heaviest.name!r}"
            raise Refused(reason, "fewer or shorter sides")
        if len(self.shares) != len(self.tags) or min(self.shares) < 0 or sum(self.shares) <= 0:
            raise Refused(f"{where}: every tensor has a share of the compute, none below 0, and some above it")
        if not self.batches or len(self.batches) != len(self.seconds):
            raise Refused(f"{where}: batches and seconds are as many as each other, and not none", "one of each")
        if any(b <= a for a, b in pairwise(self.batches)) or self.batches[0] < 1:
            raise Refused(f"{where}: batches grow, and begin with 1 or more, not {list(self.batches)}")
        for seconds in self.seconds:
            real(where, "seconds", seconds, 0.0, 1e9)
        if any(b < a for a, b in pairwise(self.seconds)):
            raise Refused(f"{where}: seconds do not fall as batches grow, as in {list(self.seconds)}")
        real(where, "forward", self.forward, 0.0, 1.0)
        real(where, "update", self.update, 0.0, 1e9)
        if self.epoch is not None:
            whole(where, "epoch", self.epoch)

    @classmethod
    def load(cls, given: str | Path) -> Workload:
        """The workload of a file, or one of ours by its name."""
        return _read(read("workload", given))

    @property
    def nbytes(self) -> int:
        """Bytes of all gradients."""
        return sum(tag.bytes for tag in self.tags)

    def compute(self, batch: float) -> float:
        """Seconds of forward and backward of a local batch, on the machine it was measured on."""
        if len(self.batches) == 1:
            return self.seconds[0] * batch / self.batches[0]
        right = min(max(1, bisect_left(self.batches, batch)), len(self.batches) - 1)
        (b0, b1), (s0, s1) = self.batches[right - 1 : right + 1], self.seconds[right - 1 : right + 1]
        line = s0 + (s1 - s0) * (batch - b0) / (b1 - b0)
        return max(line, s0 * min(1.0, batch / b0))  # a smaller batch has no more samples a second

    def beyond(self, batch: float) -> float:
        """How many times larger than any that was measured a local batch is, or smaller."""
        return max(batch / self.batches[-1], self.batches[0] / batch, 1.0)

    def timed(self, times: Mapping[int, float]) -> Workload:
        """The same with these seconds by local batch; a batch that took less than a smaller one takes as long."""
        batches = sorted(times)
        return replace(self, batches=tuple(batches), seconds=tuple(accumulate((times[each] for each in batches), max)))

    def ready(self) -> list[float]:
        """By tensor, the share of a step's compute that is over when its gradient is there."""
        whole_, behind = sum(self.shares), list(accumulate(reversed(self.shares)))
        return [self.forward + (1.0 - self.forward) * done / whole_ for done in reversed(behind)]

    def noisy(self, scale: float) -> Workload:
        """The same with a noise scale that was measured as the critical batch of its goal."""
        if self.goal is None:
            raise Refused(
                f"workload {self.name}".strip() + ": a noise scale says nothing without a goal",
                "[goal] with samples and critical",
            )
        real("simulate", "noise scale", scale, 0.0, 1e18, open_low=True)
        return replace(self, goal=replace(self.goal, critical=scale))

    def pipelined(self, stages: int, pieces: int) -> Workload:
        """The same model cut into `stages`, one after the other, a batch going through them in `pieces`: a member has
        1/stages of the work, and is idle (stages - 1) / (pieces + stages - 1) of the time."""
        whole("pipelined", "stages", stages, 1, 10**6)
        whole("pipelined", "pieces", pieces, 1, 10**9)
        longer = (pieces + stages - 1) / pieces
        return replace(self, seconds=tuple(each * longer / stages for each in self.seconds))


def _read(table: Table) -> Workload:
    name, source = table.words("name"), table.words("source")
    itemsize = table.count("itemsize", 1, 16, 4)
    rows = table.take("tensors", needed=True)
    tags, shares = _tensors(table.where, rows, itemsize)
    goal = table.table("goal")
    given = (
        tags, shares,
        _numbers(table, "batches", int), tuple(float(each) for each in _numbers(table, "seconds", (int, float))),
        table.number("forward", 0.0, 1.0, 1 / 3), table.unit("update", partial(units.seconds, "update"), 0.0, 1e9, 0.0),
        table.count("epoch", 1, 10**15) if "epoch" in table else table.take("epoch"),
        None if goal is None else _goal(goal), name, source,
    )  # fmt: skip
    table.rest()
    return made(table.where, f"workload {name}".strip(), lambda: Workload(*given))


def _goal(table: Table) -> Goal:
    given = (table.number("samples", 1.0, 1e18), table.number("critical", 0.0, 1e18), table.words("what"))
    table.rest()
    return made(table.where, "goal", lambda: Goal(*given))


def _tensors(where: str, rows: object, itemsize: int) -> tuple[tuple[Tag, ...], tuple[float, ...]]:
    if not isinstance(rows, list) or not rows:
        raise Refused(
            f"{where}: tensors is a list of [name, [sides], share], not {told(rows)}", '[["weight", [8, 8], 1.0]]'
        )
    tags, shares = [], []
    for number, row in enumerate(rows):
        plain = isinstance(row, list) and len(row) == 3 and isinstance(row[0], str) and isinstance(row[1], list)
        if not plain:
            raise Refused(
                f"{where}: tensors[{number}] is [name, [sides], share], not {told(row)}", '["weight", [8, 8], 1.0]'
            )
        for side in row[1]:
            whole(where, f"tensors[{number}], a side", side)
        real(where, f"tensors[{number}], the share", row[2], 0.0, 1e18)
        tags.append(Tag(row[0], tuple(row[1]), itemsize))
        shares.append(float(row[2]))
    return tuple(tags), tuple(shares)


def _numbers(table: Table, name: str, kind: type | tuple[type, ...]) -> tuple[int, ...]:
    found = table.take(name, needed=True)
    if not isinstance(found, list) or any(isinstance(each, bool) or not isinstance(each, kind) for each in found):
        raise Refused(
            f"{table.where}: {name} is a list of {'whole ' * (kind is int)}numbers, not {told(found)}",
            f"{name} = [1, 2, 4]",
        )
    for each in found:
        real(table.where, name, each, 0.0, 1e12)
    return tuple(found)
