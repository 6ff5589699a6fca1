"""Which samples a member reads at a step: a pure function, so no two members ever read the same one in an epoch.

Epochs follow each other without a seam: the whole run is one stream of permutations, cut into equal batches, so every
sample comes once per epoch and no batch is ever short.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Protocol

import torch
from torch import Tensor

from gossamer.parts.chance import draw
from gossamer.parts.refusal import Refused, whole
from gossamer.parts.world import World


class Cuts(Protocol):
    """How steps of different lengths cut the stream."""

    def start(self, step: int) -> int:
        """The sample that a step begins with, counted from the begin of the run."""

    def size(self, step: int) -> int:
        """The samples of a step, of all workers together."""


@dataclass(frozen=True)
class Even:
    """Steps of `total` samples; the one numbered `step` begins with `sample`, whatever those before it had."""

    total: int
    step: int = 0
    sample: int = 0

    def start(self, step: int) -> int:
        """Never before the first sample, however a look back goes."""
        return max(0, self.sample + (step - self.step) * self.total)

    def size(self, step: int) -> int:
        """Always the same."""
        return self.total


class Stream:
    """Each member has its share of every step, in order: sample (step x workers + member) x batch onwards belongs to
    (member, step), unless `cuts` says otherwise."""

    def __init__(self, size: int, batch: int, world: World, cuts: Cuts | None = None) -> None:
        whole("stream", "batch", batch, 1)
        if cuts is None and batch * world.size > size:
            most = max(1, size // batch)
            raise Refused(
                f"{world.size} workers x batch {batch} is {batch * world.size} samples a step, and there are {size}",
                f"a batch of {size // world.size} per worker"
                if world.size <= size
                else f"{most} worker{'s' * (most > 1)} with a batch of {min(batch, size)}",
            )
        self.size, self.world, self.cuts = size, world, cuts or Even(batch * world.size)
        self._epoch = lru_cache(maxsize=16)(self._shuffled)

    def begin(self, step: int, sample: int) -> None:
        """Go on with this step at this sample, evenly from there on: earlier ones may have had other sizes."""
        self.cuts = Even(self.cuts.size(step), step, sample)

    def indices(self, member: int, step: int) -> Tensor:
        """The samples of this member at this step, of its own count of steps."""
        count = self.cuts.size(step) // self.world.size
        epoch, place = divmod(self.cuts.start(step) + member * count, self.size)
        found = self._epoch(epoch)[place : place + count]
        if len(found) < count:
            found = torch.cat([found, self._epoch(epoch + 1)[: count - len(found)]])
        return found

    def _shuffled(self, epoch: int) -> Tensor:
        generator = torch.Generator().manual_seed(draw(self.world.seed, epoch, 0x5A) >> 1)
        return torch.randperm(self.size, generator=generator)
