"""Process groups that a session makes and that end with it. Knows not what travels in them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any, cast

import torch.distributed as dist

FEW = timedelta(seconds=60)  # in which those that are left hear each other


class Groups:
    """All that were made here. Their connections end when nobody holds them any more: whoever does lets go first."""

    def __init__(self) -> None:
        self._made: list[dist.ProcessGroup] = []

    def make(
        self, ranks: Sequence[int] | None = None, timeout: timedelta | None = None, backend: str | None = None
    ) -> dist.ProcessGroup:
        """One more; all processes call it alike."""
        made: Any = dist.new_group(None if ranks is None else list(ranks), timeout, backend)
        if isinstance(made, dist.ProcessGroup):  # torch gives a number to those that are not in it
            self._made.append(made)
        return cast(dist.ProcessGroup, made)

    def among(self, ranks: Sequence[int]) -> dist.ProcessGroup:
        """One of some processes, which nobody else has to know of."""
        made: Any = dist.new_group(list(ranks), FEW, "gloo", use_local_synchronization=True)
        self._made.append(made)
        return cast(dist.ProcessGroup, made)

    def drop(self, group: dist.ProcessGroup) -> None:
        """One that is used no more, though others may think it is: its connections end now."""
        self._made = [made for made in self._made if made is not group]
        dist.destroy_process_group(group)

    def close(self) -> None:
        """Nobody uses them any more; once is enough."""
        while self._made:
            group = self._made.pop()
            if dist.is_initialized():
                dist.destroy_process_group(group)
