"""Codecs that keep the momentum: what is sent late has gathered speed while it waited. The optimizer has none.

With momentum m a gradient that waits for n steps should come as n steps of momentum would have made it, and not as a
fresh one: so each member lets its own gradients gather speed first, and a codec writes what has gathered.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

from gossamer.parts.chance import Chance
from gossamer.parts.codec.sparse import TopK, largest, only, pack, scatter_mean, sparse_bytes
from gossamer.parts.codec.wire import (
    Block,
    Codec,
    Conversation,
    Each,
    Meant,
    Memory,
    Shapes,
    Size,
    continued,
    laid_down,
    wide,
)
from gossamer.parts.codec.wrappers import Around, ErrorFeedback, check_inner
from gossamer.parts.payload import Payload
from gossamer.parts.refusal import flag, real, whole

if TYPE_CHECKING:
    from torch import Tensor

LEVELS = 4  # densities through which DGC's warm-up takes the density down (papers: 25 %, 6.3 %, 1.6 %, 0.4 %)


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
        velocity = _velocity(accumulated(clipped(block, self.clip), memory, self.momentum, self.nesterov), memory)
        places = largest(block, velocity, self.keeps(chance.step))
        values = velocity[places]
        velocity[places] = 0  # before anybody answers: with a delay the next send comes first
        if self.masking:
            memory["momentum"][places] = 0
        heard = yield Each(pack(places, values))
        return scatter_mean(heard, block), only(places, values, block)

    def wire_bytes(self, shapes: Shapes, itemsize: int) -> tuple[Size, ...]:
        low, high = (sparse_bytes(shapes, itemsize, keep) for keep in (self.density, self.keeps(0)))
        return (Size(low, low, high, gathered=True),)


@dataclass(frozen=True, repr=False)
class Corrected(Around):
    """Momentum correction around any codec: U = m U + G; the codec writes U and all of it that nobody has heard yet.

    Nesterov: U = m (U + G), and the codec writes U + G. With `masking` U is cleared where anything was heard, which is
    for codecs that choose few elements. `clip` as in DGC. A codec that loses nothing sends the momentum of them all.
    """

    payloads: ClassVar[frozenset[Payload]] = frozenset({Payload.GRADIENTS})
    remembers: ClassVar[bool] = True
    owns_momentum: ClassVar[bool] = True
    unsent: ClassVar[tuple[str, ...]] = ("residual", "momentum")

    codec: Codec = TopK()
    momentum: float = 0.9
    nesterov: bool = False
    masking: bool = False
    clip: float = 0.0

    def __post_init__(self) -> None:
        check_inner("Corrected", self.codec)
        real("Corrected", "momentum", self.momentum, 0.0, 1.0, open_high=True)
        flag("Corrected", "nesterov", self.nesterov)
        flag("Corrected", "masking", self.masking)
        real("Corrected", "clip", self.clip, 0.0, 1e9)

    def converse(self, block: Block, memory: Memory, chance: Chance) -> Conversation:
        ready = accumulated(clipped(block, self.clip), memory, self.momentum, self.nesterov)
        lossy = self.codec.lossy
        inner = ErrorFeedback(self.codec) if lossy else self.codec
        mine = ready if lossy else ready.clone()  # the momentum goes on while what is sent is under way
        talking = inner.converse(replace(block, flat=mine), memory, chance)
        wire = next(talking)
        masks = self.masking and lossy
        if masks and wire.meant is not None:  # with a delay the next send comes before the answer
            _mask(memory, wire.meant)
        mixed, heard_of_me = yield from continued(talking, wire)
        if masks and wire.meant is None:
            _mask(memory, heard_of_me)
        return mixed, heard_of_me

    @property
    def compresses(self) -> bool:
        return self.codec.compresses


def clipped(block: Block, clip: float) -> Tensor:
    """The gradient, or what is left of a long one; what is not finite stays so."""
    most = clip / block.members**0.5
    length = block.flat.norm(dtype=wide(block.flat)) if most else None
    if length is None or length <= most:
        return block.flat
    cut: Tensor = block.flat.to(length.dtype) * (most / length)
    return cut.to(block.flat.dtype)


def accumulated(gradient: Tensor, memory: Memory, momentum: float, nesterov: bool) -> Tensor:
    """What is ready to be sent of this gradient once it has gone through the momentum; maybe the momentum itself."""
    if "momentum" not in memory:
        memory["momentum"] = gradient.new_zeros(gradient.shape)
    gathered = memory["momentum"]
    if nesterov:
        return gathered.add_(gradient).mul_(momentum) + gradient
    return gathered.mul_(momentum).add_(gradient)


def _velocity(ready: Tensor, memory: Memory) -> Tensor:
    """All that has not been sent yet, with what is ready now."""
    if "velocity" not in memory:
        memory["velocity"] = ready.new_zeros(ready.shape)
    return memory["velocity"].add_(ready)


def _mask(memory: Memory, heard: Tensor | Meant) -> None:
    """Forget the momentum wherever the others have heard something."""
    memory["momentum"].masked_fill_(laid_down(heard) != 0, 0.0)
