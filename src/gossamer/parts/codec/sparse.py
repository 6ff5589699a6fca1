"""Codecs that send a share of the elements: the largest of each tensor, or the same random ones of all members."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import ceil, prod
from typing import TYPE_CHECKING

from gossamer.parts import kernel
from gossamer.parts.chance import Chance
from gossamer.parts.codec.wire import (
    Block,
    Codec,
    Conversation,
    Each,
    Heard,
    Mean,
    Meant,
    Memory,
    Shapes,
    Size,
    elements,
    exactly,
)
from gossamer.parts.refusal import real

if TYPE_CHECKING:
    from torch import Tensor

SAMPLE = 40  # elements of the sample that are among the largest of all, on the mean
SURE = 3.0  # standard deviations of that number by which the bound is lowered
SPARE = 4  # times as many as asked for that may be left to choose from
FAR = 8  # times the sample that a vector must be long for it to pay


@dataclass(frozen=True, repr=False)
class TopK(Codec):
    """The `keep` share of each tensor's elements that are largest in magnitude, as indices and values."""

    keep: float = 0.01

    def __post_init__(self) -> None:
        real("TopK", "keep", self.keep, 0.0, 1.0, open_low=True)

    def converse(self, block: Block, memory: Memory, chance: Chance) -> Conversation:
        places = largest(block, block.flat, self.keep)
        values = block.flat[places]
        meant = only(places, values, block)
        heard = yield Each(pack(places, values), meant)
        return scatter_mean(heard, block), meant

    def wire_bytes(self, shapes: Shapes, itemsize: int) -> tuple[Size, ...]:
        return (exactly(sparse_bytes(shapes, itemsize, self.keep), gathered=True),)


@dataclass(frozen=True, repr=False)
class RandomK(Codec):
    """The `keep` share of the elements, drawn anew at each step and alike by all: only values travel, and are summed.

    With anything that is not finite in the block all of them are sent as not a number.
    """

    keep: float = 0.01

    def __post_init__(self) -> None:
        real("RandomK", "keep", self.keep, 0.0, 1.0, open_low=True)

    def converse(self, block: Block, memory: Memory, chance: Chance) -> Conversation:
        places = chance.shared_places(block.flat, self._count(block.flat.numel()))
        values = block.flat[places]
        if block.flat.numel() and not block.flat.norm(p=float("inf")).isfinite():
            values.fill_(float("nan"))
        meant = only(places, values, block)
        heard = yield Mean(values, meant)
        return spread(places, heard.one(), block), meant

    @property
    def draws_alike(self) -> bool:
        return True

    def _count(self, count: int) -> int:
        return min(count, ceil(self.keep * count))

    def wire_bytes(self, shapes: Shapes, itemsize: int) -> tuple[Size, ...]:
        return (exactly(self._count(elements(shapes)) * itemsize),)


def kept(shape: tuple[int, ...], keep: float) -> int:
    """How many elements of a tensor are sent: never none, so that no tensor starves."""
    return min(prod(shape), max(1, ceil(keep * prod(shape))))


def sparse_bytes(shapes: Shapes, itemsize: int, keep: float) -> int:
    """Bytes of the indices (4 each) and values."""
    return sum(kept(shape, keep) * (4 + itemsize) for shape in shapes)


def largest(block: Block, flat: Tensor, keep: float) -> Tensor:
    """Where the largest elements lie, tensor by tensor, as indices into the flat vector in rising order."""
    import torch

    start, found = 0, []
    for shape in block.shapes:
        count = prod(shape)
        part = flat[start : start + count]
        found.append(top(part, kept(shape, keep)).sort().values + start)
        start += count
    return torch.cat(found) if found else flat.new_zeros(0, dtype=torch.int64)


def top(part: Tensor, count: int) -> Tensor:
    """Where the `count` largest sizes lie, in no order; what is not a number is larger than everything.

    A bound from a sample leaves a few more than that to choose from, of a long vector; where it leaves fewer, all are
    looked at. So the answer is that of all, but for equals.
    """
    looked = SAMPLE * part.numel() // max(1, count)
    if looked * FAR < part.numel():
        few = part[:: part.numel() // looked].abs()
        rank = ceil(count * (len(few) / part.numel()) + SURE * SAMPLE**0.5)
        least = few.topk(min(rank, len(few))).values[-1]
        likely = _not_below(part, float(least), SPARE * count)
        if likely is not None and count <= len(likely):
            return likely[part[likely].abs().topk(count, sorted=False).indices]
    return part.abs().topk(count, sorted=False).indices


def _not_below(part: Tensor, least: float, most: int) -> Tensor | None:
    """Where those lie whose size is not below a bound, unless they are more than so many."""
    if kernel.fits(part):
        return kernel.above(part, least, most)
    found = (~(part.abs() < least)).nonzero().squeeze(1)
    return found if len(found) <= most else None


def pack(places: Tensor, values: Tensor) -> Tensor:
    """Indices as 32-bit words, then values, in one run of bytes."""
    import torch

    return torch.cat([places.to(torch.int32).view(torch.uint8), values.contiguous().view(torch.uint8)])


def unpack(body: Tensor, block: Block) -> tuple[Tensor, Tensor]:
    """The indices and values of a packed body."""
    import torch

    count = body.numel() // (4 + block.flat.element_size())
    places = body[: 4 * count].clone().view(torch.int32).long()
    return places, body[4 * count :].clone().view(block.flat.dtype)


def spread(places: Tensor, values: Tensor, block: Block) -> Tensor:
    """Zeros with `values` at `places`."""
    full = block.flat.new_zeros(block.flat.shape)
    full[places] = values
    return full


def only(places: Tensor, values: Tensor, block: Block) -> Meant:
    """The same, not laid down."""

    def add(into: Tensor, weight: float) -> None:
        into[places] += weight * values

    return Meant(add, block.flat)


Read = Callable[["Tensor", Block], "tuple[Tensor, Tensor]"]  # the places and values of a body


def scatter_mean(heard: Heard, block: Block, read: Read = unpack) -> Tensor:
    """The weighted sum of what every sender's body stands for, added where it belongs in sender order."""

    def add_up() -> Tensor:
        total = block.flat.new_zeros(block.flat.shape)
        for weight, body in heard.apart:
            places, values = read(body, block)
            total[places] += weight * values
        return total

    return heard.once("mean", add_up)
