"""How a refusal leaves a script that none of our launchers has started: one line, exit code 2, no traceback."""

from __future__ import annotations

import os
import sys
from types import TracebackType

from gossamer.parts.refusal import Refused

_on = False


def refusals_in_one_line() -> None:
    """From now on an uncaught `Refused` is one line; whoever types at a prompt stays there. Once is enough."""
    global _on
    if _on:
        return
    _on, before = True, sys.excepthook

    def leave(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        if not isinstance(error, Refused):
            before(kind, error, trace)
            return
        rank = f"rank {os.environ.get('RANK')}: " if int(os.environ.get("WORLD_SIZE", "1")) > 1 else ""
        aside = sys.__stderr__ or sys.stderr  # torch's own hook, around this one, keeps what is said on sys.stderr
        print(f"gossamer: {rank}{error}", file=aside, flush=True)
        if not (sys.flags.interactive or hasattr(sys, "ps1")):
            raise SystemExit(2)  # which python heeds here, and ends as always

    sys.excepthook = leave
