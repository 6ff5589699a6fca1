"""Where all members meet beside the steps of a session: whoever its quorum has left behind must get there, too.

Rounds close without those that have come so far: else who is behind waits for them, and they for it, for ever.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from weakref import WeakSet, ref

if TYPE_CHECKING:
    from gossamer.engine.loop.session import Session

_open: WeakSet[Session] = WeakSet()
_turn: list[ref[Session]] = []  # the session in which this member has exchanged last


def opened(session: Session) -> None:
    """From now on others may wait for this member in it."""
    _open.add(session)


def ended(session: Session) -> None:
    """Nobody waits for this member in it any more."""
    _open.discard(session)


def come() -> None:
    """This member comes where all meet: in no session anybody waits for it, until it pushes there again."""
    for session in _open:
        _leave_alone(session)


def turn_to(session: Session) -> None:
    """This member exchanges in a session, where others may meet it: in the one before nobody waits for it."""
    before = _turn[0]() if _turn else None
    if before is not session:
        _turn[:] = [ref(session)]
        if before is not None and before in _open:
            _leave_alone(before)


def _leave_alone(session: Session) -> None:
    for strand in [strand for course in session.courses for strand in course.strands]:
        strand.stepper.meet()
