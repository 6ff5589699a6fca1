"""The rounds of a hub: who is in, when a round closes, and whom it sets free. Knows no values, no network, no clock."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from gossamer.parts.synchrony import Late
from gossamer.parts.world import World
from gossamer.strategy.exchange import Exchange


@dataclass(slots=True)
class Contribution:
    """What a member said about a round, and waits to be answered; `staleness` in versions of the hub."""

    member: int
    round: int
    staleness: int
    dropped: bool


@dataclass
class Rounds:
    """A round closes when everybody alive is in, or as many as the quorum asks for; `close` is told who, and must not
    come back before what they said is counted in."""

    exchange: Exchange
    world: World
    close: Callable[[list[Contribution]], None]
    holding: bool = False  # answers are held back: several pushes come in the same moment
    said: list[Contribution] = field(default_factory=list)  # for rounds that are open, in order of arrival
    waiting: list[Contribution] = field(default_factory=list)
    resting: set[int] = field(default_factory=set)  # those that have met oftener than others, and pushed nothing since
    met: Counter[int] = field(default_factory=Counter)  # by member, how often it came where all meet

    def __post_init__(self) -> None:
        sync = self.exchange.synchrony
        self._quorum = None if sync.quorum is None else sync.closes(self.world.size)
        self._drops, self._bound = sync.late is Late.DROP, sync.staleness
        self._fresh: list[Contribution] = []  # of those that wait, who has not been looked at
        self._looked: tuple[int, int] | None = None  # version and fewest pushes when all were looked at
        self.count(0, 0, dict.fromkeys(range(self.world.size), 0))

    def count(self, version: int, dropped: int, pushes: dict[int, int]) -> None:
        """Go on from these counts: rounds closed, contributions dropped, and by member how often it has spoken."""
        self.version, self.dropped, self.pushes = version, dropped, pushes
        self._tally = Counter(pushes.values())
        self._least, self._looked = min(self._tally, default=0), None

    def told(self, member: int, round: int) -> Contribution | None:
        """A member speaks about a round: None if it has left meanwhile. It counts once `settle` is called."""
        if member not in self.pushes:
            return None
        late = self._drops and round < self.version
        fresh = Contribution(member, round, max(0, self.version - round), late)
        self._counted(member)
        self.resting.discard(member)
        self.waiting.append(fresh)
        self._fresh.append(fresh)
        if late:
            self.dropped += 1
        else:
            self.said.append(fresh)
        return fresh

    def settle(self) -> None:
        """Close rounds as long as enough is there; what was said about a later round waits for it."""
        least = len(self.pushes) if self._quorum is None else min(self._quorum, len(self.pushes) - len(self.resting))
        while self.said and len(self.said) >= least:
            now = [each for each in self.said if each.round <= self.version]
            if not now or len(now) < least or (self._quorum is None and not self._everybody(now)):
                break
            self.said = [each for each in self.said if each.round > self.version] if len(now) < len(self.said) else []
            self.close(sorted(now, key=lambda each: each.member) if len(now) > 1 else now)
            self.version += 1

    def free(self) -> list[Contribution]:
        """Who is answered now: the slowest first, so that nobody hears that it caught up before it has."""
        if self.holding:
            return []
        now = (self.version, self._least)
        asked, self._fresh = (self._fresh if now == self._looked else self.waiting), []
        self._looked = now
        ready = asked if self._bound is None else [each for each in asked if self._may_go(each)]
        if len(ready) == len(self.waiting):
            self.waiting = []
        elif ready:
            gone = {id(each) for each in ready}
            self.waiting = [each for each in self.waiting if id(each) not in gone]
        return sorted(ready, key=lambda each: self.pushes[each.member]) if len(ready) > 1 else ready

    def leave(self, member: int) -> None:
        """A member is gone: nobody waits for it any longer."""
        self.pushes.pop(member, None)
        self.count(self.version, self.dropped, self.pushes)
        self.waiting = [each for each in self.waiting if each.member != member]
        self.resting.discard(member)
        self._wake()

    def rest(self, member: int) -> None:
        """A member goes where all members meet: rounds close without it until it pushes again, or all have come as
        often; what it says of that may be heard after others have met once more."""
        self.met[member] += 1
        self.resting.add(member)
        self._wake()

    def _wake(self) -> None:
        least = min((self.met[member] for member in self.pushes), default=0)
        self.resting = {member for member in self.resting if self.met[member] > least}
        self.settle()

    def _counted(self, member: int) -> None:
        count = self.pushes[member]
        self.pushes[member] = count + 1
        self._tally[count] -= 1
        self._tally[count + 1] += 1
        if count == self._least and not self._tally[count]:
            self._least += 1

    def _may_go(self, each: Contribution) -> bool:
        if self._bound is None:
            return True
        if self._bound == 0 and self._drops:  # its round is closed, with it or without it
            return self.version > each.round
        return self.pushes.get(each.member, 0) - self._least <= self._bound

    def _everybody(self, now: list[Contribution]) -> bool:
        return self.pushes.keys() <= {each.member for each in now}
