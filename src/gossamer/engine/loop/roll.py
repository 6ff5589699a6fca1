"""Who has come to where all members meet before the first step; those that stay away are named. Knows no exchange."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from torch.distributed.distributed_c10d import Store

from gossamer.engine.watch import Patience, named

EVERY = 1.0  # seconds between two looks


@contextmanager
def calling(store: Store, name: str, member: int, size: int) -> Iterator[None]:
    """While inside, where all others are waited for, say after 10 s of it who has not come, and again at times."""
    store.set(f"{name}/{member}", "here")
    over = threading.Event()
    # a store that one thread waits at answers no other: so a connection of its own
    mine = store.clone()  # type: ignore[attr-defined]
    given = (mine, name, member, size, over)
    threading.Thread(target=_call, args=given, name="gossamer-roll", daemon=True).start()
    try:
        yield
    finally:
        over.set()


def _call(store: Store, name: str, member: int, size: int, over: threading.Event) -> None:
    began, patience = time.monotonic(), Patience(lambda: 0.0)
    with suppress(RuntimeError):  # the store is gone: so is the run
        while not over.wait(EVERY):
            waited = time.monotonic() - began
            if not patience.due(waited + EVERY):
                continue
            here = [other for other in range(size) if store.check([f"{name}/{other}"])]
            absent = [other for other in range(size) if other not in here]
            if absent and here[0] == member and not over.is_set():
                said = f"member {member} has waited {waited:.0f} s: {named(absent)} not come to prepare"
                print(f"gossamer: {said}", file=sys.stderr, flush=True)
