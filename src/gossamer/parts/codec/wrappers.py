"""Codecs around codecs: error feedback, and differences to a reference that both sides keep."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

from gossamer.parts.chance import Chance
from gossamer.parts.codec.dense import Half
from gossamer.parts.codec.sparse import TopK
from gossamer.parts.codec.wire import Block, Codec, Conversation, Meant, Memory, Shapes, Size, continued
from gossamer.parts.payload import Payload
from gossamer.parts.refusal import Refused, kind, real

if TYPE_CHECKING:
    from torch import Tensor


class Around(Codec):
    """A codec around another, which writes the wires."""

    codec: Codec

    @property
    def looks_beside(self) -> bool:
        return self.codec.looks_beside

    @property
    def draws_alike(self) -> bool:
        return self.codec.draws_alike

    def wire_bytes(self, shapes: Shapes, itemsize: int) -> tuple[Size, ...]:
        return self.codec.wire_bytes(shapes, itemsize)


@dataclass(frozen=True, repr=False)
class ErrorFeedback(Around):
    """What the others did not hear this time is added next time: residual = fl(input - decoded).

    It is kept before anybody answers where the codec knows what will be heard: with a delay the next send comes first.
    """

    remembers: ClassVar[bool] = True

    codec: Codec = Half()

    def __post_init__(self) -> None:
        _inner("ErrorFeedback", self.codec)

    def converse(self, block: Block, memory: Memory, chance: Chance) -> Conversation:
        residual = memory.pop("residual", None)  # with a delay the next send comes before the end of this one
        whole = block.flat.clone() if residual is None else residual.add_(block.flat)
        talking = self.codec.converse(replace(block, flat=whole), memory, chance)
        wire = next(talking)
        known = wire.meant
        if known is not None:
            memory["residual"] = _add(whole, known, -1.0)
        left = whole  # of what nobody has heard, should this end before its time
        try:
            mixed, heard_of_me = yield from continued(talking, wire)
            left = whole if known is not None else _add(whole, heard_of_me, -1.0)
        finally:
            if known is None:
                others = memory.get("residual")
                memory["residual"] = left if others is None else others.add_(left)
        return mixed, heard_of_me


@dataclass(frozen=True, repr=False)
class Difference(Around):
    """Send the codec's version q of x - r, r being the reference all who hear me keep of me (CHOCO-SGD).

    r += q; s += mix of all q; the result is x + rate (s - r), so a lossy codec cannot wipe parameters out.
    """

    payloads: ClassVar[frozenset[Payload]] = frozenset({Payload.PARAMETERS})
    remembers: ClassVar[bool] = True

    codec: Codec = TopK(keep=0.1)
    rate: float = 0.2

    def __post_init__(self) -> None:
        _inner("Difference", self.codec)
        real("Difference", "rate", self.rate, 0.0, 1.0, open_low=True)

    def converse(self, block: Block, memory: Memory, chance: Chance) -> Conversation:
        if "reference" not in memory:
            memory["reference"] = block.flat.new_zeros(block.flat.shape)
            memory["mixed references"] = block.flat.new_zeros(block.flat.shape)
        mine, theirs = memory["reference"], memory["mixed references"]
        inner = replace(block, flat=block.flat - mine)
        mixed, heard_of_me = yield from self.codec.converse(inner, memory, chance)
        _add(mine, heard_of_me, 1.0)
        theirs.add_(mixed)
        return block.flat + self.rate * (theirs - mine), heard_of_me


def _add(whole: Tensor, meant: Tensor | Meant, weight: float) -> Tensor:
    """Add so much of what the others have heard to a vector, which is changed."""
    if isinstance(meant, Meant):
        meant.add(whole, weight)
        return whole
    return whole.add_(meant, alpha=weight)


def check_inner(owner: str, codec: Codec) -> None:
    """Refuse a codec that keeps what it did not send: nobody can keep it once more."""
    kind(owner, "codec", codec, Codec)
    if codec.remembers:
        raise Refused(f"{owner}: {codec!r} already keeps what it did not send", repr(codec))


def _inner(owner: str, codec: Codec) -> None:
    check_inner(owner, codec)
    if not codec.lossy:
        raise Refused(f"{owner}: {codec!r} loses nothing, so there is nothing to keep", repr(codec))
