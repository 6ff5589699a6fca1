"""Gradients that stay where autograd made them: each member sums whole tensors of its own in place, for all.

Copied is what others sum. So of a gradient a member reads, and writes, once what it would otherwise twice.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import torch
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
        buckets = places.bounds(strand.layout.length, strand.cuts)
        shares = places.whole(buckets, strand.layout.spans, strand.fabric.size)
        return cls(strand, strand.fabric, shares) if shares is not None else None

    def __init__(self, strand: Strand, fabric: Shared, shares: Sequence[Sequence[places.Span]]) -> None:
        length, start = strand.layout.length, strand.layout.start
        self._lane = fabric.lane(length, start.dtype, strand.cuts, shares=shares)
        self.slopes = fabric.lend_lane(self._lane, length, strand.cuts)
        self._tensors, self._buckets = strand.tensors, strand.buckets[0]
        known = {span: bucket for bucket, span in enumerate(self._lane.bounds)}
        self._there = {number: known[b.span] for number, b in enumerate(self._buckets) if b.span in known}
        self._here = {there: number for number, there in self._there.items()}  # the lane counts buckets from the front
        self.places = set[int]()

    def holds(self, number: int) -> bool:
        """Whether a bucket of the strand is one of the lane; one without elements is none."""
        return number in self._there

    def load(self, number: int, sources: Sequence[Tensor]) -> int:
        """Copy what others sum of a bucket's gradients; the first that is sick, or -1."""
        tensors = self._buckets[number].places
        found, stayed = self._lane.stay(self._there[number], sources, lambda each: self._may(tensors[each]))
        self.places.update(tensors[each] for each in stayed)
        return found

    def faults(self) -> Iterator[tuple[int, int]]:
        """Members and the tensors that were sick with them, of those that stayed; once all are mixed."""
        for member, bucket, source in self._lane.faults():
            yield member, self._buckets[self._here[bucket]].places[source]

    def _may(self, place: int) -> bool:
        """Whether nobody else sees the memory of a gradient: a view that autograd made may be another parameter's, too,
        or wait to be computed with; one with a graph of its own is not ours to write to."""
        grad = self._tensors[place].grad
        return grad is not None and not grad.requires_grad and holders(grad) == SOLE


def holders(tensor: Tensor) -> int:
    """How many hold a tensor's memory, whoever asks included; 0 where torch does not tell."""
    count = getattr(torch._C, "_storage_Use_Count", None)
    return int(count(tensor.untyped_storage()._cdata)) if count is not None and type(tensor) is Tensor else 0


SOLE = holders(torch.empty(1)) or -1
