"""A gauge: looks now and then at a course's gradients before and after they were mixed, for the noise scale.

What members see of their own gradients rides with the vote of a step, what they saw of the mix with that of the next,
so nobody waits for it; the next look is as far away as keeps looking below `SHARE` of the time.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from math import ceil, isfinite

import torch
from torch import Tensor

from gossamer.recipes import NoiseScale
from gossamer.records import Noise

FIRST = 4  # the step of the first look; those before it are not like the others
SHARE = 0.005  # of a step's seconds, at most, for looks
SELDOM = 1000  # steps between two looks, at most
DECAY = 0.9  # of one look

Told = tuple[int, int]  # what a member adds to its vote
SILENT: Told = (0, 0)


class Gauge:
    """One course's; every member looks in the same steps, as all have heard the same."""

    def __init__(self) -> None:
        self.noise = NoiseScale(DECAY)
        self.looking = False
        self._at, self._seconds = FIRST, 0.0
        self._loss = 1.0  # what the loss of this backward was scaled by, and so every gradient of it that is looked at
        self._own: list[Told] = []  # by member, the squared norm of its gradient and of how many samples it is
        self._mixed = 0.0  # the squared norm of what was mixed, or of my share of it

    def opens(self, step: int, loss: Callable[[], float], *, able: bool) -> bool:
        """Whether this backward is looked at; where gradients are not averaged as they are, later ones may be.

        `loss`, what its loss was scaled by, is asked of the device in a look alone.
        """
        self.looking = able and step == self._at
        if self.looking:
            self._own, self._mixed, self._seconds, self._loss = [], 0.0, 0.0, loss()
        elif self._at <= step and not self._own:
            self._at = step + 1
        return self.looking

    def squares(self, tensors: Sequence[Tensor]) -> float:
        """The sum of the squares of all elements, as they were if nobody had scaled the loss."""
        with self._timed():
            return sum(map(_square, tensors)) / self._loss**2

    def mixed(self, tensors: Sequence[Tensor]) -> None:
        """Look at what was mixed."""
        self._mixed = self.squares(tensors)

    def tells(self, usual: float) -> Told:
        """After a look: what the mix, or my share of it, came to, and how many steps until the next one."""
        if self.looking or not self._own:
            return SILENT
        wish = ceil(self._seconds / (SHARE * usual)) if usual > 0 else SELDOM
        return packed(self._mixed), min(SELDOM, max(1, wish))

    def hears(self, told: Sequence[Told], step: int, *, shares: bool) -> Noise | None:
        """What members added to their votes: of their own gradients in a look, of the mix in the step after it."""
        if self.looking:
            self._own = list(told)
            return None
        if not self._own:
            return None
        own, self._own = self._own, []
        self._at = step + max((wish for _, wish in told), default=1)
        if not told:
            return None
        whole = sum(unpacked(bits) for bits, _ in told) if shares else self._mixed
        return self._saw([(unpacked(bits), samples) for bits, samples in own], whole)

    def _saw(self, own: Sequence[tuple[float, int]], whole: float) -> Noise | None:
        """The mean over members of 1/b is what counts where they have not all as many samples."""
        counts = [samples for _, samples in own]
        square = sum(each for each, _ in own) / max(1, len(own))
        if len(own) < 2 or min(counts) <= 0 or not (isfinite(square) and isfinite(whole)):
            return None
        small = len(counts) / sum(1.0 / count for count in counts)
        self.noise.saw(small, square, sum(counts), whole)
        return Noise(small, square, sum(counts), whole, self.noise.scale)

    @contextmanager
    def _timed(self) -> Iterator[None]:
        began = time.perf_counter()
        yield
        self._seconds += time.perf_counter() - began


def _square(tensor: Tensor) -> float:
    if tensor.dtype in (torch.float32, torch.float64) and tensor.is_contiguous():
        flat = tensor.detach().view(-1)
        return float(torch.dot(flat, flat))
    return float(torch.linalg.vector_norm(tensor.detach(), dtype=torch.promote_types(tensor.dtype, torch.float32))) ** 2


def packed(value: float) -> int:
    """A number as the whole number of its bits, which votes can carry."""
    return int.from_bytes(struct.pack("<d", value), "little", signed=True)


def unpacked(bits: int) -> float:
    """The same back."""
    value: float = struct.unpack("<d", bits.to_bytes(8, "little", signed=True))[0]
    return value
