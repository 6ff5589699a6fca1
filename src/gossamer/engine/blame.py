"""Who is gone, and who only misses somebody: members that fail tell a store whom they waited for. Knows no exchange."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress

from torch.distributed.distributed_c10d import Store

MOMENT, NAP = 0.5, 0.01  # seconds in which somebody that only misses another will have said so, and between two looks


class Blame:
    """One member's word on whom it lost; it fails once."""

    def __init__(self, store: Store, about: str, member: int) -> None:
        # a store that one thread waits at answers no other: so a connection of its own
        self._store: Store = store.clone()  # type: ignore[attr-defined]
        self._about, self._member = about, member

    def behind(self, member: int) -> int:
        """The member at the end of the line: this one lost `member`, which may have lost another before, and so on.

        Who says nothing is the one. If all in a circle wait for each other, it is the one this member waited for.
        """
        self.mark(member)
        last, seen = member, {self._member}
        while last not in seen:
            seen.add(last)
            told = self._told(last)
            if told is None:
                return last
            last = told
        return member

    def mark(self, member: int) -> None:
        """Say that this member has lost another; itself stands for somebody it does not know."""
        with suppress(RuntimeError):  # a store that is gone tells nothing
            self._store.set(self._key(self._member), str(member))

    def said(self, members: Sequence[int]) -> dict[int, int | None]:
        """Whom each of them has lost, as far as they say so within a moment."""
        return {member: self._told(member) for member in members}

    def _told(self, member: int) -> int | None:
        """Whom a member has lost, if it says so within a moment."""
        until = time.monotonic() + MOMENT
        with suppress(RuntimeError):
            while not self._store.check([self._key(member)]):
                if time.monotonic() > until:
                    return None
                time.sleep(NAP)
            return int(self._store.get(self._key(member)))
        return None

    def _key(self, member: int) -> str:
        return f"lost/{self._about}/{member}"
