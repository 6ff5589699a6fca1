"""One epoch's samples in the order all members agreed on, cut into global batches, and a member's share of each.

Pure arithmetic on indices: knows no loader, no sampler, no network.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.utils.data import get_worker_info

from gossamer.parts.chance import draw


def share(count: int, member: int, size: int) -> tuple[int, int]:
    """From where to where in a batch of `count` a member reads: sizes differ by at most one, earlier ones get more."""
    least, more = divmod(count, size)
    start = member * least + min(member, more)
    return start, start + least + (member < more)


@dataclass(frozen=True, eq=False)
class Epoch:
    """Batch k is order[edges[k] : edges[k + 1]], of which a last one may be short."""

    number: int
    order: Tensor | range
    edges: Tensor | range

    def __len__(self) -> int:
        """How many batches there are."""
        return len(self.edges) - 1

    def mine(self, batch: int, member: int, size: int) -> list[int]:
        """The samples a member reads of a batch; one without any reads the batch's first, which counts nothing."""
        first, last = self._span(batch)
        start, stop = share(last - first, member, size)
        found = self.order[first + start : first + stop] if stop > start else self.order[first : first + 1]
        return found.tolist() if isinstance(found, Tensor) else list(found)

    def counts(self, batch: int, member: int, size: int) -> tuple[int, int]:
        """How many samples of a batch are this member's, and how many there are in all."""
        first, last = self._span(batch)
        start, stop = share(last - first, member, size)
        return stop - start, last - first

    def _span(self, batch: int) -> tuple[int, int]:
        return int(self.edges[batch]), min(int(self.edges[batch + 1]), len(self.order))


def even(number: int, order: Tensor | range, batch: int, drop_last: bool) -> Epoch:
    """An epoch of batches of one size, but for a short last one that may be dropped."""
    batches = len(order) // batch if drop_last else -(-len(order) // batch)
    return Epoch(number, order, range(0, batches * batch + 1, batch))


class Drawn(list[int]):
    """Indices that bring their own randomness into a loading process: what is drawn for a batch is decided by the
    batch, so a run that is taken up in mid-epoch draws as if it had never stopped."""

    seed: int

    def __reduce__(self) -> tuple[Callable[[list[int], int], list[int]], tuple[list[int], int]]:
        return _arrive, (list(self), self.seed)


def drawn(indices: list[int], *key: int) -> Drawn:
    """Indices with the seed that the key decides."""
    found = Drawn(indices)
    found.seed = draw(*key) >> 1
    return found


def _arrive(indices: list[int], seed: int) -> list[int]:
    """Indices reach a loading process just before they are read: its generators start where the batch says."""
    if get_worker_info() is not None:
        plant(seed)
    return indices


def plant(seed: int) -> None:
    """Start Python's, numpy's and torch's global generators at one seed."""
    import numpy

    random.seed(seed)
    numpy.random.seed(seed % 2**32)
    torch.manual_seed(seed)
