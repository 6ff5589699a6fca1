"""A codec that sends any type of number, and a task whose import makes workers know it."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from tests.parity import small
from torch import Tensor

from gossamer.parts.chance import Chance
from gossamer.parts.codec.wire import Block, Codec, Conversation, Each, Memory, Shapes, Size, elements, exactly
from gossamer.tasks.task import Task


@dataclass(frozen=True, repr=False)
class Typed(Codec):
    """Each element in units of 1/100, clipped to what the type can hold."""

    kind: str = "int8"

    def converse(self, block: Block, memory: Memory, chance: Chance) -> Conversation:
        body = (block.flat * 100).round().clamp(0 if self.kind[0] in "ub" else -127, 127).to(self._dtype)
        heard = yield Each(body)
        mixed = sum(weight * self._read(part, block) for weight, part in heard.apart)
        return mixed, self._read(body, block)

    def _read(self, body: Tensor, block: Block) -> Tensor:
        assert body.dtype == self._dtype
        return body.to(block.flat.dtype) / 100

    @property
    def _dtype(self) -> torch.dtype:
        return getattr(torch, self.kind)

    def wire_bytes(self, shapes: Shapes, itemsize: int) -> tuple[Size, ...]:
        return (exactly(elements(shapes) * self._dtype.itemsize, gathered=True),)


def task(seed: int = 0) -> Task:
    """The small task; a worker that builds it knows the codec from then on."""
    return small.task(seed)
