"""Means of members that have met, some of whom may be gone: over connections of their own. Carries nothing else."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import torch.distributed as dist
from torch.distributed import ProcessGroupGloo
from torch.distributed.distributed_c10d import PrefixStore, Store

from gossamer.engine.fabrics.fabric import Key, Pending
from gossamer.engine.lost import MemberLost
from gossamer.parts.codec import Heard, Mean
from gossamer.parts.route import Route

LONGEST = timedelta(seconds=30)  # in which those that have met connect, or hear a piece of an average


class Few:
    """One of `members`, all of whom make it alike, under a name that this store has not seen; nobody else has to.

    Whoever fails ends its connections, so that the others hear of it: each of them may wait for one that lives.
    """

    def __init__(self, store: Store, name: str, member: int, members: Sequence[int]) -> None:
        self.size, self._store, self._place = len(members), PrefixStore(name, store), list(members).index(member)
        self.sent: Counter[int] = Counter()
        self.heard: Counter[int] = Counter()
        self._group: ProcessGroupGloo | None = None
        self._ended = False

    def everyone(self, key: Key, wire: Mean, route: Route) -> Pending:
        """The mean of their wires."""
        whole = wire.body / self.size
        lies = whole if whole.device.type == "cpu" else whole.cpu()

        def wait() -> Heard:
            try:
                group: Any = self._connected()  # torch's own groups are made of such, and called alike
                dist.all_reduce(lies, group=group, async_op=True).wait()
            except RuntimeError as error:
                self.end()
                raise MemberLost(f"one more member is gone: {str(error).splitlines()[0]}") from error
            return Heard(whole=whole if lies is whole else whole.copy_(lies))

        return Pending(wait)

    def end(self) -> None:
        """Nobody hears of this member here any more."""
        self._group, self._ended = None, True

    def _connected(self) -> ProcessGroupGloo:
        if self._ended:
            raise MemberLost("an average of those that had met was broken off")
        if self._group is None:
            self._group = ProcessGroupGloo(self._store, self._place, self.size, LONGEST)
        return self._group
