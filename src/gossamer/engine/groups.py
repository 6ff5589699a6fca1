"""Process groups that a session makes and that end with it. Knows not what travels in them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any, cast

import torch.distributed as dist


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

    def close(self) -> None:
        """Nobody uses them any more; once is enough."""
        while self._made:
            group = self._made.pop()
            if dist.is_initialized():
                dist.destroy_process_group(group)
