"""Which samples a member reads at a step: a pure function, so no two members ever read the same one in an epoch.

Epochs follow each other without a seam: the whole run is one stream of permutations, cut into equal batches, so every
sample comes once per epoch and no batch is ever short.
"""

from __future__ import annotations

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


class Stream:
    """Sample (step x workers + member) x batch onwards belongs to (member, step), unless steps are told to be cut
    otherwise; then each member has its share of every step, in order."""

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
        self.size, self.batch, self.world, self._cuts = size, batch, world, cuts
        self._epoch = lru_cache(maxsize=16)(self._shuffled)

    def indices(self, member: int, step: int) -> Tensor:
        """The samples of this member at this step, of its own count of steps."""
        count, start = self.batch, (step * self.world.size + member) * self.batch
        if self._cuts is not None:
            count = self._cuts.size(step) // self.world.size
            start = self._cuts.start(step) + member * count
        epoch, place = divmod(start, self.size)
        found = self._epoch(epoch)[place : place + count]
        if len(found) < count:
            found = torch.cat([found, self._epoch(epoch + 1)[: count - len(found)]])
        return found

    def _shuffled(self, epoch: int) -> Tensor:
        generator = torch.Generator().manual_seed(draw(self.world.seed, epoch, 0x5A) >> 1)
        return torch.randperm(self.size, generator=generator)
