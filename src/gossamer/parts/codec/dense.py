"""Codecs that send every element: as it is, or as a 16-bit float of either kind."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from gossamer.parts.chance import Chance
from gossamer.parts.codec.wire import (
    Block,
    Codec,
    Conversation,
    Mean,
    Meant,
    Memory,
    Shapes,
    Size,
    elements,
    exactly,
)
from gossamer.parts.payload import Payload

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True, repr=False)
class Dense(Codec):
    """The elements as they are."""

    lossy: ClassVar[bool] = False
    by_element: ClassVar[bool] = True
    proportional: ClassVar[bool] = True
    payloads: ClassVar[frozenset[Payload]] = frozenset(Payload)

    def converse(self, block: Block, memory: Memory, chance: Chance) -> Conversation:
        heard = yield Mean(block.flat)
        return heard.one(), block.flat

    def wire_bytes(self, shapes: Shapes, itemsize: int) -> tuple[Size, ...]:
        return (exactly(elements(shapes) * itemsize),)


@dataclass(frozen=True, repr=False)
class Half(Codec):
    """Every element as a 16-bit float, rounded to nearest."""

    sums_exactly: ClassVar[bool] = False
    by_element: ClassVar[bool] = True
    proportional: ClassVar[bool] = True

    def converse(self, block: Block, memory: Memory, chance: Chance) -> Conversation:
        import torch

        return (yield from _shortened(block, torch.float16))

    def wire_bytes(self, shapes: Shapes, itemsize: int) -> tuple[Size, ...]:
        return (exactly(elements(shapes) * 2),)


@dataclass(frozen=True, repr=False)
class Brain(Codec):
    """Every element as a bfloat16, rounded to nearest: the range of 32 bits, and eight bits of each number."""

    sums_exactly: ClassVar[bool] = False
    by_element: ClassVar[bool] = True
    proportional: ClassVar[bool] = True

    def converse(self, block: Block, memory: Memory, chance: Chance) -> Conversation:
        import torch

        return (yield from _shortened(block, torch.bfloat16))

    def wire_bytes(self, shapes: Shapes, itemsize: int) -> tuple[Size, ...]:
        return (exactly(elements(shapes) * 2),)


def _shortened(block: Block, kind: torch.dtype) -> Conversation:
    """Every element in a shorter type, and back."""
    short = block.flat.to(kind, copy=True)  # even where it is that already: what is kept back is written over
    meant = Meant(lambda into, weight: into.add_(short, alpha=weight), block.flat)
    heard = yield Mean(short, meant)
    return heard.one().to(block.flat.dtype), meant
