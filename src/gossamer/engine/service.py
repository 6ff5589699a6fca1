"""What a member does for others while it trains: it shows itself, keeps an inbox, trades, and plays its hubs.

Main threads ask on one process group and hear on another; a serving thread listens on the first and speaks on the
second, so the two never stand in each other's way. Nothing but tensors of numbers travels.
"""

from __future__ import annotations

import threading
from collections import deque
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import Tensor

from gossamer.parts.codec import Each, Max, Mean, Wire
from gossamer.records import Note
from gossamer.replica import Answer, Hub, Replica

PULL, TELL, TRADE, PUSH, BYE, TAKEN, ANSWER = range(7)
WIRES: tuple[type[Mean] | type[Max] | type[Each], ...] = (Mean, Max, Each)
DTYPES = (
    torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.float8_e4m3fn, torch.float8_e5m2,
    torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.bool,
)  # fmt: skip
ASK, HEAR = 1, 2  # tags of headers; a body follows its header under the next number
HEADER = 8


@dataclass(frozen=True)
class Lines:
    """Process groups beside the default one, so that no thread stands in another's way.

    Services ask and reply over gloo, which can hear from anyone; mixes that a carrier performs use the default backend.
    """

    asks: dist.ProcessGroup
    replies: dist.ProcessGroup
    mixes: dist.ProcessGroup


class Service:
    """One member's counter: a thread that serves until every other member has said goodbye."""

    def __init__(self, lines: Lines, hubs: dict[int, Hub], replica: Replica, *, acknowledge: bool) -> None:
        self.lines, self.hubs, self._replica, self._acknowledge = lines, hubs, replica, acknowledge
        self.member, self.size = dist.get_rank(), dist.get_world_size()
        self.lock = threading.Lock()
        self.visits = Note()  # bytes that others made this member send and hear
        self.done = 0  # steps this member has completed, told to whoever pulls
        self._mine: dict[int, deque[Answer]] = {}
        self._news = threading.Condition(self.lock)
        self._leaving: dict[int, deque[tuple[dist.Work | None, Tensor]]] = {}
        delays = [hub.exchange.synchrony.delay for hub in hubs.values()]
        self._unheard = 3 * (max(delays, default=0) + 2) * max(1, len(hubs))
        self._trouble: BaseException | None = None
        self._thread = threading.Thread(target=self._serve, name="gossamer-service", daemon=True)
        self._thread.start()

    def push(self, slot: int, round: int, wire: Wire) -> None:
        """The member's own push to a hub that lives with it."""
        with self.lock:
            self._deliver(slot, self.hubs[slot].push(self.member, round, wire))

    def answer(self, slot: int, timeout: float) -> Answer:
        """The answer to the member's own push, when it is due."""
        with self._news:
            if not self._news.wait_for(lambda: self._trouble is not None or bool(self._mine.get(slot)), timeout):
                raise TimeoutError(f"the hub of slot {slot}, which lives with member {self.member}, has not answered")
            if self._trouble is not None:
                raise self._trouble
            return self._mine[slot].popleft()

    def close(self) -> None:
        """Say goodbye to all others and serve them until they do."""
        self._part(self.member)
        for other in range(self.size):
            if other != self.member:
                dist.send(_header(BYE), other, self.lines.asks, ASK)
        self._thread.join()
        for said in self._leaving.values():
            for work, _ in said:
                assert work is not None
                work.wait()
        if self._trouble is not None:
            raise self._trouble

    def _serve(self) -> None:
        goodbyes = 0
        try:
            while goodbyes < self.size - 1:
                header = torch.empty(HEADER, dtype=torch.int64)
                sender = dist.recv(header, None, self.lines.asks, ASK)
                kind = int(header[0])
                if kind == BYE:
                    goodbyes += 1
                    self._part(sender)
                elif kind == PULL:
                    self._give(sender, int(header[1]))
                elif kind == TELL:
                    self._keep(sender, header)
                elif kind == TRADE:
                    self._trade(sender, header)
                else:
                    self._take(sender, header)
        except BaseException as error:  # the main thread must hear of it, whatever it is
            with self._news:
                self._trouble = error
                self._news.notify_all()

    def _part(self, member: int) -> None:
        """A member is done: rounds close without it. In a scripted order it only has no more turns."""
        with self.lock:
            for slot, hub in self.hubs.items() if not self._acknowledge else ():
                self._deliver(slot, hub.leave(member))

    def _give(self, asker: int, slot: int) -> None:
        with self.lock:
            shown = self._replica.shown(slot).clone()
            self.visits.send(slot, shown.nbytes)
            self._say(asker, _header(ANSWER, slot, shown.nbytes, self.done), shown)

    def _keep(self, sender: int, header: Tensor) -> None:
        """Somebody lays its parameters, as they were at its step, into the inbox."""
        slot, step = int(header[1]), int(header[2])
        told = self._heard(sender, slot)
        with self.lock:
            self._replica.lay_in(slot, told)
            self.visits.hear(slot, told.nbytes)
            self.visits.aged(self.done - step)
            if self._acknowledge:
                self._say(sender, _header(TAKEN, slot), None)

    def _trade(self, sender: int, header: Tensor) -> None:
        """Become the mean of oneself and the sender, and hand back what one was."""
        slot = int(header[1])
        told = self._heard(sender, slot)
        with self.lock:
            mine = self._replica.trade(slot, told)
            self.visits.hear(slot, told.nbytes)
            self.visits.send(slot, mine.nbytes)
            self._say(sender, _header(ANSWER, slot, mine.nbytes, self.done), mine)

    def _heard(self, sender: int, slot: int) -> Tensor:
        """The parameters that follow a header; all members' are alike in size and dtype."""
        like = self._replica.shown(slot)
        body = torch.empty(like.numel(), dtype=like.dtype)
        dist.recv(body, sender, self.lines.asks, ASK + 16)
        return body.to(like.device)

    def _take(self, sender: int, header: Tensor) -> None:
        _, slot, round, length, kind, dtype, _, _ = (int(number) for number in header)
        body = torch.empty(length, dtype=DTYPES[dtype])
        dist.recv(body, sender, self.lines.asks, ASK + 16)
        with self.lock:
            hub = self.hubs[slot]
            answers = hub.push(sender, round, WIRES[kind](body.to(hub.centre.device)))
            if self._acknowledge:
                self._say(sender, _header(TAKEN, slot), None)
            self._deliver(slot, answers)

    def _deliver(self, slot: int, answers: list[tuple[int, Answer]]) -> None:
        """Hand answers out, under the lock, so that they leave in the order the hub gave them."""
        for member, answer in answers:
            if member == self.member:
                self._mine.setdefault(slot, deque()).append(answer)
                self._news.notify_all()
            else:
                numbers = (answer.values.nbytes, answer.version, answer.staleness, int(answer.dropped))
                self._say(member, _header(ANSWER, slot, *numbers), answer.values)

    def _say(self, member: int, header: Tensor, body: Tensor | None) -> None:
        """Begin to send; nobody waits here, since whom we speak to may itself be waiting for us elsewhere."""
        said = self._leaving.setdefault(member, deque())
        said.append((dist.isend(header, member, self.lines.replies, HEAR), header))
        if body is not None:
            body = body.contiguous().cpu()
            said.append((dist.isend(body, member, self.lines.replies, HEAR + 16), body))
        while (
            len(said) > self._unheard
        ):  # what lies further back has been heard, or its hearer would not have asked again
            work, _ = said.popleft()
            assert work is not None
            work.wait()


class Counter:
    """The other side: how a member asks another one's service."""

    def __init__(self, lines: Lines, *, acknowledged: bool) -> None:
        self._lines, self._acknowledged = lines, acknowledged
        self._answers: dict[tuple[int, int], deque[tuple[Tensor, Tensor]]] = {}

    def pull(self, owner: int, slot: int, like: Tensor) -> tuple[Tensor, int]:
        """Another member's parameters as they are right now, and how many steps it has completed."""
        dist.send(_header(PULL, slot), owner, self._lines.asks, ASK)
        header, values = self._hear(owner, slot, like)
        return values, int(header[3])

    def tell(self, target: int, slot: int, step: int, mine: Tensor) -> None:
        """Lay one's parameters into another member's inbox."""
        dist.send(_header(TELL, slot, step), target, self._lines.asks, ASK)
        dist.send(mine.contiguous().cpu(), target, self._lines.asks, ASK + 16)
        if self._acknowledged:
            while not self._next(target, mine):
                pass

    def trade(self, partner: int, slot: int, mine: Tensor) -> tuple[Tensor, int]:
        """Make another member the mean of both: what it was before, and how many steps it has completed."""
        dist.send(_header(TRADE, slot), partner, self._lines.asks, ASK)
        dist.send(mine.contiguous().cpu(), partner, self._lines.asks, ASK + 16)
        header, values = self._hear(partner, slot, mine)
        return values, int(header[3])

    def push(self, owner: int, slot: int, round: int, wire: Wire, like: Tensor) -> None:
        """Tell a hub; its answer comes when it is due."""
        body = wire.body.contiguous().cpu()
        kind, dtype = WIRES.index(type(wire)), _number(body.dtype)
        dist.send(_header(PUSH, slot, round, body.numel(), kind, dtype), owner, self._lines.asks, ASK)
        dist.send(body, owner, self._lines.asks, ASK + 16)
        if self._acknowledged:
            while not self._next(owner, like):
                pass

    def answer(self, owner: int, slot: int, like: Tensor) -> Answer:
        """What the hub said to the earliest push that it has not yet answered."""
        header, values = self._hear(owner, slot, like)
        return Answer(values, int(header[3]), int(header[4]), bool(header[5]))

    def _hear(self, owner: int, slot: int, like: Tensor) -> tuple[Tensor, Tensor]:
        key = (owner, slot)
        while not self._answers.get(key):
            self._next(owner, like)
        return self._answers[key].popleft()

    def _next(self, owner: int, like: Tensor) -> bool:
        """Hear one message; True if it says that a push was taken."""
        header = torch.empty(HEADER, dtype=torch.int64)
        dist.recv(header, owner, self._lines.replies, HEAR)
        if int(header[0]) == TAKEN:
            return True
        values = torch.empty(int(header[2]) // like.element_size(), dtype=like.dtype)
        dist.recv(values, owner, self._lines.replies, HEAR + 16)
        self._answers.setdefault((owner, int(header[1])), deque()).append((header, values.to(like.device)))
        return False


def _number(dtype: torch.dtype) -> int:
    """What stands for a type of number in a header."""
    if dtype not in DTYPES:
        known = ", ".join(str(one).removeprefix("torch.") for one in DTYPES)
        raise TypeError(f"a wire of {dtype} cannot travel to a hub; those that can are {known}")
    return DTYPES.index(dtype)


def _header(*numbers: int) -> Tensor:
    return torch.tensor([*numbers, *[0] * (HEADER - len(numbers))], dtype=torch.int64)
