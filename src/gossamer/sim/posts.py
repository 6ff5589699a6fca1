"""What members have sent and others wait for: a tray for each exchange of a step. Knows no clock and no links."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from gossamer.parts.topology import Everyone, Mixing, Neighbours

Key = tuple[int, int]  # slot, and the step it was sent at


@dataclass
class Tray:
    """When each member has sent, what is on its way to each (when it began to leave and has left, from whom), when a
    mix of all is over, and who waits meanwhile."""

    posted: dict[int, float] = field(default_factory=dict)
    coming: dict[int, list[tuple[float, float, int]]] = field(default_factory=dict)
    over: float = 0.0
    parked: set[int] = field(default_factory=set)
    taken: int = 0

    def woken(self, members: Iterable[int]) -> list[int]:
        """Those of them that wait: they may look again."""
        found = [member for member in members if member in self.parked] if self.parked else []
        self.parked.difference_update(found)
        return found


class Posts:
    """Trays, each until everybody has taken what it heard."""

    def __init__(self, size: int) -> None:
        self._size, self._trays = size, dict[Key, Tray]()

    def tray(self, key: Key) -> Tray:
        """The tray of an exchange."""
        return self._trays.setdefault(key, Tray())

    def complete(self, key: Key, mixing: Mixing) -> bool:
        """Whether all have sent whom this mixing hears."""
        posted = self.tray(key).posted
        if isinstance(mixing, Everyone):
            return len(posted) == self._size
        assert isinstance(mixing, Neighbours)
        return all(other in posted for other in mixing.weights)

    def latest(self, key: Key, mixing: Mixing) -> tuple[int, float]:
        """Who sent last of those that are heard, and when."""
        posted = self.tray(key).posted
        others = mixing.weights if isinstance(mixing, Neighbours) else posted
        return max(((other, posted[other]) for other in others), key=lambda each: each[1])

    def take(self, key: Key) -> None:
        """A member has heard all it waited for; the last one clears the tray."""
        tray = self.tray(key)
        tray.taken += 1
        if tray.taken == self._size:
            self._trays.pop(key)
