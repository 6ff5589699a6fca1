"""Spans for whoever draws a run: of its first members, and of whom those wait for, which is known only afterwards.

Times nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING, Any

from gossamer.sim.scene import Span

if TYPE_CHECKING:
    from numpy import ndarray

    Array = ndarray[Any, Any]
    Act = tuple[str, Array, Array, Array | None]

DRAWN = 64  # members that are drawn whatever happens


class Together:
    """What all members did, act by act; kept for as long as somebody may still wait for it."""

    def __init__(self, spans: list[Span]) -> None:
        self._spans = spans
        self._acts: dict[int, list[Act]] = {}
        self._awaited: dict[int, set[int]] = {}  # by step, who was waited for, and is not drawn yet
        self._laid: set[tuple[int, int]] = set()

    def did(self, step: int, what: str, start: Array, stop: Array) -> None:
        """All members did something, from when to when each."""
        self._acts.setdefault(step, []).append((what, start, stop, None))

    def waited(self, step: int, sent: int, start: Array, stop: Array, whom: Array) -> None:
        """All members waited, each for what another did in the step in which it sent."""
        self._acts.setdefault(step, []).append(("wait for member", start, stop, whom))
        late = (stop > start)[:DRAWN]
        self._awaited.setdefault(sent, set()).update(whom[:DRAWN][late].tolist())

    def end(self, step: int, pending: Collection[int]) -> None:
        """A step is over; what was sent in these steps is still waited for."""
        self._lay(step, range(min(DRAWN, len(self._acts[step][0][1]))))
        for sent, members in self._awaited.items():
            self._lay(sent, sorted(members))
        self._awaited.clear()
        self._acts = {kept: acts for kept, acts in self._acts.items() if kept in pending}

    def _lay(self, step: int, members: Iterable[int]) -> None:
        new = [member for member in members if (member, step) not in self._laid]
        self._laid.update((member, step) for member in new)
        for what, start, stop, whom in self._acts.get(step, ()):
            for member in (each for each in new if stop[each] > start[each]):
                other = None if whom is None else int(whom[member])
                said = what if other is None else f"{what} {other:,}"
                self._spans.append(Span(member, step, said, float(start[member]), float(stop[member]), other))


class Apart:
    """What each member did by itself; what others than the first did is kept until the end."""

    def __init__(self, spans: list[Span]) -> None:
        self._spans = spans
        self._others: dict[tuple[int, int], list[Span]] = {}
        self._awaited: set[tuple[int, int]] = set()

    def did(self, span: Span) -> None:
        """A member, or the links, did something."""
        kept = self._spans if span.member < DRAWN else self._others.setdefault((span.member, span.step), [])
        kept.append(span)

    def waited(self, span: Span, sent: int) -> None:
        """A member waited for what another did in a step."""
        self.did(span)
        if span.member < DRAWN and span.whom is not None:
            self._awaited.add((span.whom, sent))

    def end(self) -> None:
        """Nothing more is done: who was waited for is drawn, too."""
        for key in sorted(self._awaited):
            self._spans += self._others.get(key, ())
