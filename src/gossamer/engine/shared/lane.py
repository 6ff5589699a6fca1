"""A lane: every member's numbers in one memory, mixed bucket by bucket. Knows no strategy and no process group."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from enum import IntEnum

import numpy as np
import torch
from torch import Tensor

from gossamer.engine.shared import kernel, memory, places, sums
from gossamer.engine.shared.compiled import SMALL, Compiled
from gossamer.engine.shared.places import Places, Span
from gossamer.engine.shared.sums import Sums
from gossamer.engine.shared.words import OUT_OF_TURN, SLICE, PlainWords, behind, owned

Shares = tuple[tuple[Span, ...], ...]
FAULT, ROUNDS = 2, (1 << 23) - 1  # where in its line a member says what was sick, and the bits of a round in there


class Into(IntEnum):
    """Where the result of a mix goes."""

    EVERY = 0  # every slot
    ONCE = 1  # the one shared tensor
    OWN = 2  # each member's share into its own slot


class Lane:
    """One member's hold on a lane; all members call alike, and sums are taken in the order of members.

    A mix of a bucket is announce, reduce, done, settle, in this order; from announce to settle nobody but the lane
    writes into that bucket. Buckets are independent of each other.
    """

    @classmethod
    def open(
        cls,
        store: memory.Store,
        name: str,
        member: int,
        size: int,
        count: int,
        dtype: torch.dtype,
        cuts: Sequence[int] = (),
        shared: bool = False,
        shares: Sequence[Sequence[Span]] | None = None,
        small: int = SMALL,
        gone: memory.Gone = memory.nobody,
    ) -> Lane:
        """All members call it alike, with a name that this store has not seen; raises Unshared on all or on none.

        `cuts` are the inner boundaries of buckets, `shares[b][m]` is the span that member m owns in bucket b. Buckets
        of up to `small` bytes are summed by one member for all; 0 where members sum other parts than their shares.
        """
        buckets = places.bounds(count, cuts)
        where = Places(size, count, dtype.itemsize, len(buckets), shared)
        owners = places.checked(shares, buckets, size, dtype.itemsize)
        found = memory.shared(store, name, member, size, where.total, kernel.in_use(), gone=gone)
        return cls(member, where, buckets, owners, found, dtype, small)

    def __init__(
        self,
        member: int,
        where: Places,
        buckets: Sequence[Span],
        shares: Shares,
        found: memory.Memory,
        dtype: torch.dtype,
        small: int = SMALL,
    ) -> None:
        self.member, self.size, self.shares, self.alarm = member, where.size, shares, 10.0
        self.missing: Callable[[list[int], int, str], None] = _give_up
        self.bounds = buckets
        starts = [where.slots + other * where.stride for other in range(where.size)]
        starts += [where.whole] if where.shared else []
        views = [found.tensor(start, where.count, dtype) for start in starts]
        self.slots, self.whole = views[: where.size], views[where.size] if where.shared else None
        self.mine = self.slots[member]
        self._table = owned(found.bytes, where)
        self._says = np.frombuffer(memoryview(found.bytes), np.int64, where.size * 8, where.says).reshape(where.size, 8)
        self._spoken = 0
        self._staying: dict[int, list[int]] = {}  # by bucket: sources that are summed where they are
        self._held: dict[int, list[torch.UntypedStorage]] = {}  # and their memory, while others may wait for its sums
        self._sums = Sums(self.slots)
        self._compiled: Compiled | None = None
        self._words: PlainWords | Compiled = PlainWords(found.bytes, found.address, where, member)
        if set(found.remarks) == {"compiled"}:  # words are waited by in one way: all compiled, or none
            self._words = loops = Compiled(found.address, where, member, shares, dtype, small)
            self._compiled = loops if loops.sums else None

    def announce(self, bucket: int) -> None:
        """My numbers of the bucket are in my slot; never waits."""
        self._until(bucket, self._words.announce)

    def ready(self, bucket: int) -> bool:
        """Whether all have announced the mix that I announced last."""
        return self._words.ready(bucket) == 1

    def reduce(self, bucket: int, into: Into, weights: Sequence[float] | None = None) -> None:
        """Wait for all announced, then put the mean of my share (or its sum by weights) where `into` says."""
        self._check(into, weights)
        if self._compiled:
            self._until(bucket, self._compiled.reduce, into, weights)
            if (staying := self._staying.pop(bucket, None)) and (sick := self._compiled.sick[bucket]) >= 0:
                word = (self._words.rounds[bucket] & ROUNDS) << 40 | bucket << 24 | staying[sick] + 1
                self._says[self.member, FAULT] = word  # the others are still to announce the next one when they read it
            return
        self.gather(bucket)
        self._sum(*self.shares[bucket][self.member], into, weights)

    def gather(self, bucket: int) -> None:
        """Wait for all announced; then any part of it may be summed by who is to, before it is done."""
        self._until(bucket, self._words.gather)

    def sum(self, first: int, last: int, into: Into, weights: Sequence[float] | None = None) -> None:
        """Put the mean of elements (or their sum by weights), of a bucket that was gathered, where `into` says."""
        self._check(into, weights)
        if self._compiled:
            self._compiled.sum(first, last, into, weights)
        else:
            self._sum(first, last, into, weights)

    def _sum(self, first: int, last: int, into: Into, weights: Sequence[float] | None) -> None:
        if self.size == 1 and weights is None and into != Into.ONCE:
            return  # the mean of one is where it belongs
        whole = [] if self.whole is None else [self.whole]
        targets = {Into.EVERY: self.slots, Into.ONCE: whole, Into.OWN: [self.mine]}[into]
        self._sums.share(first, last, targets, weights)

    def spread(self, first: int, last: int) -> None:
        """Copy these elements of my slot into every other one."""
        for member, slot in enumerate(self.slots):
            if member != self.member:
                slot[first:last].copy_(self.mine[first:last])

    def done(self, bucket: int) -> None:
        """I have read and written all I have to; never waits."""
        self._until(bucket, self._words.done)

    def settle(self, bucket: int) -> None:
        """Wait until all are done: the result is there, and the bucket is mine to write again."""
        self._until(bucket, self._words.settle)
        self._held.pop(bucket, None)

    def mix(self, bucket: int, into: Into = Into.EVERY, weights: Sequence[float] | None = None) -> None:
        """All of it, from announcing to settling."""
        if self._compiled:
            self._check(into, weights)
            self._until(bucket, self._compiled.mix, into, weights)
            return
        self.announce(bucket)
        self.reduce(bucket, into, weights)
        self.done(bucket)
        self.settle(bucket)

    def load(self, bucket: int, sources: Sequence[Tensor], scale: float = 1.0) -> int:
        """Copy the sources one after the other, scaled, into my slot's bucket; a source that is there is looked at.

        Returns the index of the first that holds a NaN or an infinity once scaled, or -1.
        """
        into = self._room(bucket, sources)
        if self._compiled is None:
            return sums.load(into, sources, scale)
        if self._staying.pop(bucket, None) is not None:  # was to be mixed, and never was
            self._compiled.forget(bucket)
        return self._compiled.load(into, sources, scale)

    def stay(self, bucket: int, sources: Sequence[Tensor], may: Callable[[int], bool]) -> tuple[int, list[int]]:
        """Like `load`, but sources within my share that may stay are not copied: the next mix into EVERY slot sums them
        where they are, and lays their mean down there instead of in my slot. Also returns which those are.

        Nobody else may hold their memory; it is kept here until the bucket is settled. They are looked at when they are
        summed: `faults`.
        """
        into = self._room(bucket, sources)
        if self._compiled is None or self._compiled.small(bucket):
            return self.load(bucket, sources), []
        found, self._staying[bucket] = self._compiled.stay(
            bucket, self.bounds[bucket][0], into, sources, self.shares[bucket][self.member], may
        )
        self._held[bucket] = [sources[each].untyped_storage() for each in self._staying[bucket]]
        return found, self._staying[bucket]

    def faults(self) -> list[tuple[int, int, int]]:
        """Member, bucket and source: what stayed and held a NaN or an infinity, once all buckets are settled."""
        found = []
        for member, word in enumerate(self._says[:, FAULT].tolist()):
            bucket, number = word >> 24 & 0xFFFF, (word & 0xFFFFFF) - 1
            if number >= 0 and word >> 40 == self._words.rounds[bucket] & ROUNDS:
                found.append((member, bucket, number))
        return found

    def _room(self, bucket: int, sources: Sequence[Tensor]) -> Tensor:
        """Where sources go; refused unless they fill it."""
        start, stop = self.bounds[bucket]
        given = sum([source.numel() for source in sources])
        if given != stop - start:
            raise ValueError(f"bucket {bucket} holds {stop - start} numbers, and {given} came")
        return self.mine[start:stop]

    def say(self, number: int) -> None:
        """Tell the others a number of 64 bits with the next mix; every member says one before it, or none does."""
        self._spoken += 1
        self._says[self.member, self._spoken % 2] = number  # the last one stays for whoever reads it late

    def said(self) -> list[int]:
        """What each member said last, once all have announced a bucket after saying it."""
        return [int(number) for number in self._says[:, self._spoken % 2]]

    def behind(self) -> list[int]:
        """The members that I wait for, if I wait: those that have not come as far as I have."""
        for which in (0, 1):
            for bucket in range(len(self.bounds)):
                words = self._table[:, which, bucket]
                if who := behind(words, int(words[self.member])):
                    return who
        return []

    def _check(self, into: Into, weights: Sequence[float] | None) -> None:
        if into == Into.ONCE and self.whole is None:
            raise ValueError("this lane was opened without a shared result: open it with shared=True")
        if weights is not None and len(weights) != self.size:
            raise ValueError(f"{len(weights)} weights for {self.size} members")

    def _until(self, bucket: int, call: Callable[..., int], *given: object) -> None:
        """Call until it has nothing more to wait for; whenever `alarm` seconds have gone by, say who is missing."""
        alarm: float | None = None
        while code := call(bucket, *given):
            if code == OUT_OF_TURN:
                raise RuntimeError(f"bucket {bucket}: a mix is announce, reduce, done, settle, in this order")
            alarm = time.monotonic() + self.alarm - SLICE if alarm is None else alarm
            if time.monotonic() >= alarm:
                alarm += self.alarm
                self._tell(bucket)

    def _tell(self, bucket: int) -> None:
        """Call `missing` with those whose word is behind."""
        for which, phase in enumerate(("announced", "done")):
            if who := behind(self._table[:, which, bucket], int(self._words.rounds[bucket])):
                self.missing(who, bucket, phase)
                return


def _give_up(who: list[int], bucket: int, phase: str) -> None:
    what = "announce its numbers" if phase == "announced" else "finish its share"
    raise TimeoutError(f"bucket {bucket}: waited in vain for member {', '.join(map(str, who))} to {what}")
