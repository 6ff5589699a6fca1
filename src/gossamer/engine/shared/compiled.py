"""A lane's words, sums and copy-in through the compiled loops. Knows addresses; waits a slice at most."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from gossamer.engine.shared import kernel
from gossamer.engine.shared.places import Places, Span
from gossamer.engine.shared.words import SLICE

SPINS = 50  # looks at a word before sleeping on it, and only where every member has a core
SMALL = 1 << 16  # bytes up to which one member sums a bucket for all: summing costs less than sleeping twice
STREAM = 1 << 20  # bytes from which a share of the one result is written past the caches where that is quicker

Addresses = ctypes.Array[ctypes.c_void_p]
Counts = ctypes.Array[ctypes.c_int64]


class Compiled:
    """One member's table of addresses, and the calls that take it."""

    def __init__(
        self,
        address: int,
        where: Places,
        member: int,
        shares: tuple[tuple[Span, ...], ...],
        dtype: torch.dtype,
        small: int = SMALL,
    ) -> None:
        library = kernel.library()
        assert library is not None, "asked for compiled loops that were not built"
        self.sums = dtype in kernel.KINDS
        self._library, self._slot, self._width = library, address + where.slots + member * where.stride, where.width
        self._kind, self._dtype = kernel.KINDS.get(dtype, -1), dtype
        edges = [edge for spans in shares for span in spans for edge in span]
        bytes_of = [sum(last - first for first, last in spans) * where.width for spans in shares]
        self._shares = (ctypes.c_int64 * len(edges))(*edges)
        self._small = (ctypes.c_int32 * where.buckets)(*(self.sums and 0 < size <= small for size in bytes_of))
        self.rounds = (ctypes.c_uint32 * where.buckets)()
        self._progress = (ctypes.c_int32 * where.buckets)()
        self._weights = (ctypes.c_double * where.size)()
        self._stays = (ctypes.c_void_p * where.buckets)()
        self._kept: dict[int, ctypes.Array[kernel.Stay]] = {}  # by bucket: what `_stays` points at
        self.sick = (ctypes.c_int32 * where.buckets)(*[-1] * where.buckets)
        self.ways = (kernel.Way * 2)()
        self._table = kernel.Table(
            member=member,
            size=where.size,
            buckets=where.buckets,
            kind=self._kind,
            spins=SPINS if where.size <= len(os.sched_getaffinity(0)) else 0,
            slice=int(SLICE * 1e9),
            stream=STREAM,
            slots=address + where.slots,
            stride=where.stride,
            whole=address + where.whole if where.shared else None,
            words=address + where.words,
            apart=where.apart,
            counters=address + where.counters,
            shares=self._shares,
            small=self._small,
            rounds=self.rounds,
            progress=self._progress,
            stays=self._stays,
            sick=self.sick,
            ways=ctypes.addressof(self.ways),
        )
        self._at = ctypes.addressof(self._table)
        self._calls: dict[int, tuple[Addresses, Counts]] = {}

    def small(self, bucket: int) -> bool:
        """Whether one member sums it for all."""
        return bool(self._small[bucket])

    def announce(self, bucket: int) -> int:
        return int(self._library.lane_announce(self._at, bucket))

    def ready(self, bucket: int) -> int:
        return int(self._library.lane_ready(self._at, bucket))

    def gather(self, bucket: int) -> int:
        return int(self._library.lane_gather(self._at, bucket))

    def done(self, bucket: int) -> int:
        return int(self._library.lane_done(self._at, bucket))

    def settle(self, bucket: int) -> int:
        return int(self._library.lane_settle(self._at, bucket))

    def reduce(self, bucket: int, into: int, weights: Sequence[float] | None) -> int:
        """Wait for all announced, then sum my share."""
        return int(self._library.lane_reduce(self._at, bucket, into, self._weighed(weights)))

    def sum(self, first: int, last: int, into: int, weights: Sequence[float] | None) -> None:
        """Sum these elements of all slots, whoever's share they are."""
        self._library.lane_sum(self._at, first, last, into, self._weighed(weights))

    def mix(self, bucket: int, into: int, weights: Sequence[float] | None) -> int:
        """From announcing to settling; called again after NOT_YET it goes on."""
        return int(self._library.lane_mix(self._at, bucket, into, self._weighed(weights)))

    def load(self, into: Tensor, sources: Sequence[Tensor], scale: float) -> int:
        """Copy the sources one after the other, scaled; returns the first that holds a NaN or an infinity, or -1."""
        return self._load(into, *self._listed(into, sources), scale)

    def stay(
        self, bucket: int, start: int, into: Tensor, sources: Sequence[Tensor], share: Span, may: Callable[[int], bool]
    ) -> tuple[int, list[int]]:
        """Copy the sources but for those within `share` that may stay, which are summed where they are; also returns
        which these are.

        `start` is the bucket's first element. Those that stay must do so until the bucket is settled; they are looked
        at when they are summed: `sick`.
        """
        places, counts = self._listed(into, sources)
        staying, spans, at, home = list[int](), list[tuple[int, int, int]](), start, into.data_ptr()
        for number, count in enumerate(counts):
            place = places[number] or 0
            away = place != home + (at - start) * self._width  # neither copied by torch nor made in its place
            if count and share[0] <= at and at + count <= share[1] and away and may(number):
                spans.append((at, at + count, place))
                staying.append(number)
                places[number] = None
            at += count
        self._keep(bucket, spans)
        return self._load(into, places, counts, 1.0), staying

    def forget(self, bucket: int) -> None:
        """Nothing of a bucket stays where it is."""
        self._keep(bucket, [])

    def _keep(self, bucket: int, spans: Sequence[tuple[int, int, int]]) -> None:
        kept = self._kept.get(bucket)
        if kept is None or len(kept) <= len(spans):
            self._kept[bucket] = kept = (kernel.Stay * (len(spans) + 1))()
        kept[len(spans)] = kernel.Stay(0, 0, None)
        for number, span in enumerate(spans):
            kept[number] = kernel.Stay(*span)
        self._stays[bucket] = ctypes.addressof(kept) if spans else None

    def _listed(self, into: Tensor, sources: Sequence[Tensor]) -> tuple[Addresses, Counts]:
        """Where the sources lie, and their lengths; what the loops cannot read torch has brought in."""
        count = len(sources)
        if count not in self._calls:
            self._calls[count] = (ctypes.c_void_p * count)(), (ctypes.c_int64 * count)()
        places, counts = self._calls[count]
        at, start, width = into.data_ptr(), 0, self._width
        for number, source in enumerate(sources):
            length = source.numel()
            if source.dtype is self._dtype and source.is_contiguous() and source.is_cpu:
                places[number] = source.data_ptr()
            else:
                into[start : start + length].view(source.shape).copy_(source)
                places[number] = at + start * width
            counts[number] = length
            start += length
        return places, counts

    def _load(self, into: Tensor, places: Addresses, counts: Counts, scale: float) -> int:
        return int(self._library.lane_load(self._at, into.data_ptr(), places, counts, len(counts), scale))

    def _weighed(self, weights: Sequence[float] | None) -> ctypes.Array[ctypes.c_double] | None:
        if weights is None:
            return None
        self._weights[:] = list(weights)
        return self._weights
