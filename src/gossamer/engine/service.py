"""What a member does for others while it trains: it shows itself, keeps an inbox, trades, and plays its hubs.

Main threads ask on one process group and hear on another; a serving thread listens on the first and speaks on the
second, so the two never stand in each other's way. Nothing but tensors of numbers travels.
"""

from __future__ import annotations

import threading
from collections import deque

import torch
import torch.distributed as dist
from torch import Tensor

from gossamer.engine.lines import (
    ANSWER,
    ASK,
    BYE,
    DTYPES,
    HEADER,
    HEAR,
    PULL,
    REST,
    TAKEN,
    TELL,
    TRADE,
    WIRES,
    Lines,
    head,
)
from gossamer.parts.codec import Wire
from gossamer.records import Note
from gossamer.replica import Answer, Hub, Replica


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

    def rest(self, slot: int, owner: int) -> None:
        """This member goes where all meet: the hub of a slot, which lives with `owner`, must not wait for it."""
        if self.member == owner:
            self._rest(self.member, slot)
        else:
            dist.send(head(REST, slot), owner, self.lines.asks, ASK)

    def close(self) -> None:
        """Say goodbye to all others and serve them until they do."""
        self._part(self.member)
        for other in range(self.size):
            if other != self.member:
                dist.send(head(BYE), other, self.lines.asks, ASK)
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
                elif kind == REST:
                    self._rest(sender, int(header[1]))
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

    def _rest(self, member: int, slot: int) -> None:
        with self.lock:
            self._deliver(slot, self.hubs[slot].rest(member))

    def _give(self, asker: int, slot: int) -> None:
        with self.lock:
            shown = self._replica.shown(slot).clone()
            self.visits.send(slot, shown.nbytes)
            self._say(asker, head(ANSWER, slot, shown.nbytes, self.done), shown)

    def _keep(self, sender: int, header: Tensor) -> None:
        """Somebody lays its parameters, as they were at its step, into the inbox."""
        slot, step = int(header[1]), int(header[2])
        told = self._heard(sender, slot)
        with self.lock:
            self._replica.lay_in(slot, told)
            self.visits.hear(slot, told.nbytes)
            self.visits.aged(self.done - step)
            if self._acknowledge:
                self._say(sender, head(TAKEN, slot), None)

    def _trade(self, sender: int, header: Tensor) -> None:
        """Become the mean of oneself and the sender, and hand back what one was."""
        slot = int(header[1])
        told = self._heard(sender, slot)
        with self.lock:
            mine = self._replica.trade(slot, told)
            self.visits.hear(slot, told.nbytes)
            self.visits.send(slot, mine.nbytes)
            self._say(sender, head(ANSWER, slot, mine.nbytes, self.done), mine)

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
                self._say(sender, head(TAKEN, slot), None)
            self._deliver(slot, answers)

    def _deliver(self, slot: int, answers: list[tuple[int, Answer]]) -> None:
        """Hand answers out, under the lock, so that they leave in the order the hub gave them."""
        for member, answer in answers:
            if member == self.member:
                self._mine.setdefault(slot, deque()).append(answer)
                self._news.notify_all()
            else:
                numbers = (answer.values.nbytes, answer.version, answer.staleness, int(answer.dropped))
                self._say(member, head(ANSWER, slot, *numbers), answer.values)

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
