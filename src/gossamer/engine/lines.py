"""What members' threads say to one another: the words, and what any carrier of them promises. It carries nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Protocol

import torch
from torch import Tensor

from gossamer.parts.codec import Each, Max, Mean

PULL, TELL, TRADE, PUSH, BYE, TAKEN, ANSWER, REST, LAY, SHOW, SHOWN, RATES, STATE, GO_ON = KINDS = range(14)
REPLIES = (TAKEN, ANSWER, SHOWN)
LOST = 14  # the carrier's own word: a member is gone; between carriers, that they hear each other no more
GOT = 15  # between carriers only: so many asks of yours were taken up
WIRES: tuple[type[Mean] | type[Max] | type[Each], ...] = (Mean, Max, Each)
DTYPES = (
    torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.float8_e4m3fn, torch.float8_e5m2,
    torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.bool,
)  # fmt: skip
FOR_EVER = timedelta(days=365)
Numbers = tuple[int, int, int, int]


@dataclass(frozen=True)
class Said:
    """One message as it was heard; its kind says what the numbers mean."""

    sender: int
    kind: int
    slot: int = 0
    numbers: Numbers = (0, 0, 0, 0)
    body: Tensor | None = None
    why: str = ""  # in words, for LOST


class Lines(Protocol):
    """Between one member and all others: asks one way, replies the other. Bodies are flat and in the host's memory.

    One thread asks and hears; another waits for what is asked. Replies may come from either, one at a time. A member
    that is gone is MemberLost for who asks it or hears it, and LOST for who serves, where the carrier can tell.
    """

    name: str | None  # None where torch carries them, as it does all else
    survives: bool  # whether the death of one member is only its own
    member: int
    size: int  # of members and servers
    servers: Sequence[int]  # who keeps hubs and does nothing else; they come after all members

    def far(self, member: int) -> bool:
        """Whether a member is on another host, as far as the carrier knows hosts."""

    def gone(self, member: int) -> bool:
        """Whether a member has died or said goodbye, as far as is known."""

    def serve(self, unheard: int) -> None:
        """A service begins, which never has more than `unheard` replies to one member under way."""

    def ask(self, member: int, kind: int, slot: int = 0, *numbers: int, body: Tensor | None = None) -> None:
        """Say something to a member's service; on return the body is the caller's again."""

    def heard(self, member: int) -> Said:
        """The next reply of a member; waits."""

    def asked(self) -> Said:
        """The next thing that anybody asks; waits."""

    def reply(self, member: int, kind: int, slot: int = 0, *numbers: int, body: Tensor | None = None) -> None:
        """Begin to answer; never waits, so the body must stay as it is."""

    def rest(self) -> None:
        """The service is over: wait until all replies have left."""

    def close(self) -> None:
        """Nobody asks or hears any more."""

    def end(self) -> None:
        """All members have closed: what was made for these lines is given back."""


def padded(numbers: tuple[int, ...]) -> Numbers:
    """Four numbers: those given, then zeros."""
    first, second, third, fourth = (*numbers, *[0] * (4 - len(numbers)))
    return first, second, third, fourth


def number_of(dtype: torch.dtype) -> int:
    """What stands for a type of number in a header."""
    if dtype not in DTYPES:
        known = ", ".join(str(one).removeprefix("torch.") for one in DTYPES)
        raise TypeError(f"a wire of {dtype} cannot travel to another member; those that can are {known}")
    return DTYPES.index(dtype)
