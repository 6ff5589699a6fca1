"""Asks and replies over gloo: process groups beside the default one, so that no thread stands in another's way."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

import torch
import torch.distributed as dist
from torch import Tensor

from gossamer.engine.lines import DTYPES, Said, number_of, padded

ASK, HEAR = 1, 2  # tags of headers
BODY = 16  # added to the tag of a header for the body that follows it
HEADER = 8  # kind, slot, four numbers, type of the body, its length


class OverGloo:
    """Main threads ask on one process group and hear on another; serving threads the other way round.

    Nothing but tensors of numbers travels. The death of one member is an error for all that have a line to it.
    """

    name: str | None = None
    survives = False
    servers: Sequence[int] = ()

    def __init__(self, asks: dist.ProcessGroup, replies: dist.ProcessGroup) -> None:
        self.member, self.size = dist.get_rank(), dist.get_world_size()
        self._asks, self._replies, self._unheard = asks, replies, 0
        self._leaving: dict[int, deque[tuple[dist.Work | None, Tensor]]] = {}

    def far(self, member: int) -> bool:
        """It knows no hosts."""
        return False

    def gone(self, member: int) -> bool:
        """Nobody knows: the death of one is an error for all."""
        return False

    def serve(self, unheard: int) -> None:
        """A service begins, which never has more than `unheard` replies to one member under way."""
        self._unheard = 2 * unheard

    def ask(self, member: int, kind: int, slot: int = 0, *numbers: int, body: Tensor | None = None) -> None:
        """Say something to a member's service; on return the body is the caller's again."""
        dist.send(_head(kind, slot, numbers, body), member, self._asks, ASK)
        if body is not None:
            dist.send(body, member, self._asks, ASK + BODY)

    def heard(self, member: int) -> Said:
        """The next reply of a member; waits."""
        return _receive(member, self._replies, HEAR)

    def asked(self) -> Said:
        """The next thing that anybody asks; waits."""
        return _receive(None, self._asks, ASK)

    def reply(self, member: int, kind: int, slot: int = 0, *numbers: int, body: Tensor | None = None) -> None:
        """Begin to send; nobody waits here, since whom we speak to may itself be waiting for us elsewhere."""
        said, header = self._leaving.setdefault(member, deque()), _head(kind, slot, numbers, body)
        said.append((dist.isend(header, member, self._replies, HEAR), header))
        if body is not None:
            said.append((dist.isend(body, member, self._replies, HEAR + BODY), body))
        while len(said) > self._unheard:  # what lies further back was heard, or its hearer would not have asked again
            _wait(said)

    def rest(self) -> None:
        """The service is over: wait until all replies have left."""
        for said in self._leaving.values():
            while said:
                _wait(said)

    def close(self) -> None:
        """Nothing more is said; others may not be as far, so the process groups last."""

    def end(self) -> None:
        """Let go of the process groups; they end with whoever made them."""
        del self._asks, self._replies


def _wait(said: deque[tuple[dist.Work | None, Tensor]]) -> None:
    work, _ = said.popleft()
    assert work is not None
    work.wait()


def _head(kind: int, slot: int, numbers: tuple[int, ...], body: Tensor | None) -> Tensor:
    last = (0, -1) if body is None else (number_of(body.dtype), body.numel())
    return torch.tensor([kind, slot, *padded(numbers), *last], dtype=torch.int64)


def _receive(member: int | None, group: dist.ProcessGroup, tag: int) -> Said:
    header = torch.empty(HEADER, dtype=torch.int64)
    sender = dist.recv(header, member, group, tag)
    kind, slot, *numbers, dtype, length = header.tolist()
    body = None
    if length >= 0:
        body = torch.empty(length, dtype=DTYPES[dtype])
        dist.recv(body, sender, group, tag + BODY)
    return Said(sender, kind, slot, padded(tuple(numbers)), body)
