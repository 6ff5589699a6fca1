"""A worker of benchmarks/links.py: one replica of the MLP that trains on its share of MNIST and leaves snapshots.

What it does stands in the file that LINKS names. It trains in an ordinary loop, with gossamer, with torch's DDP, or
alone beside a hivemind averager; the last runs in a python of its own, so gossamer is imported only where it is used.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import torch
from models import MODELS
from torch import Tensor, nn

MEAN, DEVIATION = 0.1307, 0.3081  # of MNIST's pixels
HALF = "half"  # hivemind's averager sends 16-bit floats


def pictures(raw: Tensor) -> Tensor:
    """Rows of numbers around 0 from pixels of 0 to 255."""
    return raw.float().div_(255.0).sub_(MEAN).div_(DEVIATION)


class Trainer:
    """A model with its optimizer and its share of the data; `ended` is called after each step, `over` at the end."""

    def __init__(self, asked: dict[str, Any], rank: int, size: int) -> None:
        self.asked, self.rank, self.size = asked, rank, size
        torch.manual_seed(asked["seed"])
        self.model, _, _ = MODELS["mlp"]()
        self.computed: nn.Module = self.model
        rate, momentum = asked["rate"], asked["momentum"]
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=rate, momentum=momentum)
        images, labels = (np.load(Path(asked["folder"]) / f"{part}.npy", mmap_mode="r") for part in ("x", "y"))
        order = np.random.default_rng(asked["seed"]).permutation(len(labels))[rank::size]
        self.inputs, self.labels = torch.from_numpy(images[order]), torch.from_numpy(labels[order])
        self.ended: Callable[[int], None] = lambda step: None
        self.over: Callable[[], dict[str, Any]] = dict

    def step(self, number: int) -> None:
        """An ordinary step on the next batch."""
        batch = self.asked["batch"]
        start = number * batch % (len(self.labels) - batch)
        inputs, labels = self.inputs[start : start + batch], self.labels[start : start + batch]
        self.optimizer.zero_grad()
        nn.functional.cross_entropy(self.computed(pictures(inputs)), labels).backward()
        self.optimizer.step()
        self.ended(number)


def with_gossamer(trainer: Trainer) -> None:
    """What the user's own loop becomes by one line; what its steps recorded is told in the end."""
    import gossamer
    from gossamer.engine.loop.prepare import session_of

    gossamer.prepare(trainer.model, trainer.optimizer, strategy=trainer.asked["strategy"], seed=trainer.asked["seed"])
    session = session_of(trainer.model)
    told = Counter[str]()

    def watch(_: Any, record: Any) -> None:
        told.update({name: sum(getattr(record, name).values()) for name in ("sent", "heard", "crossed")})
        told.update(record.spans)

    def over() -> dict[str, Any]:
        session.close()
        return {**told, "hub": any(ex.hub for ex in session.courses[0].strands[0].stepper.exchanges)}

    session.watches.append(watch)
    trainer.over = over


def with_ddp(trainer: Trainer) -> None:
    """The same loop with torch's own wrapper."""
    import torch.distributed as dist

    dist.init_process_group("gloo", timeout=timedelta(minutes=10))
    trainer.computed = nn.parallel.DistributedDataParallel(trainer.model)
    trainer.over = lambda: dist.destroy_process_group() or {}


def with_hivemind(trainer: Trainer) -> None:
    """Steps alone; every so often the averager takes a copy along, in the background, and what it moved is added."""
    import hivemind
    from hivemind import compression
    from hivemind.averaging import DecentralizedAverager

    every, written = int(trainer.asked["every"]), trainer.asked["strategy"]
    met = Path(trainer.asked["folder"]) / "met.json"
    while trainer.rank and not met.exists():
        time.sleep(0.05)
    first = json.loads(met.read_text()) if trainer.rank else None
    maddrs = [f"/ip4/{os.environ['LINKS_ADDRESS']}/tcp/0"]
    dht = hivemind.DHT(initial_peers=first, host_maddrs=maddrs, startup_timeout=120.0, start=True)
    if not trainer.rank:
        whole(met, [str(address) for address in dht.get_visible_maddrs()])
    parameters = list(trainer.model.parameters())
    copies = [p.detach().clone() for p in parameters]
    form = compression.Float16Compression() if written == HALF else compression.NoCompression()
    averager = DecentralizedAverager(
        copies, dht, start=True, prefix="links", target_group_size=trainer.size, min_group_size=trainer.size,
        min_matchmaking_time=1.0, request_timeout=0.5, compression=form, allow_state_sharing=False,
    )  # fmt: skip
    sent: list[Tensor] = []
    state: dict[str, Any] = {"under way": None, "rounds": 0, "failed": 0}

    def settle() -> None:
        if state["under way"].exception() is not None or state["under way"].result() is None:
            state["failed"] += 1
        else:
            state["rounds"] += 1
            with torch.no_grad(), averager.get_tensors() as averaged:
                for p, now, then in zip(parameters, averaged, sent, strict=True):
                    p.add_(now).sub_(then)
        state["under way"] = None

    def ended(number: int) -> None:
        if state["under way"] is not None and state["under way"].done():
            settle()
        if (number + 1) % every == 0 and state["under way"] is None:
            with torch.no_grad(), averager.get_tensors() as mine:
                for copy, p in zip(mine, parameters, strict=True):
                    copy.copy_(p)
            sent[:] = [p.detach().clone() for p in parameters]
            state["under way"] = averager.step(wait=False, timeout=60.0)
            if trainer.asked["waits"]:
                state["under way"].result()
                settle()

    def over() -> dict[str, Any]:
        averager.shutdown()
        dht.shutdown()
        return {"rounds": state["rounds"], "failed": state["failed"]}

    trainer.ended, trainer.over = ended, over


def whole(path: Path, what: Any) -> None:
    """Write a file that nobody sees half of."""
    part = path.with_name(f"{path.name}.part.{os.getpid()}")
    part.write_text(json.dumps(what))
    part.rename(path)


def main() -> None:
    """Be ready, begin when all are, train, leave a snapshot every so many steps, and say when each step had ended."""
    torch.set_num_threads(1)
    asked = json.loads(Path(os.environ["LINKS"]).read_text())
    rank, size, folder = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"]), Path(asked["folder"])
    trainer = Trainer(asked, rank, size)
    {"ours": with_gossamer, "ddp": with_ddp, "hivemind": with_hivemind}[asked["kind"]](trainer)
    count = sum(p.numel() for p in trainer.model.parameters())
    shots = torch.from_file(asked["shots"][rank], shared=True, size=asked["most"] * count).view(-1, count)
    whole(folder / f"ready-{rank}.json", True)
    while not (folder / "go.json").exists():
        time.sleep(0.01)
    began = json.loads((folder / "go.json").read_text())
    time.sleep(max(0.0, began - time.monotonic()))
    laps: list[float] = []
    for step in range(asked["steps"]):
        trainer.step(step)
        laps.append(time.monotonic() - began)
        shot, rest = divmod(step + 1 - asked["first"], asked["apart"])
        if rest == 0 and 0 <= shot < asked["most"]:
            with torch.no_grad():
                torch.cat([p.view(-1) for p in trainer.model.parameters()], out=shots[shot])
    whole(folder / f"done-{rank}.json", laps)
    while not (folder / "all.json").exists():  # the links are read before anybody says goodbye
        time.sleep(0.01)
    whole(folder / f"said-{rank}.json", trainer.over())
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
