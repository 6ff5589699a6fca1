"""What every fabric can do. Knows no strategy and no way of travelling."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from torch import Tensor

from gossamer.parts.codec import Heard, Wire
from gossamer.parts.route import Route


@dataclass(frozen=True)
class Key:
    """What a message is about; `bucket` is None for an exchange that is not cut."""

    slot: int
    step: int
    turn: int
    bucket: int | None = None

    @property
    def tag(self) -> int:
        """The number torch.distributed matches sends and receives by; buckets of a turn travel one after the other."""
        return (self.slot & 0x7F) << 24 | (self.step & 0xFFFFF) << 4 | (self.turn & 0xF)


@dataclass
class Pending:
    """A mix under way; `wait` ends it and says what was heard."""

    wait: Callable[[], Heard]


Rows = list[list[int]]
Board = Callable[[Sequence[int]], Callable[[], Rows]]


class Fabric(Protocol):
    """One member's hold on what carries wires. Mixes begin when asked for and go on while the member computes.

    Bytes count as sent when a mix begins and as heard when it ends. What is heard of a bucket is lent until the next
    wire of that bucket begins.
    """

    name: str
    member: int
    size: int
    sent: Counter[int]
    heard: Counter[int]
    crossed: Counter[int]  # of what was sent, that which left the host
    looks: bool  # whether `load` finds every NaN and infinity
    local: bool  # whether a mix takes no longer than reading and writing memory
    ordered: bool  # whether mixes must begin in the same order on all members, even those of lent memory

    def everyone(self, key: Key, wire: Wire, route: Route) -> Pending:
        """Begin a mix of all members' wires."""

    def neighbours(self, key: Key, wire: Wire, weights: Mapping[int, float], listeners: tuple[int, ...]) -> Pending:
        """Begin an exchange with neighbours: my wire to all listeners, theirs to me."""

    def lend(self, like: Tensor, cuts: Sequence[int]) -> Tensor:
        """Memory for as many numbers as `like`, cut into buckets at `cuts`, whose wires need not be copied."""

    def knows(self, there: Tensor) -> bool:
        """Whether this is one bucket of lent memory, mixed where it lies whenever it is announced."""

    def load(self, there: Tensor, sources: Sequence[Tensor], scale: float) -> int:
        """Copy tensors, one after the other and scaled, into memory; the first that holds a NaN or infinity, or -1.

        -1 also where looking would cost another pass over memory: the mix shows it, too.
        """

    def board(self, width: int) -> Board:
        """Where members tell each other `width` numbers: called with one's own, it gives back who reads everybody's.

        They are read once something that all members take part in was mixed, and before the next mix begins.
        """

    def absent(self) -> list[int]:
        """The members that this one waits for, as far as the fabric shows it; read by another thread."""

    def close(self) -> None:
        """Nothing more will be asked for."""

    def end(self) -> None:
        """All members have closed it: what was made for it, process groups and their threads, is given back."""
