"""The direct all-reduce: two waves of messages, each straight to where it is needed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import repeat

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
