"""Means of some members, where the others are gone: over a process group of their own. Carries nothing else."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import torch.distributed as dist

from gossamer.engine.fabrics.fabric import Key, Pending
from gossamer.engine.groups import Groups
from gossamer.engine.lost import MemberLost
from gossamer.parts.codec import Heard, Mean
from gossamer.parts.route import Route


class Few:
    """One of `members`, all of whom make it alike; nobody else has to."""

    def __init__(self, groups: Groups, members: Sequence[int]) -> None:
        self.size, self._group = len(members), groups.among(members)
        self.sent: Counter[int] = Counter()
        self.heard: Counter[int] = Counter()

    def everyone(self, key: Key, wire: Mean, route: Route) -> Pending:
        """The mean of their wires."""
        whole = wire.body / self.size
        work = dist.all_reduce(whole, group=self._group, async_op=True)

        def wait() -> Heard:
            try:
                work.wait()
            except RuntimeError as error:
                raise MemberLost(f"one more member is gone: {str(error).splitlines()[0]}") from error
            return Heard(whole=whole)

        return Pending(wait)
