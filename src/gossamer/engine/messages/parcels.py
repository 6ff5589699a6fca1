"""Pieces put together into messages, in memory that is used again. Knows no socket."""

from __future__ import annotations

import sys
from dataclasses import dataclass

import torch

from gossamer.engine.lines import DTYPES, Said
from gossamer.engine.messages.frame import NO_BODY, Head

KEPT = 8  # bodies whose memory is kept for later ones
UNUSED = 2  # references to memory that only the shelf knows: its list, and the argument that asks


class Shelf:
    """Memory for bodies; what nobody holds any more is lent again, so a run in its stride allocates nothing."""

    def __init__(self) -> None:
        self._kept: list[bytearray] = []

    def take(self, nbytes: int) -> bytearray:
        """Memory of just this many bytes; its holder keeps it by holding a tensor made of it."""
        for place in range(len(self._kept)):
            if len(self._kept[place]) == nbytes and sys.getrefcount(self._kept[place]) == UNUSED:
                self._kept.append(self._kept.pop(place))
                return self._kept[-1]
        new = bytearray(nbytes)
        self._kept = [*self._kept[-(KEPT - 1) :], new]
        return new


@dataclass
class _Parcel:
    serial: int
    memory: bytearray
    filled: int = 0


class Parcels:
    """What has come so far, by sender; each sends one message after the other, and its pieces in order."""

    def __init__(self) -> None:
        self._shelf = Shelf()
        self._open: dict[int, _Parcel] = {}

    def room(self, head: Head) -> memoryview | None:
        """Where the piece after this header goes; None if it does not follow what came before."""
        if head.offset == 0:
            self._open[head.sender] = _Parcel(head.serial, self._shelf.take(head.length))
        parcel = self._open.get(head.sender)
        if parcel is None or (parcel.serial, parcel.filled, len(parcel.memory)) != (
            head.serial,
            head.offset,
            head.length,
        ):
            self.drop(head.sender)
            return None
        return memoryview(parcel.memory)[head.offset : head.offset + head.piece]

    def filled(self, head: Head) -> Said | None:
        """The piece is there: the message, if it was the last."""
        parcel = self._open[head.sender]
        parcel.filled += head.piece
        if parcel.filled < head.length:
            return None
        del self._open[head.sender]
        body = None
        if head.dtype != NO_BODY:
            dtype = DTYPES[head.dtype]
            body = torch.frombuffer(parcel.memory, dtype=dtype) if head.length else torch.empty(0, dtype=dtype)
        return Said(head.sender, head.kind, head.slot, head.numbers, body)

    def drop(self, sender: int) -> None:
        """Forget what a sender has begun."""
        self._open.pop(sender, None)
