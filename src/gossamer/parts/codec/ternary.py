"""TernGrad: each element becomes -s, 0 or s at random, unbiased, two bits each, with a scaler shared by all members."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING

from gossamer.parts.chance import Chance
from gossamer.parts.codec.wire import (
    Block,
    Codec,
    Conversation,
    Each,
    Max,
    Memory,
    Shapes,
    Size,
    elements,
    exactly,
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

        clipped = torch.cat([self._clipped(part).reshape(-1) for part in block.tensors()])
        mine = torch.stack([part.abs().amax() if part.numel() else part.sum() for part in block.tensors(clipped)])
        shared = (yield Max(mine)).one()
        scale = torch.repeat_interleave(shared, torch.tensor([prod(s) for s in block.shapes], device=shared.device))
        exact = clipped.to(wide(clipped))  # a 16-bit draw may be rounded to 1
        hit = chance.uniform_like(exact) * scale < exact.abs()
        signs = clipped.sign().where(hit, clipped.new_zeros(()))
        heard = yield Each(pack_trits(signs))

        def add_up() -> Tensor:
            total = torch.zeros_like(clipped)
            for weight, body in heard.apart:
                total.add_(unpack_trits(body, clipped), alpha=weight)
            return total * scale

        return heard.once("mean", add_up), signs * scale

    def _clipped(self, part: Tensor) -> Tensor:
        if not self.clip or part.numel() < 2:
            return part
        bound = self.clip * part.std(correction=0)
        return part.clamp(-bound, bound)

    def wire_bytes(self, shapes: Shapes, itemsize: int) -> tuple[Size, ...]:
        return exactly(len(shapes) * itemsize), exactly(-(-elements(shapes) // 4), gathered=True)


def pack_trits(signs: Tensor) -> Tensor:
    """Values -1, 0, 1 as two bits each, four to the byte, the last byte filled up with zeros."""
    import torch

    codes = (signs + 1).to(torch.uint8)
    codes = torch.nn.functional.pad(codes, (0, -codes.numel() % 4)).view(-1, 4)
    return codes[:, 0] | codes[:, 1] << 2 | codes[:, 2] << 4 | codes[:, 3] << 6


def unpack_trits(body: Tensor, like: Tensor) -> Tensor:
    """The values that `pack_trits` packed, as many as `like` has, in its dtype."""
    import torch

    codes = torch.stack([body >> shift & 3 for shift in (0, 2, 4, 6)], dim=1).reshape(-1)
    return codes[: like.numel()].to(like.dtype) - 1
