"""Codecs that send every element: as it is, or in half precision."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from gossamer.parts.chance import Chance
from gossamer.parts.codec.wire import (
    Block,
    Codec,
    Conversation,
    Mean,
    Memory,
    Shapes,
    Size,
    elements,
    exactly,
)
from gossamer.parts.payload import Payload


@dataclass(frozen=True, repr=False)
class Dense(Codec):
    """The elements as they are."""

    lossy: ClassVar[bool] = False
    by_element: ClassVar[bool] = True
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

    def converse(self, block: Block, memory: Memory, chance: Chance) -> Conversation:
        short = block.flat.half()
        meant = short.to(block.flat.dtype)
        heard = yield Mean(short, meant)
        return heard.one().to(block.flat.dtype), meant

    def wire_bytes(self, shapes: Shapes, itemsize: int) -> tuple[Size, ...]:
        return (exactly(elements(shapes) * 2),)
