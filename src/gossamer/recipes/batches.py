"""Batch-size control: how many samples a step has in all, by epoch, and how workers meet it. Knows no data.

The run is one stream of samples, permutation after permutation, that steps cut: whatever the batches, every sample
comes once per epoch. A new size begins with the first step that begins in its epoch or later.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from itertools import pairwise
from math import ceil

from gossamer.parts.refusal import Refused, real, whole
from gossamer.parts.value import Value
from gossamer.recipes.schedule import long_enough

MOST = 10**9


@dataclass(frozen=True, repr=False)
class Batches(Value):
    """Each of `sizes` is an epoch and the samples of a step from there on; the first begins at epoch 0."""

    sizes: tuple[tuple[float, int], ...]

    def __post_init__(self) -> None:
        if not self.sizes or self.sizes[0][0] != 0:
            raise Refused("Batches: the first size begins at epoch 0", "sizes=((0, 256), ...)")
        for epoch, size in self.sizes:
            real("Batches", "epoch", epoch, 0.0, 1e6)
            whole("Batches", "size", size, 1, MOST)
        if any(b <= a for (a, _), (b, _) in pairwise(self.sizes)):
            raise Refused("Batches: epochs must rise", "sizes=((0, 256), (30, 512))")

    def at(self, epoch: float) -> int:
        """Samples of a step that begins at `epoch`."""
        return [size for start, size in self.sizes if epoch >= start][-1]

    def misses(self, epochs: float) -> str | None:
        """What of it does not come in a run of so many epochs."""
        last = self.sizes[-1][0]
        return f"Batches: a size begins at epoch {last:g} of a run of {epochs:g}" if last >= epochs else None


@dataclass(frozen=True)
class Portion:
    """How a worker meets a size: it has `each` samples, in `times` pieces, the gradients of which it adds up."""

    each: int
    times: int = 1

    @property
    def pieces(self) -> list[int]:
        """The samples of each piece: they differ by one at most, the longer ones come first."""
        least, longer = divmod(self.each, self.times)
        return [least + 1] * longer + [least] * (self.times - longer)

    def __str__(self) -> str:
        """`16`, `16 (2 x 8)`, `31 (2 x 15-16)`."""
        if self.times == 1:
            return f"{self.each:,}"
        sizes = sorted(set(self.pieces))
        return f"{self.each:,} ({self.times} x {'-'.join(f'{size:,}' for size in sizes)})"


def portion(size: int, workers: int, most: int | None = None, accumulate: bool = True) -> Portion:
    """A step of `size` samples on so many workers, none of which takes more than `most` at a time."""
    whole("batch", "workers", workers, 1)
    each, left = divmod(size, workers)
    if left or not each:
        reason = f"a batch of {size:,} cannot be shared by {workers:,} workers"
        raise Refused(reason, f"{nearest_size(size, workers):,}")
    if most is None or each <= most:
        return Portion(each)
    if not accumulate:
        raise Refused(
            f"a batch of {size:,} on {workers:,} workers is {each:,} for each, and {most:,} is the most at a time",
            f"{most * workers:,}, or accumulation",
        )
    return Portion(each, ceil(each / most))


def nearest_size(size: int, workers: int, most: int = MOST, times: int = 1) -> int:
    """The size nearest to `size` that workers can share, and so many `times` of it no more than `most`; 0: none is."""
    each = (2 * size + workers) // (2 * workers)
    return min(max(1, each), most // (times * workers)) * workers


@dataclass(frozen=True)
class Leg:
    """Steps of one size, one after the other: the first of them, how many, and the sample the first begins with."""

    first: int
    steps: int
    size: int
    sample: int


class Timetable:
    """All steps of a run of `epochs` over `samples`, as `batches` cuts it; the last step may reach beyond the end."""

    def __init__(self, batches: Batches, samples: int, epochs: float) -> None:
        whole("batches", "samples", samples, 1)
        real("batches", "epochs", epochs, 0.0, 1e6, open_low=True)
        long_enough(batches.misses, epochs)
        largest = max(size for _, size in batches.sizes)
        if largest > samples:
            raise Refused(f"Batches: a step of {largest:,} samples, and there are {samples:,}", f"{samples:,}")
        self.samples, self.legs = samples, list[Leg]()
        ends = [start for start, _ in batches.sizes[1:]] + [epochs]
        step = sample = 0
        for (_, size), end in zip(batches.sizes, ends, strict=True):
            steps = max(0, ceil((end * samples - sample) / size - 1e-9))
            if steps:
                self.legs.append(Leg(step, steps, size, sample))
            step, sample = step + steps, sample + steps * size
        self.steps, self.read = step, sample
        self._firsts = [leg.first for leg in self.legs]

    def start(self, step: int) -> int:
        """The sample, counted from the begin of the run, that a step begins with."""
        leg = self._of(step)
        return leg.sample + (step - leg.first) * leg.size

    def size(self, step: int) -> int:
        """The samples of a step."""
        return self._of(step).size

    def epoch(self, step: int) -> float:
        """When a step begins."""
        return self.start(step) / self.samples

    def _of(self, step: int) -> Leg:
        return self.legs[max(0, bisect_right(self._firsts, step) - 1)]
