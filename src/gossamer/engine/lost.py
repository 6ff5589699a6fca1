"""Somebody else is gone: what a member raises when it can only say that. Knows no fabric."""

from __future__ import annotations

from collections.abc import Sequence


class MemberLost(RuntimeError):
    """Members that an exchange waited for have ended or never came; why, they know themselves."""

    secondary = True  # a launcher looks for another's traceback before it shows this one
    last = False  # whether it ends the process, in whatever thread it is raised

    def __init__(
        self, reason: str, members: Sequence[int] = (), exchange: str | None = None, step: int | None = None
    ) -> None:
        super().__init__(reason)
        self.members = tuple(members)
        self.exchange = exchange
        self.step = step
