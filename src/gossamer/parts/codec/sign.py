"""Codecs that send one bit for each element, its sign, and a few means: 1-bit SGD, and the scaled sign."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gossamer.parts import kernel
from gossamer.parts.chance import Chance
from gossamer.parts.codec.bits import as_bytes, pack_signs, packed_bytes, unpack_bits
from gossamer.parts.codec.powersgd import matrix
from gossamer.parts.codec.wire import (
    Block,
    Codec,
    Conversation,
    Each,
    Meant,
    Memory,
    Shapes,
    Size,
    elements,
    exactly,
    sum_of,
    wide,
)

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True, repr=False)
class OneBit(Codec):
    """Each column's non-negative elements become their mean, its negative ones theirs (1-bit SGD, Seide et al. 2014).

    A tensor is a matrix of its first dimension against all the others; a vector is one column.
    """

    def converse(self, block: Block, memory: Memory, chance: Chance) -> Conversation:
        mine = as_bytes(*_column_means(block), pack_signs(block.flat))
        counts = [2 * matrix(shape)[1] for shape in block.shapes]
        return (yield from _said(mine, block, sum(counts), lambda means: means.split_with_sizes(counts)))

    def wire_bytes(self, shapes: Shapes, itemsize: int) -> tuple[Size, ...]:
        means = 2 * sum(matrix(shape)[1] for shape in shapes)
        return (exactly(means * itemsize + packed_bytes(elements(shapes), 1), gathered=True),)


@dataclass(frozen=True, repr=False)
class Sign(Codec):
    """Each element of a tensor p of d elements becomes (||p||_1 / d) sign p, zero counting as + (EF-signSGD)."""

    def converse(self, block: Block, memory: Memory, chance: Chance) -> Conversation:
        import torch

        sizes = [part.norm(p=1, dtype=wide(part)) / max(1, part.numel()) for part in block.tensors()]
        means = torch.stack(sizes).to(block.flat.dtype) if sizes else block.flat.new_zeros(0)
        mine = as_bytes(means, pack_signs(block.flat))
        return (yield from _said(mine, block, len(sizes), lambda means: torch.stack([means, -means], 1).unbind()))

    def wire_bytes(self, shapes: Shapes, itemsize: int) -> tuple[Size, ...]:
        return (exactly(len(shapes) * itemsize + packed_bytes(elements(shapes), 1), gathered=True),)


def _said(mine: Tensor, block: Block, count: int, pairs: Callable[[Tensor], Sequence[Tensor]]) -> Conversation:
    """Say a body of `count` means and a bit for each element; `pairs`: two means for each column of each tensor."""

    def add(body: Tensor, into: Tensor, weight: float) -> None:
        head = count * block.flat.element_size()
        means = body[:head].clone().view(block.flat.dtype) * weight
        _add(body[head:], pairs(means), block, into)

    meant = Meant(lambda into, weight: add(mine, into, weight), block.flat)
    heard = yield Each(mine, meant)
    return sum_of(heard, block.flat, add), meant


def _add(bits: Tensor, pairs: Sequence[Tensor], block: Block, into: Tensor) -> None:
    """Add to each element the one of its column's two means that its bit names."""
    import torch

    total, first, parts = into.numel(), 0, list(block.tensors(into))
    if kernel.fits(into, *pairs):
        for part, pair in zip(parts, pairs, strict=True):
            kernel.add_signs(bits, total, first, pair, part)
            first += part.numel()
        return
    ups = block.tensors(unpack_bits(bits, 1, total).view(torch.bool))
    for part, up, pair in zip(parts, ups, pairs, strict=True):
        high, low = pair.chunk(2)
        sides = (part.numel(), 1) if len(high) == 1 else matrix(tuple(part.shape))
        part.view(sides).add_(torch.where(up.view(sides), high, low))


def _column_means(block: Block) -> Iterator[Tensor]:
    """For each tensor the means of its columns' non-negative elements, then of the negative; 0 where there are none.

    What is not a number counts as negative, and comes out as not a number there.
    """
    import torch

    for part in block.tensors():
        columns = part.reshape(matrix(tuple(part.shape)))
        if kernel.fits(columns):
            yield kernel.column_means(columns)
            continue
        up, none = columns >= 0, part.new_zeros(())
        risen = up.sum(0)
        high = torch.where(up, columns, none).sum(0, dtype=wide(part)) / risen.clamp_min(1)
        low = torch.where(up, none, columns).sum(0, dtype=wide(part)) / (len(columns) - risen).clamp_min(1)
        yield torch.cat([high, low]).to(part.dtype)
