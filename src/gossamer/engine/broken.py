"""Who is gone when torch only says that something broke: a collective waits for all, and its error names nobody.

Knows no mix. Those that fail leave a mark in the store; of the others, those that cannot say where they are, are gone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress

from torch.distributed.distributed_c10d import Store

from gossamer.engine.blame import Blame
from gossamer.engine.lost import MemberLost
from gossamer.engine.watch import away

ALL = "all"  # what marks of a session are about, whatever broke


class Broken:
    """One member's view of those it has collectives with, by their numbers in the run."""

    def __init__(self, store: Store, member: int, members: Sequence[int]) -> None:
        self._store, self._member = store, member
        self._others = [other for other in members if other != member]

    @contextmanager
    def named(self) -> Iterator[None]:
        """Whatever breaks inside is MemberLost, with whoever is gone."""
        try:
            yield
        except MemberLost:
            raise
        except RuntimeError as error:
            gone = self.gone()
            who = f"member{'s' * (len(gone) > 1)} {', '.join(map(str, gone))}" if gone else "somebody"
            why = str(error).splitlines()[0]
            raise MemberLost(f"{who} ended or fell silent in the middle of a mix: {why}", gone) from error

    def gone(self) -> list[int]:
        """Those that neither miss somebody themselves nor say where they are, and those whom others name."""
        try:
            blame = Blame(self._store, ALL, self._member)
            blame.mark(self._member)
            said = blame.said(self._others)
            found = {told for other, told in said.items() if told is not None and told not in (other, self._member)}
            found |= set(away(self._store, [each for each, told in said.items() if told is None and each not in found]))
        except RuntimeError:  # the store is gone, too
            return []
        if len(found) == 1:  # for those who miss this member
            blame.mark(*found)
        return sorted(found)


def tell(store: Store, member: int, gone: int) -> None:
    """Let those that miss this member know whom it missed itself."""
    with suppress(RuntimeError):
        Blame(store, ALL, member).mark(gone)
