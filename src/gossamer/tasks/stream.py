"""Which samples a member reads at a step: a pure function, so no two members ever read the same one in an epoch.

Epochs follow each other without a seam: the whole run is one stream of permutations, cut into equal batches, so every
sample comes once per epoch and no batch is ever short.
"""

from __future__ import annotations

from functools import lru_cache

import torch
from torch import Tensor

from gossamer.parts.chance import draw
from gossamer.parts.refusal import Refused, whole
from gossamer.parts.world import World


class Stream:
    """Sample (step x workers + member) x batch onwards belongs to (member, step)."""

    def __init__(self, size: int, batch: int, world: World) -> None:
        whole("stream", "batch", batch, 1)
        if batch * world.size > size:
            most = max(1, size // batch)
            raise Refused(
                f"{world.size} workers x batch {batch} is {batch * world.size} samples a step, and there are {size}",
                f"a batch of {size // world.size} per worker"
                if world.size <= size
                else f"{most} worker{'s' * (most > 1)} with a batch of {min(batch, size)}",
            )
        self.size, self.batch, self.world = size, batch, world
        self._epoch = lru_cache(maxsize=16)(self._shuffled)

    def indices(self, member: int, step: int) -> Tensor:
        """The samples of this member at this step, of its own count of steps."""
        start = (step * self.world.size + member) * self.batch
        epoch, place = divmod(start, self.size)
        found = self._epoch(epoch)[place : place + self.batch]
        if len(found) < self.batch:
            found = torch.cat([found, self._epoch(epoch + 1)[: self.batch - len(found)]])
        return found

    def _shuffled(self, epoch: int) -> Tensor:
        generator = torch.Generator().manual_seed(draw(self.world.seed, epoch, 0x5A) >> 1)
        return torch.randperm(self.size, generator=generator)
