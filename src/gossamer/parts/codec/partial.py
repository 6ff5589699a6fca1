"""Codecs that send a part of the elements as they are: a range in turn, or what changes its parameter noticeably."""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt
from typing import TYPE_CHECKING

from gossamer.parts.chance import Chance
from gossamer.parts.codec.bits import as_bytes
from gossamer.parts.codec.sparse import only, pack, scatter_mean
from gossamer.parts.codec.wire import Block, Codec, Conversation, Each, Heard, Memory, Shapes, Size, elements
from gossamer.parts.refusal import Refused, real, whole

if TYPE_CHECKING:
    from torch import Tensor

NUMBER = 4  # bytes that say which range it is
USUAL = 2  # elements for each significant one, as seen in rehearsals


@dataclass(frozen=True, repr=False)
class Slice(Codec):
    """At step t member m sends the ((t + m) mod `of`)-th of `of` equal ranges of the block (partial exchange, Ako)."""

    of: int = 4

    def __post_init__(self) -> None:
        whole("Slice", "of", self.of, 1, 2**20)

    def converse(self, block: Block, memory: Memory, chance: Chance) -> Conversation:
        import torch

        flat, turn = block.flat, (chance.step + chance.member) % self.of
        start, stop = self._range(turn, flat.numel())
        meant = flat.new_zeros(flat.shape)
        meant[start:stop] = flat[start:stop]
        mine = as_bytes(torch.tensor([turn], dtype=torch.int32, device=flat.device), meant[start:stop])
        heard = yield Each(mine, meant)
        return heard.once("mean", lambda: self._mean(heard, flat)), meant

    def _mean(self, heard: Heard, like: Tensor) -> Tensor:
        """The weighted sum of all ranges, each where it belongs."""
        import torch

        total = like.new_zeros(like.shape)
        for weight, body in heard.apart:
            start, stop = self._range(int(body[:NUMBER].clone().view(torch.int32)), like.numel())
            total[start:stop].add_(body[NUMBER:].clone().view(like.dtype), alpha=weight)
        return total

    def _range(self, turn: int, count: int) -> tuple[int, int]:
        return turn * count // self.of, (turn + 1) * count // self.of

    def wire_bytes(self, shapes: Shapes, itemsize: int) -> tuple[Size, ...]:
        low, high = (
            NUMBER + itemsize * share for share in (elements(shapes) // self.of, -(-elements(shapes) // self.of))
        )
        return (Size(low, high, high, gathered=True),)


@dataclass(frozen=True, repr=False)
class Significant(Codec):
    """At step t send the elements v with |v| > threshold / sqrt(t + 1) |w|, w the parameter (Gaia, in our reading)."""

    threshold: float = 0.01

    def __post_init__(self) -> None:
        real("Significant", "threshold", self.threshold, 0.0, 1e6, open_low=True)

    def converse(self, block: Block, memory: Memory, chance: Chance) -> Conversation:
        if block.beside is None:
            raise Refused("Significant compares each element with its parameter, and was shown no parameters")
        least = block.beside.abs() * (self.threshold / sqrt(chance.step + 1))
        places = (~(block.flat.abs() <= least)).nonzero().squeeze(1)  # what is not a number is sent, too
        values = block.flat[places]
        meant = only(places, values, block)
        heard = yield Each(pack(places, values), meant)
        return scatter_mean(heard, block), meant

    @property
    def looks_beside(self) -> bool:
        return True

    def wire_bytes(self, shapes: Shapes, itemsize: int) -> tuple[Size, ...]:
        count, each = elements(shapes), 4 + itemsize
        return (Size(0, -(-count // USUAL) * each, count * each, gathered=True),)
