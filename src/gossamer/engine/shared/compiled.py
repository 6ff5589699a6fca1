"""A lane's words, sums and copy-in through the compiled loops. Knows addresses; waits a slice at most."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Sequence

import torch
from torch import Tensor

from gossamer.engine.shared import kernel
from gossamer.engine.shared.places import Places, Span
from gossamer.engine.shared.words import SLICE

SPINS = 50  # looks at a word before sleeping on it, and only where every member has a core
SMALL = 1 << 16  # bytes up to which one member sums a bucket for all: summing costs less than sleeping twice
STREAM = 1 << 20  # bytes from which a share of the one result is written past the caches


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
        )
        self._at = ctypes.addressof(self._table)
        self._calls: dict[int, tuple[ctypes.Array[ctypes.c_void_p], ctypes.Array[ctypes.c_int64]]] = {}

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
        count = len(sources)
        if count not in self._calls:
            self._calls[count] = (ctypes.c_void_p * count)(), (ctypes.c_int64 * count)()
        places, counts = self._calls[count]
        at, start, width = into.data_ptr(), 0, self._width
        for number, source in enumerate(sources):
            length = source.numel()
            if source.dtype is self._dtype and source.is_contiguous() and source.is_cpu:
                places[number] = source.data_ptr()
            else:  # what the loops cannot read is brought in by torch; they only scale and look
                into[start : start + length].view(source.shape).copy_(source)
                places[number] = at + start * width
            counts[number] = length
            start += length
        return int(self._library.lane_load(self._at, at, places, counts, count, scale))

    def _weighed(self, weights: Sequence[float] | None) -> ctypes.Array[ctypes.c_double] | None:
        if weights is None:
            return None
        self._weights[:] = list(weights)
        return self._weights
