"""The sharded update: parameters exist once in the host's memory, each member sums and steps its share for all.

In a loop of our own nobody needs the mixed gradient, so it is never handed out: sums are taken when the update asks for
them. In the user's loop gradients are mixed in full first, so that clipping counts once; only the update is shared.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from gossamer.engine.fabrics.shared import Shared, leaving
from gossamer.engine.shared import Into
from gossamer.engine.shared.compiled import SMALL
from gossamer.engine.shared.places import bounds, by_tensor
from gossamer.parts.route import Auto
from gossamer.replica import Replica
from gossamer.strategy import AnyStrategy, slots

if TYPE_CHECKING:
    from gossamer.engine.loop.strand import Strand

Span = tuple[int, int]


class Shard:
    """This member's share of a strand, with an optimizer like the user's over it."""

    @classmethod
    def of(cls, strand: Strand, strategy: AnyStrategy, *, ours: bool) -> Shard | None:
        """A share, where the strategy asks for one and members share memory; else None."""
        exchanges = slots(strategy)
        free = len(exchanges) == 1 and exchanges[0].route == Auto() and exchanges[0].shardable
        asked = any(exchange.route.shards for exchange in exchanges) or (ours and free)
        return cls(strand, strand.fabric, ours=ours) if asked and isinstance(strand.fabric, Shared) else None

    def __init__(self, strand: Strand, fabric: Shared, *, ours: bool) -> None:
        self.ours, self._strand, self._fabric = ours, strand, fabric
        self._last = len(strand.cuts)
        length, start = strand.layout.length, strand.layout.start
        shares = None if strand.borrowed.elementwise else self._whole_tensors()
        self.lane = fabric.lane(length, start.dtype, strand.cuts, shared=True, shares=shares)
        assert self.lane.whole is not None
        self.storage = (self.lane.whole, fabric.lend_lane(self.lane, length, strand.cuts))
        self._fence = fabric.lane(16, torch.float32)
        # a small bucket is done for all as soon as one member has summed it, so settling waits for nobody's step
        self._small = all((right - left) * start.element_size() <= SMALL for left, right in self.lane.bounds)

    def ready(self, replica: Replica) -> None:
        """Everybody has laid its parameters down: the optimizer of the share may begin."""
        self.fence()
        found = list(self._pieces())
        placed = [(home, *self._cut(*span)) for home, span in found]
        self.optimizer = self._strand.borrowed.over([(home, values) for home, values, _ in placed])
        self._grads = [(values, slope) for _, values, slope in placed]
        self.spans = [span for _, span in found]
        self.replica = replica

    @property
    def pieces(self) -> list[Tensor]:
        """What the optimizer of the share steps, span by span."""
        return [values for values, _ in self._grads]

    def announce(self, number: int) -> None:
        """My gradients of a bucket are there; buckets are numbered from the last tensors on.

        Others take my gradients of their shares, and the parameters of mine: as many bytes as along a ring.
        """
        bucket = self._last - number
        self.lane.announce(bucket)
        left, right = self.lane.bounds[bucket]
        moved = leaving(self.lane, bucket, self.lane.mine[left:right])
        self._fabric.sent[0] += moved
        self._fabric.heard[0] += moved

    def sum(self) -> None:
        """Wait for everybody's gradients and sum my share; after it nobody computes at the parameters any more."""
        for bucket in range(self._last, -1, -1):
            self.lane.reduce(bucket, Into.OWN)

    def norm_squared(self) -> float:
        """Of my share of the mean gradient."""
        return float(sum(slope.double().square().sum() for _, slope in self._grads))

    @property
    def slopes(self) -> list[Tensor]:
        """My share of the mean gradient, span by span."""
        return [slope for _, slope in self._grads]

    def scale(self, factor: float) -> None:
        """Scale my share of the mean gradient."""
        for _, slope in self._grads:
            slope.mul_(factor)

    def step(self, unused: Sequence[int]) -> None:
        """Step my share, but for tensors that nobody used."""
        edges = self._strand.layout.spans if unused else []
        gaps = [edges[place] for place in unused]
        self._part(gaps)
        for (values, slope), span in zip(self._grads, self.spans, strict=True):
            values.grad = None if any(_within(span, gap) for gap in gaps) else slope
        self.optimizer.step()

    def _part(self, gaps: list[Span]) -> None:
        """Pieces that hold a tensor without a gradient, which is not stepped, beside others are cut around it."""
        for n in range(len(self.spans) - 1, -1, -1):
            start, stop = self.spans[n]
            inner = sorted({start, stop, *(edge for gap in gaps for edge in gap if start < edge < stop)})
            if len(inner) > 2:
                self._split(n, list(pairwise(inner)))

    def _split(self, n: int, spans: list[Span]) -> None:
        """One piece becomes several, with what the optimizer remembers of each."""
        old, start = self._grads[n][0], self.spans[n][0]
        fresh = [self._cut(*span) for span in spans]
        held = next(each["params"] for each in self.optimizer.param_groups if any(p is old for p in each["params"]))
        at = next(i for i, p in enumerate(held) if p is old)
        held[at : at + 1] = [values for values, _ in fresh]
        known = self.optimizer.state.pop(old, {})
        for (left, right), (values, _) in zip(spans, fresh, strict=True) if known else ():
            self.optimizer.state[values] = {
                name: value[left - start : right - start].clone()
                if isinstance(value, Tensor) and value.shape == old.shape
                else (value.clone() if isinstance(value, Tensor) else value)
                for name, value in known.items()
            }
        self._grads[n : n + 1], self.spans[n : n + 1] = fresh, spans

    def settle(self) -> None:
        """Wait until all shares are stepped."""
        for bucket in range(self._last, -1, -1):
            self.lane.done(bucket)
        for bucket in range(self._last, -1, -1):
            self.lane.settle(bucket)
        if self._small:
            self.fence()

    def fence(self) -> None:
        """Nobody goes on before all are here."""
        self._fence.mix(0, Into.OWN)

    def gather(self) -> None:
        """Gradients that the user put elsewhere (`p.grad = ...`) come back to where the share is stepped from."""
        for tensor, slope in zip(self._strand.tensors, self.replica.slopes, strict=True):
            if tensor.grad is None:
                slope.zero_()
            elif tensor.grad.data_ptr() != slope.data_ptr():
                slope.copy_(tensor.grad)

    def _cut(self, start: int, stop: int) -> tuple[Tensor, Tensor]:
        """The values and gradients of a span: flat, or a whole tensor in its shape."""
        values, slopes = self.storage
        if self._strand.borrowed.elementwise:
            return values[start:stop], slopes[start:stop]
        layout = self._strand.layout
        place = [left for left, _ in self._strand.layout.spans].index(start)
        return layout.views(values)[place], layout.views(slopes)[place]

    def _pieces(self) -> Iterator[tuple[int, Span]]:
        """My spans with the param group of each: tensors of one param group that follow each other are one piece."""
        fused = self._strand.borrowed.elementwise
        for shares in self.lane.shares:
            mine, last = shares[self.lane.member], None
            for (left, right), home in zip(self._strand.layout.spans, self._strand.borrowed.homes, strict=True):
                start, stop = max(left, mine[0]), min(right, mine[1])
                if start >= stop:
                    continue
                if fused and last is not None and last[0] == home and last[1][1] == start:
                    last = (home, (last[1][0], stop))
                    continue
                if last is not None:
                    yield last
                last = (home, (start, stop))
            if last is not None:
                yield last

    def _whole_tensors(self) -> list[list[Span]]:
        """Shares that never cut a tensor, for optimizers that look at tensors as a whole; as equal as that allows."""
        strand = self._strand
        buckets = bounds(strand.layout.length, strand.cuts)
        return [by_tensor(bucket, strand.layout.spans, self._fabric.size) for bucket in buckets]


def _within(span: Span, other: Span) -> bool:
    return other[0] <= span[0] and span[1] <= other[1]
