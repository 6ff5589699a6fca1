"""Gradients that stay where autograd made them: each member sums whole tensors of its own in place, for all.

Copied is what others sum. So of a gradient a member reads, and writes, once what it would otherwise twice.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate
from math import prod
from typing import TYPE_CHECKING

from torch import Tensor

from gossamer.engine.fabrics.shared import Shared
from gossamer.engine.shared import places
from gossamer.strategy import AnyStrategy, slots

if TYPE_CHECKING:
    from gossamer.engine.loop.strand import Strand


class Stays:
    """A strand's lane whose shares are whole tensors; `places` are those whose gradient stayed in this backward."""

    @classmethod
    def of(cls, strand: Strand, strategy: AnyStrategy) -> Stays | None:
        """Where all gradients are summed as they are at every step, in memory, and tensors can be shared out."""
        exchanges = slots(strategy)
        most = strand.layout.start.nbytes
        plain = len(exchanges) == 1 and exchanges[0].shardable and strand.fabric.size > 1
        if not plain or not isinstance(strand.fabric, Shared) or not strand.layout.length:
            return None
        if not all(exchanges[0].route.suited(nbytes).native for nbytes in (1, most)):
            return None
        length, edges = strand.layout.length, [0, *strand.cuts]
        ends = list(accumulate(prod(tag.shape) for tag in strand.layout.tags))
        shares = places.whole(places.bounds(length, strand.cuts), ends, strand.fabric.size)
        return cls(strand, strand.fabric, shares, len(edges)) if shares is not None else None

    def __init__(self, strand: Strand, fabric: Shared, shares: Sequence[Sequence[places.Span]], count: int) -> None:
        length, start = strand.layout.length, strand.layout.start
        self._lane = fabric.lane(length, start.dtype, strand.cuts, shares=shares)
        self.slopes = fabric.lend_lane(self._lane, length, strand.cuts)
        self._buckets, self._last = strand.buckets[0], count - 1
        self.places = set[int]()

    def load(self, number: int, sources: Sequence[Tensor]) -> int:
        """Copy what others sum of a bucket's gradients; the first that is sick, or -1. Buckets count from the end."""
        found, stayed = self._lane.stay(self._last - number, sources)
        self.places.update(self._buckets[number].places[each] for each in stayed)
        return found

    def faults(self) -> Iterator[tuple[int, int]]:
        """Members and the tensors that were sick with them, of those that stayed; once all are mixed."""
        for member, bucket, source in self._lane.faults():
            yield member, self._buckets[self._last - bucket].places[source]
