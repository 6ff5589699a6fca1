"""The line to a hub in a rehearsal: pushes that travel, the hub that takes them, answers that travel back."""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Sequence
from dataclasses import dataclass, field

from gossamer.parts.codec import Wire
from gossamer.replica import Answer, Hub
from gossamer.sim import prices
from gossamer.sim.links import Links

Pushing = Generator[Wire, Answer, None]


@dataclass(frozen=True)
class Reply:
    """An answer on its way: when it arrives, and how long both ways took on a free line."""

    time: float
    transfer: float
    answer: Answer


@dataclass
class Line:
    """One hub, an end of its own on the links, and what is under way to it and from it."""

    name: str
    hub: Hub
    links: Links
    _coming: dict[tuple[int, int], tuple[int, Wire]] = field(default_factory=dict)
    _pushing: dict[int, deque[Pushing]] = field(default_factory=dict)
    _pushed: dict[int, deque[int]] = field(default_factory=dict)  # bytes of each push that waits for its answer
    _replies: dict[int, deque[Reply]] = field(default_factory=dict)

    def push(self, member: int, step: int, round: int, pushing: Pushing, now: float) -> tuple[float, int]:
        """A push leaves: when it reaches the hub, and its bytes."""
        wire = next(pushing)
        self._coming[member, step] = (round, wire)
        self._pushing.setdefault(member, deque()).append(pushing)
        self._pushed.setdefault(member, deque()).append(wire.body.nbytes)
        return self.links.carry(member, self.name, wire.body.nbytes, now), wire.body.nbytes

    def arrive(self, member: int, step: int, now: float) -> list[int]:
        """The push has reached the hub: the members whose answers it sets free."""
        round, wire = self._coming.pop((member, step))
        return self.answered(self.hub.push(member, round, wire), now)

    def answered(self, answers: Sequence[tuple[int, Answer]], now: float) -> list[int]:
        """Answers leave the hub for these members."""
        for member, answer in answers:
            nbytes, machines = answer.values.nbytes, self.links.machines
            time = self.links.carry(self.name, member, nbytes, now)
            there = prices.message(machines, self._pushed[member].popleft())
            transfer = there.seconds + prices.message(machines, nbytes).seconds
            self._replies.setdefault(member, deque()).append(Reply(time, transfer, answer))
        return [member for member, _ in answers]

    def reply(self, member: int) -> Reply | None:
        """The next answer to this member, if it is on its way."""
        replies = self._replies.get(member)
        return replies.popleft() if replies else None

    def pushing(self, member: int) -> Pushing:
        """The member's earliest push that waits for its answer."""
        return self._pushing[member].popleft()

    def unheard(self) -> list[tuple[int, int]]:
        """Pushes (member, step) that have not reached the hub."""
        return list(self._coming)
