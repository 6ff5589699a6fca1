"""A task and a script that go wrong on one rank in the way they are told to, for tests of how runs end.

    faulty.py FOLDER HOW RANK [STRATEGY]

Every rank says in FOLDER which process it is and, later, that it has done a few steps.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from gossamer.tasks.task import Batch, Task, classified

AT = 4  # the step in which it goes wrong


class Fault:
    """What one rank does in step AT; the others only say how far they are."""

    def __init__(self, folder: str, how: str, who: int) -> None:
        self.folder, self.how, self.who, self.steps = Path(folder), how, who, 0
        self.rank = int(os.environ.get("RANK", "-1"))

    def __call__(self) -> None:
        """A step begins."""
        if self.rank < 0:  # the launcher tries the task, too
            return
        if self.steps == 0:
            self.say("pid", str(os.getpid()))
        if self.steps == AT:
            self.say("far")
            if self.rank == self.who:
                self.go_wrong()
        self.steps += 1

    def say(self, what: str, text: str = "") -> None:
        """Leave a file that is whole from the beginning."""
        (self.folder / f"new-{self.rank}").write_text(text)
        (self.folder / f"new-{self.rank}").rename(self.folder / f"{what}-{self.rank}")

    def go_wrong(self) -> None:
        """As told."""
        match self.how:
            case "raises":
                raise ValueError("the numbers of this rank\nwent wrong")
            case "dies":
                os.kill(os.getpid(), signal.SIGKILL)
            case "stops":
                os.kill(os.getpid(), signal.SIGSTOP)
            case "sleeps":
                never_come()
            case "leaves":
                sys.exit(0)


def never_come() -> None:
    """What a member does that nobody sees again."""
    time.sleep(600)


def task(seed: int = 0, folder: str = "", how: str = "", who: int = -1) -> Task:
    """A small one."""
    inputs, labels = torch.randn(240, 20, generator=torch.Generator().manual_seed(1)), torch.arange(240) % 4
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = nn.Sequential(nn.Linear(20, 300), nn.ReLU(), nn.Linear(300, 4))
    fault = Fault(folder, how, who)

    def loss(model: Callable[..., Tensor], batch: Batch) -> tuple[Tensor, int, dict[str, Tensor]]:
        if torch.is_grad_enabled():
            fault()
        return classified(model, batch)

    return Task(model, (inputs, labels), (inputs, labels), loss)


def main() -> None:
    """A user's loop without an end."""
    import gossamer

    hasten(float(os.environ.get("HASTE", "1")))
    torch.set_num_threads(1)
    fault = Fault(sys.argv[1], sys.argv[2], int(sys.argv[3]))
    print(f"rank {fault.rank} begins", "and says so", sep=" ... ")
    if fault.how == "made before":  # the process group: so all have met, and one does not come to prepare
        torch.distributed.init_process_group("gloo")
    if fault.how in ("prepares", "made before") and fault.rank == fault.who:
        never_come()
    if fault.how in ("starts alike", "is stopped there") and fault.rank == fault.who:
        stay(fault.how)
    made = task()
    optimizer = torch.optim.SGD(made.model.parameters(), lr=0.01)
    data = TensorDataset(*made.train)
    strategy = sys.argv[4] if len(sys.argv) > 4 else "allreduce"
    model, optimizer, loader = gossamer.prepare(
        made.model, optimizer, DataLoader(data, batch_size=12), strategy=strategy
    )
    while True:
        for inputs, labels in loader:
            fault()
            nn.functional.cross_entropy(model(inputs), labels).backward()
            optimizer.step()
            optimizer.zero_grad()
            if fault.how == "averages" and fault.steps == AT + 1:
                average(model, fault)


def stay(how: str) -> None:
    """Go no further than to the first parameters, or stop as a fabric is made."""
    from gossamer.engine.loop import carried, opening

    if how == "starts alike":
        opening._start_alike = lambda *given: never_come()
    else:
        carried.fabrics = lambda *given: [lambda: os.kill(os.getpid(), signal.SIGSTOP)]  # type: ignore[list-item]


def average(model: nn.Module, fault: Fault) -> None:
    """The others look at the average of all."""
    import gossamer

    if fault.rank == fault.who:
        never_come()
    with gossamer.averaged(model):
        pass


def hasten(times: float) -> None:
    """Lose patience so many times sooner."""
    from gossamer.engine import watch
    from gossamer.engine.loop import lookout, roll

    for module, name in ((watch, "SOONEST"), (lookout, "EVERY"), (lookout, "LONG"), (roll, "EVERY")):
        setattr(module, name, getattr(module, name) / times)


if __name__ == "__main__":
    main()
