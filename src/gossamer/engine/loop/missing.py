"""What a member that waits in vain does about it: it says who is missing, in which exchange and step, and goes on."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

from gossamer.engine.loop.place import Place

if TYPE_CHECKING:
    from gossamer.engine.loop.session import Session


class Missing:
    """Called by lanes whenever another alarm's time was waited."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self.session: Session | None = None
        self._since = time.monotonic()

    def __call__(self, who: list[int], bucket: int, phase: str) -> None:
        step = self.session.courses[0].step if self.session else 0
        print(
            f"gossamer: rank {self.place.member} waits for {who} in step {step} ({phase})", file=sys.stderr, flush=True
        )
