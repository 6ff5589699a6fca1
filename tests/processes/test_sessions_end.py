"""A session that is closed gives back what was made for it: a process may open any number of them."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import torch
from tests.processes.pool import Member, everywhere
from torch import nn
from torch.utils.data import DataLoader, SubsetRandomSampler, TensorDataset

import gossamer
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


class Trainee:
    """A model that is trained in a session of its own; the last member is left behind for as long as that can be."""

    def __init__(self, member: Member, strategy: str) -> None:
        self.member, self.steps = member, 0
        self.model = nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2))
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)
        rows = TensorDataset(torch.ones(3 * member.size, 3))
        loader = DataLoader(rows, batch_size=3, sampler=SubsetRandomSampler(range(len(rows))))
        *_, self.loader = member.prepare(self.model, self.optimizer, loader, strategy=strategy)

    def step(self) -> None:
        """One step of this member."""
        self.optimizer.zero_grad()
        self.model(torch.ones(4, 3)).sum().backward()
        self.optimizer.step()

    def race(self) -> None:
        """Two steps, of which the last member begins its first when the others have made both."""
        store, first = session_of(self.model).place.store, range(self.member.size - 1)
        if self.member.rank not in first:
            store.wait([f"raced/{self.steps}/{other}" for other in first])
        for _ in range(2):
            self.step()
        store.set(f"raced/{self.steps}/{self.member.rank}", "")
        self.steps += 2


@everywhere((3,))
def test_who_is_left_behind_gets_to_wherever_all_meet(member: Member) -> None:
    late = Trainee(member, "backup_workers")
    late.race()
    other = Trainee(member, "allreduce")
    late.race()
    other.step()  # all wait for all, in another session
    late.race()
    with gossamer.averaged(other.model):
        pass
    late.race()
    iter(late.loader)  # member 0 tells its sampler's order
    for _ in range(2):
        late.race()
        gossamer.load(Path("nowhere"), late.model, late.optimizer, start=True)
    late.race()
    late.model(torch.ones(4, 3))
    gossamer.weight(4)
    late.race()
    with gossamer.fresh_statistics(late.model, [torch.ones(4, 3)]):
        pass
    late.race()
    session_of(other.model).close()
