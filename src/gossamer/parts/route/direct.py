"""The direct all-reduce: two waves of messages, each straight to where it is needed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import repeat

from gossamer.parts.route.borders import Borders
from gossamer.parts.route.load import Flow, Load, Loads, busiest, mirrored_loads
from gossamer.parts.route.sharded import ShardedHub


@dataclass(frozen=True, repr=False)
class Direct(ShardedHub):
    """Everybody sends everybody its chunk at once, adds up what comes for its own, and sends the sum to all at once.

    The messages and bytes of a sharded hub, which serves one round after the other; here nobody waits for a turn, so
    only two start-ups pass one after the other, however many members there are. A member's link still carries all of
    its messages, 2(n-1) of n/p bytes. Elsewhere also called all-to-all or two-shot.
    """

    def starts(self, size: int) -> int:
        return 2 if size > 1 else 0

    def waves(self, size: int) -> Iterator[int]:
        return repeat(size - 1, self.starts(size))

    def loads(self, borders: Borders) -> Loads:
        """A host of w members lets w messages go for each of those elsewhere, and as many come."""
        size, others = borders.size, borders.size - 1
        flows = (Flow(wide * (size - wide), wide) for wide in borders.widths)
        return mirrored_loads([(Load(borders.widest - 1, busiest(flows), others, others), 1)] if others else [])
