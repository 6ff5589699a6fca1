"""Codecs that are wrong on purpose, each in one way, so that a law which lets them pass is found out."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import torch

from gossamer.parts.chance import Chance
from gossamer.parts.codec import (
    Block,
    Conversation,
    Dense,
    Difference,
    ErrorFeedback,
    Mean,
    Memory,
    Size,
    TopK,
    laid_down,
)
from gossamer.parts.codec.wire import Shapes, exactly


@dataclass(frozen=True, repr=False)
class Boastful(TopK):
    """States one element less than it sends."""

    def wire_bytes(self, shapes: Shapes, itemsize: int) -> tuple[Size, ...]:
        return tuple(exactly(size.high - 8, gathered=True) for size in super().wire_bytes(shapes, itemsize))


@dataclass(frozen=True, repr=False)
class Modest(TopK):
    """States that its wires are summed on the way, though every member must hear every other's."""

    def wire_bytes(self, shapes: Shapes, itemsize: int) -> tuple[Size, ...]:
        return tuple(exactly(size.high) for size in super().wire_bytes(shapes, itemsize))


@dataclass(frozen=True, repr=False)
class Talkative(Dense):
    """Speaks twice and states one turn."""

    def converse(self, block: Block, memory: Memory, chance: Chance) -> Conversation:
        yield Mean(block.flat)
        heard = yield Mean(block.flat)
        return heard.one(), block.flat


@dataclass(frozen=True, repr=False)
class Stubborn(Dense):
    """Member 0 leaves after one turn, the others go on."""

    def converse(self, block: Block, memory: Memory, chance: Chance) -> Conversation:
        heard = yield Mean(block.flat)
        if chance.member:
            heard = yield Mean(block.flat)
        return heard.one(), block.flat


@dataclass(frozen=True, repr=False)
class Deaf(Dense):
    """Takes its own value for the mix."""

    def converse(self, block: Block, memory: Memory, chance: Chance) -> Conversation:
        yield Mean(block.flat)
        return block.flat, block.flat


@dataclass(frozen=True, repr=False)
class Fickle(Difference):
    """Forgets what it has heard before, so the pull no longer adds up to nothing."""

    def converse(self, block: Block, memory: Memory, chance: Chance) -> Conversation:
        if "mixed references" in memory:
            memory["mixed references"] = torch.zeros_like(block.flat)
        return (yield from super().converse(block, memory, chance))


@dataclass(frozen=True, repr=False)
class Liar(TopK):
    """Sends the largest elements and says that everything was heard: feedback around it would lose the rest."""

    def converse(self, block: Block, memory: Memory, chance: Chance) -> Conversation:
        mixed, _ = yield from super().converse(block, memory, chance)
        return mixed, block.flat


@dataclass(frozen=True, repr=False)
class Hopeful(TopK):
    """Means everything and sends the largest elements."""

    def converse(self, block: Block, memory: Memory, chance: Chance) -> Conversation:
        talking = super().converse(block, memory, chance)
        heard = yield replace(next(talking), meant=block.flat)
        try:
            talking.send(heard)
        except StopIteration as end:
            return end.value


@dataclass(frozen=True, repr=False)
class Soothing(Dense):
    """Says nothing of what is not finite."""

    def converse(self, block: Block, memory: Memory, chance: Chance) -> Conversation:
        said = block.flat.nan_to_num(0.0, 0.0, 0.0)
        heard = yield Mean(said)
        return heard.one(), said


@dataclass(frozen=True, repr=False)
class Squared(Dense):
    """Sends squares as if they could be summed in flight."""

    def converse(self, block: Block, memory: Memory, chance: Chance) -> Conversation:
        heard = yield Mean(block.flat * block.flat.abs())
        return heard.one().sign() * heard.one().abs().sqrt(), block.flat


@dataclass(frozen=True, repr=False)
class Meddler(Dense):
    """Clears the block once it is sent."""

    def converse(self, block: Block, memory: Memory, chance: Chance) -> Conversation:
        mine = block.flat.clone()
        heard = yield Mean(mine)
        block.flat.zero_()
        return heard.one(), mine


@dataclass(frozen=True, repr=False)
class Grabbing(Dense):
    """Works in the storage of what it heard, which others hear, too."""

    def converse(self, block: Block, memory: Memory, chance: Chance) -> Conversation:
        heard = yield Mean(block.flat.clone())
        return heard.one().add_(1.0), block.flat


@dataclass(frozen=True, repr=False)
class Sharing(Dense):
    """Remembers the very tensor that everybody heard."""

    def converse(self, block: Block, memory: Memory, chance: Chance) -> Conversation:
        heard = yield Mean(block.flat)
        memory["last"] = heard.one()
        return heard.one(), block.flat


@dataclass(frozen=True, repr=False)
class Forgetful(Dense):
    """Remembers the block itself, which is live storage and will be other numbers next time."""

    def converse(self, block: Block, memory: Memory, chance: Chance) -> Conversation:
        memory["before"] = block.flat
        return (yield from super().converse(block, memory, chance))


@dataclass(frozen=True, repr=False)
class Coarse(TopK):
    """Claims to lose nothing."""

    lossy: ClassVar[bool] = False


@dataclass(frozen=True, repr=False)
class Nervous(Dense):
    """Divides by what may be zero, and widens the numbers on the way."""

    def converse(self, block: Block, memory: Memory, chance: Chance) -> Conversation:
        norm = block.flat.norm()
        heard = yield Mean(block.flat / norm)
        return heard.one().double() * norm, block.flat


@dataclass(frozen=True, repr=False)
class Noisy(Dense):
    """Draws from the global generator."""

    def converse(self, block: Block, memory: Memory, chance: Chance) -> Conversation:
        said = block.flat * torch.rand(())
        heard = yield Mean(said)
        return heard.one(), said


@dataclass(frozen=True, repr=False)
class Leaky(ErrorFeedback):
    """Loses a little of the residual."""

    def converse(self, block: Block, memory: Memory, chance: Chance) -> Conversation:
        ended = yield from super().converse(block, memory, chance)
        memory["residual"] = memory["residual"] * 0.99
        return ended


@dataclass(frozen=True, repr=False)
class Thrifty(ErrorFeedback):
    """Keeps the residual in half precision."""

    def converse(self, block: Block, memory: Memory, chance: Chance) -> Conversation:
        ended = yield from super().converse(block, memory, chance)
        memory["residual"] = memory["residual"].half().to(block.flat.dtype)
        return ended


@dataclass(frozen=True, repr=False)
class Patient(ErrorFeedback):
    """Keeps the rest only once it has been answered, though the next send may come before."""

    def converse(self, block: Block, memory: Memory, chance: Chance) -> Conversation:
        residual = memory.get("residual")
        whole = block.flat if residual is None else block.flat + residual
        mixed, heard_of_me = yield from self.codec.converse(replace(block, flat=whole), memory, chance)
        memory["residual"] = whole - laid_down(heard_of_me)
        return mixed, heard_of_me


@dataclass(frozen=True, repr=False)
class Remembering(ErrorFeedback):
    """States that a factor passes through it, though what it kept back knows nothing of the factor."""

    proportional: ClassVar[bool] = True
