"""The torch fabric: collectives and neighbour exchanges over torch.distributed. Knows no strategy."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import Tensor

from gossamer.engine import routes
from gossamer.parts.codec import Each, Heard, Max, Mean, Wire
from gossamer.parts.route import Route, counted
from gossamer.replica import combine


@dataclass(frozen=True)
class Key:
    """What a message is about."""

    slot: int
    step: int
    turn: int

    @property
    def tag(self) -> int:
        """The number torch.distributed matches sends and receives by."""
        return (self.slot & 0x7F) << 24 | (self.step & 0xFFFFF) << 4 | (self.turn & 0xF)


@dataclass
class Pending:
    """A mix under way; `wait` ends it and says what was heard."""

    wait: Callable[[], Heard]


class Fabric:
    """One member's hold on the default process group; counts the bytes of every buffer it hands over."""

    def __init__(self) -> None:
        self.member, self.size = dist.get_rank(), dist.get_world_size()
        self.sent: Counter[int] = Counter()  # bytes by slot, since whoever records them last took them
        self.heard: Counter[int] = Counter()

    def everyone(self, key: Key, wire: Wire, route: Route) -> Pending:
        """Begin a mix of all members' wires."""
        match wire:
            case Mean(body):
                return self._mean(key, body, route)
            case Max(body):
                return self._reduce(key, body.clone(), dist.ReduceOp.MAX, route)
            case Each():
                self.sent[key.slot] += wire.body.nbytes * (self.size - 1)
                return Pending(lambda: self._each(key, wire))

    def neighbours(self, key: Key, wire: Wire, weights: Mapping[int, float], listeners: tuple[int, ...]) -> Pending:
        """Begin an exchange with neighbours: my wire to all listeners, theirs to me.

        Each wires may differ in length, so their lengths go ahead of them; the others are of one size.
        """
        body = wire.body.contiguous()
        works = [work for listener in listeners for work in self._put(key, body, listener, isinstance(wire, Each))]
        self.sent[key.slot] += body.nbytes * len(listeners)

        def wait() -> Heard:
            heard: list[tuple[float, Wire]] = []
            for sender in sorted(weights):
                if sender == self.member:
                    heard.append((weights[sender], wire))
                    continue
                theirs = self._get(key, body, sender, isinstance(wire, Each))
                self.heard[key.slot] += theirs.nbytes
                heard.append((weights[sender], type(wire)(theirs)))
            for work in works:
                assert work is not None
                work.wait()
            return combine(heard)

        return Pending(wait)

    def _put(self, key: Key, body: Tensor, listener: int, varies: bool) -> list[dist.Work | None]:
        """Begin to send a body, its length ahead of it where that varies; an empty one needs no more than that."""
        ahead = [torch.tensor([body.numel()], device=body.device)] if varies else []
        parts = [*ahead, *([body] if body.numel() or not varies else [])]
        return [dist.isend(part, listener, tag=key.tag) for part in parts]

    def _get(self, key: Key, like: Tensor, sender: int, varies: bool) -> Tensor:
        """A body as `_put` sends it, of the kind of `like` and, where that does not vary, of its length."""
        count = torch.tensor([like.numel()], device=like.device)
        if varies:
            dist.recv(count, sender, tag=key.tag)
        theirs = like.new_empty(int(count))
        if theirs.numel() or not varies:
            dist.recv(theirs, sender, tag=key.tag)
        return theirs

    def _mean(self, key: Key, body: Tensor, route: Route) -> Pending:
        mine = body * (1.0 / self.size)
        if route.native:
            return self._reduce(key, mine, dist.ReduceOp.SUM, route)

        def wait() -> Heard:
            sent, heard = routes.run(route, mine, self.member, self.size, key.tag)
            self.sent[key.slot] += sent
            self.heard[key.slot] += heard
            return Heard(whole=mine)

        return Pending(wait)

    def _reduce(self, key: Key, mine: Tensor, how: dist.ReduceOp.RedOpType, route: Route) -> Pending:
        """The backend's own all-reduce; it does not tell its bytes, so they are counted as those of the ring."""
        work = dist.all_reduce(mine, how, async_op=True)
        sent, heard = counted(route, self.member, self.size, mine.numel())
        self.sent[key.slot] += sent * mine.element_size()

        def wait() -> Heard:
            assert work is not None
            work.wait()
            self.heard[key.slot] += heard * mine.element_size()
            return Heard(whole=mine)

        return Pending(wait)

    def _each(self, key: Key, wire: Wire) -> Heard:
        """Hear every member's bytes, which may differ in number from member to member."""
        body = wire.body.contiguous()
        mine = torch.tensor([body.numel()], device=body.device)
        counts = [torch.zeros_like(mine) for _ in range(self.size)]
        dist.all_gather(counts, mine)
        parts = self._gathered(key, body, [int(count) for count in counts])
        self.heard[key.slot] += sum(part.nbytes for member, part in enumerate(parts) if member != self.member)
        return Heard(apart=tuple((1.0 / self.size, part) for part in parts))

    def _gathered(self, key: Key, body: Tensor, counts: list[int]) -> list[Tensor]:
        """Everybody's bodies: gathered at once where they are of one length, else sent one by one, none filled up."""
        if len(set(counts)) == 1:
            parts = [torch.empty_like(body) for _ in counts]
            if body.numel():
                dist.all_gather(parts, body)
            return parts
        others = [member for member in range(self.size) if member != self.member]
        works = [dist.isend(body, other, tag=key.tag) for other in others if body.numel()]
        parts = [body if member == self.member else body.new_empty(count) for member, count in enumerate(counts)]
        for other in others:
            if counts[other]:
                dist.recv(parts[other], other, tag=key.tag)
        for work in works:
            assert work is not None
            work.wait()
        return parts
