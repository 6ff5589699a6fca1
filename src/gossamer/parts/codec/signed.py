"""Codecs that send where some elements lie and of which sign they are, and of their size at most a mean."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, prod
from typing import TYPE_CHECKING, ClassVar

from gossamer.parts.chance import Chance
from gossamer.parts.codec import words
from gossamer.parts.codec.sparse import kept, only, scatter_mean
from gossamer.parts.codec.wire import (
    Block,
    Codec,
    Conversation,
    Each,
    Memory,
    Shapes,
    Size,
    elements,
    laid_down,
    wide,
)
from gossamer.parts.refusal import real, whole

if TYPE_CHECKING:
    from torch import Tensor

USUAL = 1000  # elements for each one that passes a threshold: P1 tells of 846 to 2871 times fewer bytes


def mean_of_all(part: Tensor) -> Tensor:
    """The mean, 0 of nothing, in the dtype of its part but added up in 32 bits at least."""
    return (part.sum(dtype=wide(part)) / max(1, part.numel())).to(part.dtype)


@dataclass(frozen=True, repr=False)
class Threshold(Codec):
    """An element above `threshold` becomes threshold, one below -threshold becomes that, the others 0 (Strom 2015).

    What is not finite has no such word: one word that stands for it makes the whole block come out as not a number.
    """

    threshold: float = 0.1

    def __post_init__(self) -> None:
        real("Threshold", "threshold", self.threshold, 0.0, 1e6, open_low=True)

    def converse(self, block: Block, memory: Memory, chance: Chance) -> Conversation:
        places = (~(block.flat.abs() <= self.threshold)).nonzero().squeeze(1)
        values = block.flat[places]
        mine = words.written(places, values < 0) if values.isfinite().all() else words.lost(block.flat)
        meant = only(*self._read(mine, block), block)
        heard = yield Each(mine, meant)
        return scatter_mean(heard, block, self._read), meant

    def _read(self, body: Tensor, block: Block) -> tuple[Tensor, Tensor]:
        places, negative, lost = words.read(body, block.flat)
        values = block.flat.new_full(places.shape, float("nan") if lost else self.threshold)
        return places, values.where(~negative, -values)

    def wire_bytes(self, shapes: Shapes, itemsize: int) -> tuple[Size, ...]:
        count = elements(shapes)
        return (Size(0, 4 * -(-count // USUAL), 4 * count, gathered=True),)


@dataclass(frozen=True, repr=False)
class Proportion(Codec):
    """The `keep` share of each tensor's positive elements, largest first, become their mean; the negative likewise.

    Of a side that has any at least one is sent (Dryden et al. 2016).
    """

    keep: float = 0.01

    def __post_init__(self) -> None:
        real("Proportion", "keep", self.keep, 0.0, 1.0, open_low=True)

    def converse(self, block: Block, memory: Memory, chance: Chance) -> Conversation:
        import torch

        places, below, means, start = [], [], [], 0
        for part in block.tensors():
            flat = part.reshape(-1)
            for negative, side in enumerate((~(flat <= 0), flat < 0)):  # what is not a number counts as positive
                found = self._largest(flat, side)
                places.append(found + start)
                below.append(torch.full_like(found, negative, dtype=torch.bool))
                means.append(mean_of_all(flat[found]))
            start += flat.numel()
        mine = words.written_with(means, places, below, block.flat)
        meant = only(*_two_means(mine, block), block)
        heard = yield Each(mine, meant)
        return scatter_mean(heard, block, _two_means), meant

    def _largest(self, flat: Tensor, side: Tensor) -> Tensor:
        """Where the largest elements of one side lie."""
        count = min(flat.numel(), ceil(self.keep * int(side.sum())))
        return flat.abs().where(side, flat.new_zeros(())).topk(count, sorted=False).indices

    def wire_bytes(self, shapes: Shapes, itemsize: int) -> tuple[Size, ...]:
        means, likely = 2 * len(shapes) * itemsize, sum(kept(shape, self.keep) for shape in shapes)
        most = sum(min(prod(shape), kept(shape, self.keep) + 2) for shape in shapes)  # each side is rounded up
        return (Size(means, means + 4 * likely, means + 4 * most, gathered=True),)


@dataclass(frozen=True, repr=False)
class AdaComp(Codec):
    """With residue R, G = R + g and H = G + g: in each `bin` elements send those with |H| >= the bin's max |G|.

    They are sent as sign(G) times the mean of the tensor's maxima, and R = G - sent (AdaComp, Chen et al. 2018).
    """

    remembers: ClassVar[bool] = True

    bin: int = 50

    def __post_init__(self) -> None:
        whole("AdaComp", "bin", self.bin, 1, 2**30)

    def converse(self, block: Block, memory: Memory, chance: Chance) -> Conversation:
        import torch

        residual = memory.get("residual")
        total = block.flat if residual is None else block.flat + residual
        peaks = [self._peaks(part.reshape(-1)) for part in block.tensors(total)]
        spans = [self._each(peak, prod(shape)) for peak, shape in zip(peaks, block.shapes, strict=True)]
        highest = torch.cat(spans) if spans else total
        reached = (
            ~((total + block.flat).abs() < highest) & ~(highest <= 0) & (total != 0)
        )  # passes on what is no number
        places = reached.nonzero().squeeze(1)
        scales = [mean_of_all(peak) for peak in peaks]
        mine = words.written_with(scales, [places], [total[places] < 0], block.flat)
        meant = only(*_one_mean(mine, block), block)
        memory["residual"] = total - laid_down(meant)  # before anybody answers: with a delay the next send comes first
        heard = yield Each(mine, meant)
        return scatter_mean(heard, block, _one_mean), meant

    def _peaks(self, flat: Tensor) -> Tensor:
        """The largest magnitude in each bin."""
        import torch

        width = max(1, min(self.bin, flat.numel()))
        rows = torch.nn.functional.pad(flat.abs(), (0, -flat.numel() % width)).view(-1, width)
        return rows.amax(1) if rows.numel() else flat

    def _each(self, peaks: Tensor, count: int) -> Tensor:
        """Each element's bin's peak."""
        return peaks.repeat_interleave(max(1, min(self.bin, count)))[:count]

    def wire_bytes(self, shapes: Shapes, itemsize: int) -> tuple[Size, ...]:
        scales, count = len(shapes) * itemsize, elements(shapes)
        likely = min(count, 3 * sum(-(-prod(shape) // self.bin) for shape in shapes))  # seen in rehearsals: 3 of a bin
        return (Size(scales, scales + 4 * likely, scales + 4 * count, gathered=True),)


def _two_means(body: Tensor, block: Block) -> tuple[Tensor, Tensor]:
    """The places and values of a body that begins with two means for each tensor: of its positive, of its negative."""
    means, places, negative = words.read_with(body, block, 2)
    return places, means[2 * words.tensor_of(places, block) + negative.long()]


def _one_mean(body: Tensor, block: Block) -> tuple[Tensor, Tensor]:
    """The places and values of a body that begins with one size for each tensor."""
    sizes, places, negative = words.read_with(body, block, 1)
    values = sizes[words.tensor_of(places, block)]
    return places, values.where(~negative, -values)
