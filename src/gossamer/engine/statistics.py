"""The statistics that batch norms are evaluated with in a run that has no moving averages. Knows no strategy."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

import torch
from torch import Tensor, nn

from gossamer.engine.loop.average import mean
from gossamer.engine.loop.living import Meeting
from gossamer.recipes.norms import fresh_statistics, keeping
from gossamer.replica.local import drawing
from gossamer.tasks import Batch, Stream, Task

MOST = 256  # samples of each worker that they are taken from, fewer than an evaluation computes at once


class Statistics:
    """Taken by all members alike before an evaluation, from the samples that each has read last, and left in the model
    until the next; nothing happens unless the run's norms are fresh."""

    def __init__(self, task: Task, stream: Stream, member: int, *, fresh: bool) -> None:
        self.fresh, self._task, self._stream, self._member = fresh, task, stream, member
        self._taken: list[Tensor] = []

    @contextmanager
    def taken(self, step: int, met: Meeting) -> Iterator[None]:
        """Within, the norms have statistics of what all that met have read before this step."""
        if not self.fresh:
            yield
            return
        model, rows = self._task.model, self._read(step)
        device = next(model.parameters()).device

        def forward(_: nn.Module, batch: Batch) -> None:
            with drawing(device, self._stream.world, (step, self._member)):  # training draws as if this were not
                self._task.loss(model, batch)

        batch = tuple(part[rows].to(device) for part in self._task.train)
        with fresh_statistics(model, [batch], forward, partial(mean, met.fabric)):
            self._taken = [buffer.clone() for buffer in self._buffers()]
            yield

    @torch.no_grad()
    def leave(self) -> None:
        """The model keeps them: a checkpoint holds what was evaluated."""
        for buffer, values in zip(self._buffers(), self._taken, strict=True) if self._taken else ():
            buffer.copy_(values)

    def _buffers(self) -> list[Tensor]:
        kept = [(norm.running_mean, norm.running_var) for norm in keeping(self._task.model)]
        return [each for pair in kept for each in pair if each is not None]

    def _read(self, step: int) -> Tensor:
        """The samples that this member has read last, before a step."""
        found: list[Tensor] = []
        while step > 0 and sum(map(len, found)) < MOST:
            step -= 1
            found.append(self._stream.indices(self._member, step))
        return torch.cat(found)[:MOST]
