"""A session that is closed gives back what was made for it: a process may open any number of them."""

from __future__ import annotations

import os
import threading

import torch
from tests.processes.pool import Member, everywhere

from gossamer.engine.loop.prepare import session_of


def names() -> list[str]:
    """What the threads of this process are called, by themselves and by Python."""
    own = sorted(thread.name for thread in threading.enumerate())
    return own + sorted(open(f"/proc/self/task/{task}/comm").read().strip() for task in os.listdir("/proc/self/task"))


def threads() -> int:
    return len(os.listdir("/proc/self/task"))


@everywhere((3,), strategy=["allreduce", "downpour"])
def test_threads_end_with_their_session(member: Member, strategy: str) -> None:
    seen = []
    for _ in range(4):
        model = torch.nn.Linear(3, 2)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        member.prepare(model, optimizer, strategy=strategy)
        model(torch.ones(4, 3)).sum().backward()
        optimizer.step()
        session_of(model).close()
        seen.append(threads())
    assert seen[-1] <= seen[0], f"threads after each session: {seen}; {names()}"
