"""Codecs that send a share of the elements: the largest of each tensor, or the same random ones of all members."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import ceil, prod
from typing import TYPE_CHECKING, ClassVar

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
    wide,
)
from gossamer.parts.payload import Payload
from gossamer.parts.refusal import flag, real, whole

if TYPE_CHECKING:
    from torch import Tensor

SAMPLE = 40  # elements of the sample that are among the largest of all, on the mean
SURE = 3.0  # standard deviations of that number by which the bound is lowered
SPARE = 4  # times as many as asked for that may be left to choose from
FAR = 8  # times the sample that a vector must be long for it to pay
LEVELS = 4  # densities through which DGC's warm-up takes the density down (papers: 25 %, 6.3 %, 1.6 %, 0.4 %)


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


@dataclass(frozen=True, repr=False)
class DGC(Codec):
    """Deep gradient compression: momentum stays local, and only the largest velocities are sent (P1 alg. 7).

    U = m U + G; V = V + U; the `density` share of each tensor with the largest |V| is sent and cleared from V, and with
    `masking` from U too. Nesterov: U = m (U + G); V = V + U + G. Over the first `warmup` steps the density comes down
    to its value in four levels. With `clip` above 0 a G longer than clip / sqrt(members) is cut to that length first.
    DGC owns the momentum: the optimizer must have none.
    """

    payloads: ClassVar[frozenset[Payload]] = frozenset({Payload.GRADIENTS})
    remembers: ClassVar[bool] = True
    owns_momentum: ClassVar[bool] = True
    unsent: ClassVar[tuple[str, ...]] = ("velocity", "momentum")

    density: float = 0.001
    momentum: float = 0.9
    nesterov: bool = False
    masking: bool = True
    warmup: int = 0
    clip: float = 0.0

    def __post_init__(self) -> None:
        real("DGC", "density", self.density, 0.0, 1.0, open_low=True)
        real("DGC", "momentum", self.momentum, 0.0, 1.0, open_high=True)
        flag("DGC", "nesterov", self.nesterov)
        flag("DGC", "masking", self.masking)
        whole("DGC", "warmup", self.warmup, 0, 10**9)
        real("DGC", "clip", self.clip, 0.0, 1e9)

    def keeps(self, step: int) -> float:
        """The density at `step`: density ** ((level + 1) / (LEVELS + 1)) while warming up."""
        if step >= self.warmup:
            return self.density
        return float(self.density ** ((step * LEVELS // self.warmup + 1) / (LEVELS + 1)))

    def converse(self, block: Block, memory: Memory, chance: Chance) -> Conversation:
        velocity = self._accumulate(self._clipped(block), memory)
        places = largest(block, velocity, self.keeps(chance.step))
        values = velocity[places]
        velocity[places] = 0  # before anybody answers: with a delay the next send comes first
        if self.masking:
            memory["momentum"][places] = 0
        heard = yield Each(pack(places, values))
        return scatter_mean(heard, block), only(places, values, block)

    def _clipped(self, block: Block) -> Tensor:
        """The gradient, or what is left of a long one; what is not finite stays so."""
        most = self.clip / block.members**0.5
        length = block.flat.norm(dtype=wide(block.flat)) if most else None
        if length is None or length <= most:
            return block.flat
        cut: Tensor = block.flat.to(length.dtype) * (most / length)
        return cut.to(block.flat.dtype)

    def _accumulate(self, gradient: Tensor, memory: Memory) -> Tensor:
        if "momentum" not in memory:
            memory["momentum"], memory["velocity"] = (
                gradient.new_zeros(gradient.shape),
                gradient.new_zeros(gradient.shape),
            )
        momentum, velocity = memory["momentum"], memory["velocity"]
        if self.nesterov:
            momentum.add_(gradient).mul_(self.momentum)
            return velocity.add_(momentum).add_(gradient)
        momentum.mul_(self.momentum).add_(gradient)
        return velocity.add_(momentum)

    def wire_bytes(self, shapes: Shapes, itemsize: int) -> tuple[Size, ...]:
        low, high = (sparse_bytes(shapes, itemsize, keep) for keep in (self.density, self.keeps(0)))
        return (Size(low, low, high, gathered=True),)


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
