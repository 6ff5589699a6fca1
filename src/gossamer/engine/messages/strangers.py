"""Who was turned away: named once for each reason, in one line. Knows no socket."""

from __future__ import annotations

import sys

WHY = {
    "unknown key": "does not hold a key of this job, and is not let in",
    "another job": "speaks of another job, and is not heard",
    "another generation": "speaks of another attempt at this job, and is not heard",
    "another version": "speaks another version of the messages, and is not heard; install the same gossamer everywhere",
}
MOST = 16  # that are named; whoever knocks at every door from everywhere does not fill the screen


class Strangers:
    """The names and reasons that were told."""

    def __init__(self) -> None:
        self._told: set[tuple[str, str]] = set()

    def turned_away(self, who: str, reason: str) -> None:
        """Tell it, the first time, where the reason says that it comes from elsewhere."""
        if reason not in WHY or (who, reason) in self._told or len(self._told) >= MOST:
            return
        self._told.add((who, reason))
        print(f"gossamer: messages: {who} {WHY[reason]}", file=sys.stderr, flush=True)
