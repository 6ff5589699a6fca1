"""Codecs that send one bit for each element, its sign, and a few means: 1-bit SGD, and the scaled sign."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING

from gossamer.parts.chance import Chance
from gossamer.parts.codec.bits import as_bytes, pack_bits, packed_bytes, unpack_bits
from gossamer.parts.codec.powersgd import matrix
from gossamer.parts.codec.wire import (
    Block,
    Codec,
    Conversation,
    Each,
    Memory,
    Shapes,
    Size,
    elements,
    exactly,
    mean_of,
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
        mine = as_bytes(*_column_means(block), pack_bits(block.flat >= 0, 1))
        meant = _by_column(mine, block)
        heard = yield Each(mine, meant)
        return mean_of(heard, block.flat, lambda body: _by_column(body, block)), meant

    def wire_bytes(self, shapes: Shapes, itemsize: int) -> tuple[Size, ...]:
        means = 2 * sum(matrix(shape)[1] for shape in shapes)
        return (exactly(means * itemsize + packed_bytes(elements(shapes), 1), gathered=True),)


@dataclass(frozen=True, repr=False)
class Sign(Codec):
    """Each element of a tensor p of d elements becomes (||p||_1 / d) sign p, zero counting as + (EF-signSGD)."""

    def converse(self, block: Block, memory: Memory, chance: Chance) -> Conversation:
        import torch

        sizes = [part.abs().sum(dtype=wide(part)) / max(1, part.numel()) for part in block.tensors()]
        means = torch.stack(sizes).to(block.flat.dtype) if sizes else block.flat.new_zeros(0)
        mine = as_bytes(means, pack_bits(block.flat >= 0, 1))
        meant = _by_tensor(mine, block)
        heard = yield Each(mine, meant)
        return mean_of(heard, block.flat, lambda body: _by_tensor(body, block)), meant

    def wire_bytes(self, shapes: Shapes, itemsize: int) -> tuple[Size, ...]:
        return (exactly(len(shapes) * itemsize + packed_bytes(elements(shapes), 1), gathered=True),)


def _column_means(block: Block) -> Iterator[Tensor]:
    """For each tensor the means of its columns' non-negative elements, then of the negative; 0 where there are none.

    What is not a number counts as negative, and comes out as not a number there.
    """
    import torch

    for part in block.tensors():
        columns = part.reshape(matrix(tuple(part.shape)))
        up, none = columns >= 0, part.new_zeros(())
        risen = up.sum(0)
        high = torch.where(up, columns, none).sum(0, dtype=wide(part)) / risen.clamp_min(1)
        low = torch.where(up, none, columns).sum(0, dtype=wide(part)) / (len(columns) - risen).clamp_min(1)
        yield torch.cat([high, low]).to(part.dtype)


def _by_column(body: Tensor, block: Block) -> Tensor:
    """What a body of OneBit stands for."""
    import torch

    counts = [2 * matrix(shape)[1] for shape in block.shapes]
    head = sum(counts) * block.flat.element_size()
    means = body[:head].clone().view(block.flat.dtype).split_with_sizes(counts)
    bits = unpack_bits(body[head:], 1, block.flat.numel()).view(torch.bool)
    found = torch.empty_like(block.flat)
    for part, up, pair in zip(block.tensors(found), block.tensors(bits), means, strict=True):
        high, low = pair.chunk(2)
        sides = matrix(tuple(part.shape))
        part.view(sides).copy_(torch.where(up.view(sides), high, low))
    return found


def _by_tensor(body: Tensor, block: Block) -> Tensor:
    """What a body of Sign stands for."""
    import torch

    head = len(block.shapes) * block.flat.element_size()
    sizes = torch.tensor([prod(shape) for shape in block.shapes], device=body.device, dtype=torch.int64)
    means = body[:head].clone().view(block.flat.dtype).repeat_interleave(sizes)
    return torch.where(unpack_bits(body[head:], 1, block.flat.numel()).view(torch.bool), means, -means)
