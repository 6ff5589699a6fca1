"""TernGrad: each element becomes -s, 0 or s at random, unbiased, two bits each, with a scaler shared by all members."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gossamer.parts import kernel
from gossamer.parts.chance import Chance
from gossamer.parts.codec.bits import pack_bits, unpack_bits
from gossamer.parts.codec.wire import (
    Block,
    Codec,
    Conversation,
    Each,
    Max,
    Meant,
    Memory,
    Shapes,
    Size,
    elements,
    exactly,
    sum_of,
    wide,
)
from gossamer.parts.refusal import real

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True, repr=False)
class Ternary(Codec):
    """Clip each tensor to `clip` standard deviations (0: not at all), agree on s = max|g| over members, then send
    s sign(g) with probability |g|/s. First turn: the scalers, heard as their maximum. Second: four values per byte."""

    clip: float = 2.5

    def __post_init__(self) -> None:
        real("Ternary", "clip", self.clip, 0.0, 1e6)

    def converse(self, block: Block, memory: Memory, chance: Chance) -> Conversation:
        import torch

        parts = list(block.tensors())
        bounds, peaks = zip(*map(self._sizes, parts), strict=True) if parts else ((), ())
        mine = torch.stack(peaks) if peaks else block.flat.new_zeros(0)
        endless = mine.new_full((), float("inf"))  # a maximum may pass over what is no number, and never over this
        scales = (yield Max(mine.where(mine.isfinite(), endless))).one()
        body = pack_bits(_drawn(block, bounds, scales, chance), 2)

        def add(body: Tensor, into: Tensor, weight: float) -> None:
            _add(body, block, scales * weight, into)

        heard = yield Each(body)
        return sum_of(heard, block.flat, add), Meant(lambda into, weight: add(body, into, weight), block.flat)

    def _sizes(self, part: Tensor) -> tuple[Tensor, Tensor]:
        """Where a tensor is clipped, and the largest size of it then."""
        none = part.new_full((), float("inf"))
        if kernel.fits(part):
            found = kernel.sizes(part)
            peak = part.new_tensor(found.peak)
            if not self.clip or part.numel() < 2:
                return none, peak
            mean = found.sum / part.numel()
            bound = part.new_tensor(self.clip * max(0.0, found.squares / part.numel() - mean * mean) ** 0.5)
        else:
            peak = part.abs().amax() if part.numel() else part.sum()
            if not self.clip or part.numel() < 2:
                return none, peak
            bound = self.clip * part.std(correction=0)
        return bound, peak.where(~(peak > bound), bound)

    def wire_bytes(self, shapes: Shapes, itemsize: int) -> tuple[Size, ...]:
        return exactly(len(shapes) * itemsize), exactly(-(-elements(shapes) // 4), gathered=True)


def _drawn(block: Block, bounds: Sequence[Tensor], scales: Tensor, chance: Chance) -> Tensor:
    """A code for each element: its sign, drawn, and one."""
    import torch

    if kernel.fits(block.flat):
        codes, first = torch.empty(block.flat.numel(), dtype=torch.uint8), 0
        for part, bound, scale in zip(block.tensors(), bounds, scales, strict=True):
            kernel.trits(part, first, float(bound), float(scale), chance.uniform_key, codes)
            first += part.numel()
        return codes
    drawn = chance.uniform_like(block.flat.to(wide(block.flat)))  # a 16-bit draw may be rounded to 1
    signs = []
    for part, draws, bound, scale in zip(block.tensors(), block.tensors(drawn), bounds, scales, strict=True):
        cut = part.clamp(-bound, bound).to(draws.dtype)
        signs.append(cut.sign().where(draws * scale < cut.abs(), cut.new_zeros(())).reshape(-1))
    return (torch.cat(signs) + 1).to(torch.uint8) if signs else block.flat.new_zeros(0, dtype=torch.uint8)


def _add(body: Tensor, block: Block, units: Tensor, into: Tensor) -> None:
    """Add to each element its sign times the unit of its tensor."""
    parts, total, first = list(block.tensors(into)), into.numel(), 0
    if kernel.fits(into):
        for part, unit in zip(parts, units.tolist(), strict=True):
            kernel.add_trits(body, total, first, unit, part)
            first += part.numel()
        return
    for part, codes, unit in zip(parts, block.tensors(unpack_bits(body, 2, total)), units, strict=True):
        part.add_((codes.to(part.dtype) - 1).mul_(unit))
