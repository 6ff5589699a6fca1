"""Sums over slots and the copy into one, in plain torch, for lanes without compiled loops. Knows no words."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

CHUNK = 1 << 16  # elements that are summed before the next: they stay in the cache from one operation to the next


class Sums:
    """Adds up slots piece by piece in memory of its own, 16-bit numbers in 32."""

    def __init__(self, slots: Sequence[Tensor]) -> None:
        wide = torch.promote_types(slots[0].dtype, torch.float32)
        self._slots = slots
        self._total = torch.empty(min(CHUNK, slots[0].numel()), dtype=wide)

    def share(self, start: int, stop: int, targets: Sequence[Tensor], weights: Sequence[float] | None) -> None:
        """The mean of the slots between two elements (their weighted sum, if told) into every target."""
        for at in range(start, stop, CHUNK):
            total = self._sum(at, min(at + CHUNK, stop), weights)
            for target in targets:
                target[at : at + total.numel()].copy_(total)

    def _sum(self, start: int, stop: int, weights: Sequence[float] | None) -> Tensor:
        total = self._total[: stop - start]
        total.copy_(self._slots[0][start:stop])
        if weights is not None:
            total.mul_(weights[0])
        for member, slot in enumerate(self._slots[1:], start=1):
            total.add_(slot[start:stop], alpha=1.0 if weights is None else weights[member])
        return total if weights is not None or len(self._slots) == 1 else total.mul_(1.0 / len(self._slots))


def load(into: Tensor, sources: Sequence[Tensor], scale: float) -> int:
    """Copy the sources one after the other, scaled; returns the first that holds a NaN or an infinity, or -1."""
    at, found = 0, -1
    for number, source in enumerate(sources):
        target = into[at : at + source.numel()]
        at += source.numel()
        if source.data_ptr() != target.data_ptr():
            target.view(source.shape).copy_(source)
        if scale != 1.0:
            target.mul_(scale)
        if found < 0 and target.numel() and not all(torch.isfinite(end) for end in torch.aminmax(target)):
            found = number
    return found
