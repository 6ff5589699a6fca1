"""Where an epoch's order comes from: the dataset's own, a shuffle all members draw alike, or member 0's sampler, told.

Opens no network: `told` is given by whoever knows how members speak.
"""

from __future__ import annotations

import random
import zlib
from array import array
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import BatchSampler, DataLoader, DistributedSampler, RandomSampler, SequentialSampler

from gossamer.engine.loop.epoch import Epoch, even, plant
from gossamer.parts.chance import draw
from gossamer.parts.refusal import Refused

Told = Callable[[Tensor | None], Tensor]
ENDLESS = 10_000_000  # samples; a sampler that gives more, and a hundred times the dataset, is taken to have no end


@dataclass(frozen=True)
class Even:
    """Batches of one size over an order that every member knows without asking: by itself, or shuffled by the seed."""

    sampler: SequentialSampler | RandomSampler
    batch: int
    drop_last: bool
    seed: int

    def epoch(self, number: int) -> Epoch:
        """The order is a pure function of (seed, epoch)."""
        if not isinstance(self.sampler, RandomSampler):
            return even(number, range(len(self.sampler)), self.batch, self.drop_last)
        generator = torch.Generator().manual_seed(draw(self.seed, number, 0x5A) >> 1)
        size, wanted = len(self.sampler.data_source), len(self.sampler)
        turns = [torch.randperm(size, generator=generator) for _ in range(-(-wanted // size))]
        return even(number, torch.cat(turns)[:wanted], self.batch, self.drop_last)


@dataclass(frozen=True)
class Own:
    """A sampler of the user's: member 0 draws an epoch of it, with generators that (seed, epoch) decide, and tells."""

    batches: Any
    most: int
    member: int
    seed: int
    told: Told

    def epoch(self, number: int) -> Epoch:
        """What member 0 drew, on every member; what fails there is said everywhere."""
        if self.member != 0:
            return self._heard(number, self.told(None))
        try:
            with _planted(self.batches, self.seed, number):
                drawn = self._draw()
        except BaseException:
            self.told(torch.tensor([-1]))
            raise
        return self._heard(number, self.told(drawn))

    def _draw(self) -> Tensor:
        """An epoch as one tensor: how many batches, the length of each, then all samples."""
        import numpy

        lengths, samples = array("q"), array("q")
        for batch in self.batches:
            known = len(samples)
            try:
                samples.extend(batch)
            except TypeError as error:
                raise Refused(
                    f"{self.name} gives {repr(batch)[:40]}: members tell each other whole numbers only",
                    "a sampler of indices",
                ) from error
            lengths.append(len(samples) - known)
            self._sane(lengths, samples)
        return torch.from_numpy(numpy.concatenate([numpy.array(part) for part in ([len(lengths)], lengths, samples)]))

    def _sane(self, lengths: array[int], samples: array[int]) -> None:
        if not lengths[-1]:
            raise Refused(f"{self.name} gives an empty batch (number {len(lengths)})", "batches of at least one sample")
        if len(samples) > self.most:
            raise Refused(
                f"{self.name} gave {len(samples)} samples and has not ended: members agree on one epoch at a time",
                "a sampler that ends",
            )

    def _heard(self, number: int, heard: Tensor) -> Epoch:
        heard = heard.cpu()
        batches = int(heard[0])
        if batches < 0:
            raise Refused(f"member 0's {self.name} failed; its own message says why")
        edges = torch.tensor([0, *accumulate(heard[1 : batches + 1].tolist())])
        return Epoch(number, heard[batches + 1 :], edges)

    @property
    def name(self) -> str:
        """The sampler as the user would call it."""
        return type(sampler_of(self.batches)).__name__


Order = Even | Own


def order_of(loader: DataLoader[Any], member: int, size: int, seed: int, told: Told | None) -> Order:
    """How all members come to read in one order; a sampler that shares out by itself is refused."""
    batches: Any = loader.batch_sampler
    sampler = sampler_of(batches)
    for part in (loader.sampler, batches, sampler):
        if isinstance(part, DistributedSampler):
            raise Refused(
                f"the loader's {type(part).__name__} shares samples out already, so each would be shared out twice",
                "the same DataLoader with shuffle=True (or your own sampler) and the global batch size",
            )
    if known(batches):
        return Even(sampler, batches.batch_size, batches.drop_last, seed)
    if told is None and size > 1:
        raise Refused(
            f"{type(sampler).__name__} has an order of its own, and there is no way to tell it to all members"
        )
    if told is by_itself:
        member = 0
    most = max(ENDLESS, 100 * len(loader.dataset) if hasattr(loader.dataset, "__len__") else 0)
    return Own(batches, most, member, seed, told if told is not None and size > 1 else _alone)


def by_itself(order: Tensor | None) -> Tensor:
    """How a member is told that may have to go on without the others: nobody tells, each draws the same."""
    assert order is not None, "who draws by itself is told by nobody"
    return order


def sampler_of(batches: Any) -> Any:
    """What says the order: the sampler inside plain batches, or a batch sampler of the user's own."""
    return batches.sampler if type(batches) is BatchSampler else batches


def checksum(epoch: Epoch) -> int:
    """Tells two epochs apart."""
    found = 0
    for part in (epoch.edges, epoch.order):
        found = zlib.crc32(torch.as_tensor(part).numpy().data, found)
    return found


def known(batches: Any) -> bool:
    """Whether every member knows the order without being told. Exact types: a subclass may do anything."""
    sampler = sampler_of(batches)
    shuffled = type(sampler) is RandomSampler and not sampler.replacement
    return type(batches) is BatchSampler and (shuffled or type(sampler) is SequentialSampler)


def _alone(order: Tensor | None) -> Tensor:
    assert order is not None
    return order


@contextmanager
def _planted(batches: Any, seed: int, number: int) -> Iterator[None]:
    """Whatever a sampler draws from inside is decided by (seed, epoch), and nothing outside notices."""
    import numpy

    parts = (batches, getattr(batches, "sampler", None))
    found = [getattr(part, "generator", None) for part in parts]
    kept = [(part, part.get_state(), part.initial_seed()) for part in found if isinstance(part, torch.Generator)]
    key = draw(seed, number, 0x5B, *(first for _, _, first in kept)) >> 1
    python, numbers = random.getstate(), numpy.random.get_state()
    with torch.random.fork_rng(devices=[]):
        try:
            plant(key)
            for generator, _, _ in kept:
                generator.manual_seed(key)
            for part in parts:
                getattr(part, "set_epoch", int)(number)
            yield
        finally:
            random.setstate(python)
            numpy.random.set_state(numbers)
            for generator, state, _ in kept:
                generator.set_state(state)
