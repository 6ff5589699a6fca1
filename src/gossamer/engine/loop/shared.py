"""A DataLoader of one member's shares: which batch the loop has in hand, and how it goes on in mid-epoch.

Knows nothing of the loader's past but what it is built with; who may be shared out is said in `loader`.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Mapping
from itertools import count
from typing import Any, final

import torch
from torch.utils.data import DataLoader

from gossamer.engine.loop.epoch import Drawn, Epoch, drawn
from gossamer.engine.loop.order import Order, Own, checksum
from gossamer.parts.chance import draw
from gossamer.parts.refusal import Refused, whole

KEPT = (  # what a loader is built with, but for what decides which samples it reads, and its generator
    *("dataset", "num_workers", "collate_fn", "pin_memory", "timeout", "worker_init_fn", "multiprocessing_context"),
    *("prefetch_factor", "persistent_workers", "pin_memory_device", "in_order"),
)


_moments = count(1)  # of all loaders of this process


class Shares:
    """This member's share of every batch of the epoch that is open; a new iterator begins at the same batch again,
    because a loader with processes asks for two and uses the second."""

    def __init__(self, order: Order, key: tuple[int, int, int], batches: Any) -> None:
        self.order, self._key, self.batches = order, key, batches
        self.epoch: Epoch | None = None
        self.start = 0

    def open(self, number: int, start: int) -> Epoch:
        """Agree on an epoch; what is read next is its batch `start`."""
        epoch = self.order.epoch(number)
        whole("resume", "given", start, 0, len(epoch))
        self.epoch, self.start = epoch, start
        return epoch

    def __iter__(self) -> Iterator[Drawn]:
        member, size, seed = self._key
        epoch = self.epoch
        assert epoch is not None
        for batch in range(self.start, len(epoch)):
            yield drawn(epoch.mine(batch, member, size), seed, epoch.number, batch, member)

    def __len__(self) -> int:
        return len(self.batches)


@final
class SharedOut(DataLoader[Any]):
    """A DataLoader of one member's shares, that knows which batch the loop has in hand.

    A subclass, because only who hands a batch over knows it: a sampler is read ahead, by as much as workers prefetch.
    """

    def __init__(self, loader: DataLoader[Any], member: int, size: int, seed: int, order: Order) -> None:
        self.handed, self.moment = (0, 0), 0  # counts of the batch last handed out, and when that was
        self.waiting: list[tuple[int, int]] = []  # counts of batches that were handed out and not computed yet
        self._now = (0, 0)
        self.ahead = False  # whether the loop takes batches before it computes those it has
        self._key = (member, size, seed)
        self._begin = (0, 0)  # epoch and batch of the next iter()
        self._expected: int | None = None
        self.shares = Shares(order, self._key, loader.batch_sampler)
        self._live: weakref.ref[Hand] | None = None
        shares: Any = self.shares
        # its own generator: where a loop begins anew in mid-epoch, what others draw must not move
        super().__init__(**_kept(loader), batch_sampler=shares, generator=torch.Generator())
        # what a script may read is what it wrote: the global batch
        self.__dict__.update(batch_size=loader.batch_size, drop_last=loader.drop_last, sampler=loader.sampler)

    def __iter__(self) -> Hand:  # type: ignore[override]
        (number, start), expected = self._begin, self._expected
        epoch = self.shares.open(number, start)
        if expected is not None and start and expected != checksum(epoch):
            raise Refused(
                f"the sampler gives another order for epoch {number} than before, so {start} batches cannot be skipped",
                "a sampler that draws from torch's generator, or has set_epoch",
            )
        member, _, seed = self._key
        self.generator.manual_seed(draw(seed, number, 0x5C, member) >> 1)
        hand = Hand(self, super().__iter__(), epoch, start)
        self._begin, self._expected, self._live = (number + 1, 0), None, weakref.ref(hand)
        self.waiting.clear()
        return hand

    @property
    def live(self) -> bool:
        """Whether a loop over it is under way."""
        return self._live is not None and self._live() is not None

    def computed(self) -> tuple[int, int]:
        """The counts of the batch that is computed now: the oldest that was not, or the last one once more."""
        self.ahead = self.ahead or len(self.waiting) > 1
        self._now = self.waiting.pop(0) if self.waiting else self._now
        mine, everybody = self._now
        if self.ahead and mine * self._key[1] != everybody:
            raise Refused(
                "the loop takes batches ahead of computing them, so nobody knows whose uneven one this is",
                "drop_last=True, or gossamer.weight(samples) before the backward",
            )
        return self._now

    def set_epoch(self, number: int) -> None:
        """The next `iter()` reads epoch `number`, from its beginning unless it was resumed in the midst of it."""
        whole("set_epoch", "number", number, 0)
        if number != self._begin[0]:
            self._begin, self._expected = (number, 0), None

    def state(self) -> dict[str, int]:
        """Where the loop is: the epoch and how many of its batches were handed out, as far as it goes on from there.

        An epoch that was ended, or left by `break`, is over: the state is the next one's beginning.
        """
        hand = self._live() if self._live is not None else None
        if hand is None or hand.over:
            epoch, given = self._begin
            known = self._expected
        else:
            epoch, given = hand.epoch.number, hand.given
            known = checksum(hand.epoch) if isinstance(self.shares.order, Own) else None
        return {"epoch": epoch, "given": given, **({} if known is None else {"order": known})}

    def resume(self, state: Mapping[str, int]) -> None:
        """The next `iter()` goes on where `state` was taken, on any number of members, and loads nothing before it."""
        for name in ("epoch", "given"):
            whole("resume", name, state.get(name), 0)
        self._begin, self._expected, self._live = (state["epoch"], state["given"]), state.get("order"), None


@final
class Hand:
    """Hands out one epoch's batches, and notes which one the loop has."""

    def __init__(self, loader: SharedOut, batches: Iterator[Any], epoch: Epoch, start: int) -> None:
        self._loader, self._batches, self.epoch, self.given = loader, batches, epoch, start
        self.over = False

    def __iter__(self) -> Hand:
        return self

    def __next__(self) -> Any:
        if self.over:
            raise StopIteration
        loader = self._loader
        if loader._live is None or loader._live() is not self:
            raise Refused("an iterator is read after a newer one of the same loader was begun", "a second DataLoader")
        try:
            batch = next(self._batches)
        except StopIteration:
            self.over = True
            raise
        member, size, _ = loader._key
        loader.handed, loader.moment = self.epoch.counts(self.given, member, size), next(_moments)
        loader.waiting.append(loader.handed)
        self.given += 1
        return batch

    def __len__(self) -> int:
        return len(self.epoch)


def _kept(loader: DataLoader[Any]) -> dict[str, Any]:
    found = {name: getattr(loader, name) for name in KEPT}
    if not loader.num_workers:  # a loader without processes takes no word about them
        del found["prefetch_factor"], found["multiprocessing_context"]
    return found
