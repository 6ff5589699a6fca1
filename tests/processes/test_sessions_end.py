"""A session that is over leaves no connection and no thread behind, on whatever fabric."""

from __future__ import annotations

import gc
import os
from contextlib import suppress
from pathlib import Path

from tests.processes.living import soon
from tests.processes.pool import Member, everywhere
from tests.processes.test_prepare_gradients import rows, sgd
from tests.processes.user import loss_of, net, share

STRATEGIES = ("allreduce", "allreduce(ring)", "gossip_pull")


def held() -> tuple[int, int]:
    """Sockets and threads of this process."""
    gc.collect()
    sockets = 0
    for file in Path("/proc/self/fd").iterdir():
        with suppress(OSError):
            sockets += os.readlink(file).startswith("socket:")
    return sockets, len(list(Path("/proc/self/task").iterdir()))


def train(member: Member, strategy: str) -> None:
    """A session from its beginning to its end."""
    model = net()
    optimizer = sgd(model)
    member.prepare(model, optimizer, strategy=strategy)
    for _ in range(2):
        loss_of(model, share(rows(8), member.rank, member.size)).backward()
        optimizer.step()
    member.sessions.pop().close()


@everywhere(strategy=STRATEGIES)
def test_nothing_is_held_after_the_end(member: Member, strategy: str) -> None:
    train(member, strategy)
    before = held()
    for _ in range(3):
        train(member, strategy)
    assert soon(lambda: all(now <= then for now, then in zip(held(), before, strict=True))), f"{before}, then {held()}"
