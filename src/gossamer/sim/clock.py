"""Virtual time: members are generators that sleep, park and take turns; nothing here knows what they do.

A member yields a time to sleep until, PARK to wait until woken, or TURN where a scripted order may hold it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Sequence
from contextlib import AbstractContextManager, nullcontext
from heapq import heappop, heappush
from itertools import count

from gossamer.parts.refusal import Refused


class _Sign:
    """A yield that is not a time."""


PARK, TURN = _Sign(), _Sign()
Life = Generator["float | _Sign", None, None]
Order = Sequence[int | tuple[int, ...]]  # whose turn it is, one after the other or some in the same moment


class Clock:
    """Runs lives in virtual time; ties are broken by who came first, so the same run happens twice."""

    def __init__(self, lives: Sequence[Life]) -> None:
        self.now = 0.0
        self.parked: set[int] = set()
        self._lives = lives
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._tick = count()

    def call(self, time: float, action: Callable[[], None]) -> None:
        """Do `action` when the clock reaches `time`."""
        heappush(self._events, (time, next(self._tick), action))

    def wake(self, member: int) -> None:
        """Let a parked member look again, now."""
        if member in self.parked:
            self.parked.discard(member)
            self.call(self.now, lambda: self._advance(member))

    def run(self, over: Callable[[], bool]) -> None:
        """Play until `over()` or until nobody can move."""
        for member in range(len(self._lives)):
            self.call(0.0, lambda member=member: self._advance(member))  # type: ignore[misc]
        while self._events and not over():
            self.now, _, action = heappop(self._events)
            action()

    def _advance(self, member: int) -> None:
        for sign in self._lives[member]:
            if sign is TURN:
                continue
            if sign is PARK:
                self.parked.add(member)
            else:
                assert isinstance(sign, float)
                self.call(sign, lambda: self._advance(member))
            return


class Turns:
    """No time at all: members move one after the other in a scripted order."""

    def __init__(self, lives: Sequence[Life]) -> None:
        self.now = 0.0
        self.parked: set[int] = set()
        self._lives = lives
        self._awake: deque[int] = deque()

    def call(self, time: float, action: Callable[[], None]) -> None:
        """Without time, everything happens at once."""
        action()

    def wake(self, member: int) -> None:
        """Let a parked member look again before the next turn."""
        if member in self.parked:
            self.parked.discard(member)
            self._awake.append(member)

    def run(self, order: Order, at_once: Callable[[], AbstractContextManager[None]]) -> None:
        """Play the order through; each entry lets one member go on from the end of its Compute, or some at once."""
        for member in range(len(self._lives)):
            self._advance(member)
        for number, entry in enumerate(order):
            with nullcontext() if isinstance(entry, int) else at_once():
                for member in (entry,) if isinstance(entry, int) else entry:
                    if member in self.parked:
                        raise Refused(f"order: at entry {number} member {member} is still waiting for others")
                    self._advance(member)
            while self._awake:
                self._advance(self._awake.popleft())

    def _advance(self, member: int) -> None:
        for sign in self._lives[member]:
            if sign is TURN:
                return
            if sign is PARK:
                self.parked.add(member)
                return
