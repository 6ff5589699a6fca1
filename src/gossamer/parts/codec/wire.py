"""The words of a codec's conversation: wires, what is heard, blocks and byte counts. Knows no network and no codec."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from gossamer.parts.chance import Chance
from gossamer.parts.payload import Payload
from gossamer.parts.value import Value

if TYPE_CHECKING:
    import torch
    from torch import Tensor

T = TypeVar("T")
Memory = dict[str, "Tensor"]
Shapes = Sequence[tuple[int, ...]]


@dataclass(frozen=True, slots=True, eq=False)
class Meant:
    """What the others hear of a sender, not laid down: `add(into, weight)` adds so much of it to one like `like`."""

    add: Callable[[Tensor, float], object]
    like: Tensor


def laid_down(meant: Tensor | Meant) -> Tensor:
    """What the others hear of a sender, as a vector."""
    if not isinstance(meant, Meant):
        return meant
    whole = meant.like.new_zeros(meant.like.shape)
    meant.add(whole, 1.0)
    return whole


@dataclass(frozen=True, slots=True)
class Mean:
    """A wire that is heard as the weighted mean of all; linear, so it may be summed in flight.

    `meant`: what the others will hear of its sender, where the sender knows before anybody answers. It stays at home.
    """

    body: Tensor
    meant: Tensor | Meant | None = None


@dataclass(frozen=True, slots=True)
class Max:
    """A wire that is heard as the elementwise maximum of all: shared scalers, votes."""

    body: Tensor
    meant: Tensor | Meant | None = None


@dataclass(frozen=True, slots=True)
class Each:
    """A wire that is heard sender by sender, each with its weight."""

    body: Tensor
    meant: Tensor | Meant | None = None


Wire = Mean | Max | Each


@dataclass(frozen=True, slots=True, eq=False)
class Heard:
    """What came back of a wire: `whole` for Mean and Max, `apart` as (weight, body) in sender order for Each."""

    whole: Tensor | None = None
    apart: tuple[tuple[float, Tensor], ...] = ()
    known: dict[str, Any] = field(default_factory=dict)

    def one(self) -> Tensor:
        """The combined body of a Mean or Max wire."""
        assert self.whole is not None, "an Each wire is heard apart"
        return self.whole

    def once(self, what: str, make: Callable[[], T]) -> T:
        """Something that follows from what was heard alone, worked out by the first of all who hear the same.

        It is shared: whoever gets it must not write to it.
        """
        if what not in self.known:
            self.known[what] = make()
        found: T = self.known[what]
        return found


def alone(wire: Wire) -> Heard:
    """What a member hears when nobody else speaks."""
    return Heard(apart=((1.0, wire.body),)) if isinstance(wire, Each) else Heard(whole=wire.body)


@dataclass(frozen=True, slots=True)
class Block:
    """A bucket's tensors: one flat vector and the shapes that lie in it, of one dtype and device.

    `beside`: the parameters of the same elements, for a codec that looks at them; it may be live storage, too.
    `members`: how many there are whose gradients are averaged.
    """

    flat: Tensor
    shapes: tuple[tuple[int, ...], ...]
    beside: Tensor | None = None
    members: int = 1

    def tensors(self, flat: Tensor | None = None) -> Iterator[Tensor]:
        """Views of `flat` (by default the block's own) in their shapes."""
        start, source = 0, self.flat if flat is None else flat
        for shape in self.shapes:
            count = prod(shape)
            yield source[start : start + count].view(shape)
            start += count


@dataclass(frozen=True, slots=True)
class Size:
    """Bytes of one wire: low and high bound what is produced, likely is the guess; all equal for fixed-size wires."""

    low: int
    likely: int
    high: int
    gathered: bool = False  # an Each wire: every member hears every other's, and nothing is summed on the way


def exactly(count: int, *, gathered: bool = False) -> Size:
    """The size of a wire that never varies."""
    return Size(count, count, count, gathered)


def wide(part: Tensor) -> torch.dtype:
    """The type in which numbers are added up, or draws compared with them: 32 bits where they have fewer."""
    import torch

    return torch.promote_types(part.dtype, torch.float32)


def elements(shapes: Shapes) -> int:
    """Elements of all shapes together."""
    return sum(prod(shape) for shape in shapes)


Conversation = Generator[Wire, Heard, "tuple[Tensor, Tensor | Meant]"]


class Codec(ABC, Value):
    """What a block becomes on the wire, as a conversation that asks for communication and never performs it."""

    lossy: ClassVar[bool] = True
    payloads: ClassVar[frozenset[Payload]] = frozenset({Payload.GRADIENTS, Payload.DELTAS})
    remembers: ClassVar[bool] = False  # it already keeps what it did not send
    sums_exactly: ClassVar[bool] = True  # its Mean wires lose nothing by being summed in flight
    by_element: ClassVar[bool] = False  # what becomes of a number depends on it alone: blocks may be cut
    proportional: ClassVar[bool] = False  # twice what it is given comes to twice the mix, whatever it was given before
    owns_momentum: ClassVar[bool] = False  # it applies the momentum, so the optimizer must not
    unsent: ClassVar[tuple[str, ...]] = ("residual",)  # memories, if any, of what is not sent yet; the sum of it first

    @abstractmethod
    def converse(self, block: Block, memory: Memory, chance: Chance) -> Conversation:
        """Yield wires, be sent what was heard, return (the mix, what the others heard of me), flat; `laid_down` or not.

        The block's vector may be a view of live storage: read it, never write to it.
        """

    @abstractmethod
    def wire_bytes(self, shapes: Shapes, itemsize: int) -> tuple[Size, ...]:
        """Bytes of each turn's wire, and whether it is gathered, without running."""

    @property
    def compresses(self) -> bool:
        """Whether what it writes is less than what it was given."""
        return self.lossy

    @property
    def looks_beside(self) -> bool:
        """Whether it must be shown the parameters of the elements it carries."""
        return False

    @property
    def draws_alike(self) -> bool:
        """Whether its wires can be read only by who drew the same: in the same step of the same exchange."""
        return False

    @property
    def turns(self) -> int:
        """Wires per exchange; a hub or a neighbour graph can answer one."""
        return len(self.wire_bytes((), 4))


def mean_of(heard: Heard, like: Tensor, read: Callable[[Tensor], Tensor]) -> Tensor:
    """The weighted sum of what every sender's body is read as, added up in sender order, once for all who hear it."""
    return sum_of(heard, like, lambda body, into, weight: into.add_(read(body), alpha=weight))


def sum_of(heard: Heard, like: Tensor, add: Callable[[Tensor, Tensor, float], object]) -> Tensor:
    """The same, by `add(body, into, weight)`."""

    def add_up() -> Tensor:
        total = like.new_zeros(like.shape)
        for weight, body in heard.apart:
            add(body, total, weight)
        return total

    return heard.once("mean", add_up)


def decoded(codec: Codec, wire: Wire, block: Block, chance: Chance | None = None) -> Tensor:
    """The flat vector that one sender's only wire stands for; `block` tells its shapes, dtype and device.

    A listener with nothing to say converses and hears that sender alone; `chance`: of the sender, if it matters.
    """
    zeros = block.flat.new_zeros(block.flat.shape)
    silent = Block(zeros, block.shapes, zeros if codec.looks_beside else None)
    listening = codec.converse(silent, {}, chance or Chance(0, 0, 0, 0))
    next(listening)
    try:
        listening.send(alone(wire))
    except StopIteration as end:
        mixed: Tensor = end.value[0]
        return mixed
    raise AssertionError(f"{codec!r} speaks more than once; only one-turn codecs can be decoded alone")


def continued(talking: Conversation, wire: Wire) -> Conversation:
    """The rest of a conversation whose first wire has been looked at already."""
    while True:
        heard = yield wire
        try:
            wire = talking.send(heard)
        except StopIteration as end:
            ended: tuple[Tensor, Tensor | Meant] = end.value
            return ended
