"""What a member does for others while it trains: it shows itself, keeps an inbox, trades, and plays its hubs.

Main threads ask and hear; a serving thread is asked and replies. How that travels, the lines know.
"""

from __future__ import annotations

import sys
import threading
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress

from torch import Tensor

from gossamer.engine.counter import flat
from gossamer.engine.lines import ANSWER, BYE, LOST, PULL, PUSH, REST, TAKEN, TELL, TRADE, WIRES, Lines, Said
from gossamer.engine.lost import MemberLost
from gossamer.parts.codec import Wire
from gossamer.records import Note
from gossamer.replica import Answer, Hub, Replica


class Service:
    """One member's counter: a thread that serves until every other member has said goodbye.

    A server has no replica to show, and hears `others`: words that only servers hear.
    """

    def __init__(
        self,
        lines: Lines,
        hubs: dict[int, Hub],
        replica: Replica | None,
        *,
        acknowledge: bool,
        others: Mapping[int, Callable[[Said], None]] | None = None,
    ) -> None:
        self.lines, self.hubs, self._acknowledge, self._others = lines, hubs, acknowledge, others or {}
        self._shows = replica
        self.missed: Callable[[Said], None] = _aloud  # told of each member that is gone without a goodbye
        self.member, self._guests = lines.member, {*range(lines.size)} - {lines.member, *lines.servers}
        self.lock = threading.Lock()
        self.visits = Note()  # bytes that others made this member send and hear
        self.done = 0  # steps this member has completed, told to whoever pulls
        self._mine: dict[int, deque[Answer]] = {}
        self._news = threading.Condition(self.lock)
        delays = [hub.exchange.synchrony.delay for hub in hubs.values()]
        lines.serve(2 * (max(delays, default=0) + 2) * max(1, len(hubs)))
        self._trouble: BaseException | None = None
        self._thread = threading.Thread(target=self._serve, name="gossamer-service", daemon=True)

    def open(self) -> None:
        """Serve from now on."""
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
            self.lines.ask(owner, REST, slot)

    def attend(self, seconds: float | None = None) -> bool:
        """Serve until everybody has said goodbye, or for so long: whether they have."""
        self._thread.join(seconds)
        if self._trouble is not None:
            raise self._trouble
        return not self._thread.is_alive()

    def close(self) -> None:
        """Say goodbye to all others and serve them until they do."""
        self._part(self.member)
        for other in range(self.lines.size):
            if other != self.member:
                with suppress(MemberLost):
                    self.lines.ask(other, BYE)
        self.attend()
        self.lines.rest()

    def _serve(self) -> None:
        gone: set[int] = set()
        try:
            while not self._guests <= gone:
                said = self.lines.asked()
                if said.kind in (BYE, LOST):
                    if said.kind == LOST and said.sender not in gone:
                        self.missed(said)
                    gone.add(said.sender)
                    self._part(said.sender)
                else:
                    self._do(said)
        except BaseException as error:  # the main thread must hear of it, whatever it is
            with self._news:
                self._trouble = error
                self._news.notify_all()

    def _do(self, said: Said) -> None:
        if said.kind == REST:
            self._rest(said.sender, said.slot)
        elif said.kind == PULL:
            self._give(said.sender, said.slot)
        elif said.kind == TELL:
            self._keep(said)
        elif said.kind == TRADE:
            self._trade(said)
        elif said.kind == PUSH:
            self._take(said)
        elif said.kind in self._others:
            self._others[said.kind](said)

    def _part(self, member: int) -> None:
        """A member is done: rounds close without it. In a scripted order it only has no more turns."""
        with self.lock:
            for slot, hub in self.hubs.items() if not self._acknowledge else ():
                self._deliver(slot, hub.leave(member))

    def _rest(self, member: int, slot: int) -> None:
        with self.lock:
            self._deliver(slot, self.hubs[slot].rest(member))

    @property
    def _replica(self) -> Replica:
        assert self._shows is not None, "a server is asked for parameters of its own"
        return self._shows

    def _give(self, asker: int, slot: int) -> None:
        with self.lock:
            shown = self._replica.shown(slot).clone()
            self.visits.send(slot, shown.nbytes)
            self._cross(asker, slot, shown.nbytes)
            self._say(asker, ANSWER, slot, self.done, body=shown)

    def _keep(self, said: Said) -> None:
        """Somebody lays its parameters, as they were at its step, into the inbox."""
        told = self._told(said)
        with self.lock:
            self._replica.lay_in(said.slot, told)
            self.visits.hear(said.slot, told.nbytes)
            self.visits.aged(self.done - said.numbers[0])
            if self._acknowledge:
                self._say(said.sender, TAKEN, said.slot)

    def _trade(self, said: Said) -> None:
        """Become the mean of oneself and the sender, and hand back what one was."""
        told = self._told(said)
        with self.lock:
            mine = self._replica.trade(said.slot, told)
            self.visits.hear(said.slot, told.nbytes)
            self.visits.send(said.slot, mine.nbytes)
            self._cross(said.sender, said.slot, mine.nbytes)
            self._say(said.sender, ANSWER, said.slot, self.done, body=mine)

    def _told(self, said: Said) -> Tensor:
        """Another member's parameters."""
        assert said.body is not None
        return said.body.to(self._replica.shown(said.slot).device)

    def _take(self, said: Said) -> None:
        assert said.body is not None
        round, kind, *_ = said.numbers
        with self.lock:
            hub = self.hubs[said.slot]
            answers = hub.push(said.sender, round, WIRES[kind](said.body.to(hub.centre.device)))
            if self._acknowledge:
                self._say(said.sender, TAKEN, said.slot)
            self._deliver(said.slot, answers)

    def _deliver(self, slot: int, answers: list[tuple[int, Answer]]) -> None:
        """Hand answers out, under the lock, so that they leave in the order the hub gave them."""
        for member, answer in answers:
            if member == self.member:
                self._mine.setdefault(slot, deque()).append(answer)
                self._news.notify_all()
            else:
                numbers = (answer.version, answer.staleness, int(answer.dropped), int(answer.spoilt))
                self._cross(member, slot, answer.values.nbytes)
                self._say(member, ANSWER, slot, *numbers, body=answer.values)

    def _cross(self, member: int, slot: int, nbytes: int) -> None:
        """What goes to another host leaves this one."""
        if self.lines.far(member):
            self.visits.cross(slot, nbytes)

    def _say(self, member: int, kind: int, slot: int, *numbers: int, body: Tensor | None = None) -> None:
        """Begin to reply; who is gone hears nothing, and the service is told of it by itself."""
        with suppress(MemberLost):
            self.lines.reply(member, kind, slot, *numbers, body=None if body is None else flat(body))


def _aloud(said: Said) -> None:
    print(f"gossamer: {said.why}", file=sys.stderr, flush=True)
