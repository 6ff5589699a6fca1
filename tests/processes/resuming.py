"""A script of workers: trains, goes on from an earlier checkpoint in new sessions, and leaves what came of both."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
from collections.abc import Callable
from dataclasses import replace
from itertools import count
from pathlib import Path
from time import sleep

import msgspec
import torch
import torch.distributed as dist
from torch import Tensor, nn

from gossamer.engine.job import TrainJob
from gossamer.engine.training import Training
from gossamer.tasks import Batch, Task
from gossamer.tasks.task import classified

STEPS, EVERY = 12, 5
_calls = count(1)


def dropping(seed: int = 0) -> Task:
    """A tiny model that draws at random and keeps running statistics."""
    torch.manual_seed(seed)
    inputs = torch.randn(200, 6)
    data = (inputs, (inputs[:, 0] + inputs[:, 1] > 0).long())
    model = nn.Sequential(nn.Linear(6, 7), nn.BatchNorm1d(7), nn.ReLU(), nn.Dropout(0.2), nn.Linear(7, 2))
    return Task(model, data, data, classified)


def mortal(seed: int = 0) -> Task:
    """The same; at the step that DIES says ("7 worker", "7 launcher"), counted from the start of the process."""
    task, (at, who) = dropping(seed), os.environ.get("DIES", "0 nobody").split()

    def loss(model: Callable[..., Tensor], batch: Batch) -> tuple[Tensor, int, dict[str, Tensor]]:
        if torch.is_grad_enabled() and next(_calls) == int(at) and os.environ.get("RANK") == "1":
            os.kill(os.getpid() if who == "worker" else os.getppid(), signal.SIGKILL)
            sleep(60)  # the launcher's end is ours, too
        return classified(model, batch)

    return replace(task, loss=loss)


def job(folder: Path, **settings: object) -> TrainJob:
    """A short run."""
    said = {
        "folder": str(folder), "strategy": "allreduce", "task": "tests.processes.resuming:dropping", "options": {},
        "optimizer": "sgd", "rate": 0.05, "momentum": 0.0, "decay": 0.0, "batch": 4, "steps": STEPS, "seed": 3,
        "workers": 2, "evaluate_every": 4, "save_every": EVERY, "keep": 9, **settings,
    }  # fmt: skip
    return msgspec.convert(said, TrainJob)


def sealed(folder: Path) -> dict[str, dict[str, str]]:
    """What the manifests say of the files, by checkpoint."""
    found = {}
    for manifest in folder.glob("step-*/manifest.json"):
        files = json.loads(manifest.read_text())["files"]
        found[manifest.parent.name] = {name: note["sha256"] for name, note in files.items()}
    return found


def play(name: str, settings: dict[str, object], home: Path) -> None:
    """Train to the end; then throw all but the first checkpoint away and train to the end again."""
    folder = home / name
    kept = folder / "checkpoints"
    Training(job(folder, **settings)).run()
    if dist.get_rank() == 0:
        (folder / "first.json").write_text(json.dumps(sealed(kept)))
        for each in kept.glob("step-*"):
            if each.name != f"step-{EVERY}":
                shutil.rmtree(each)
    dist.barrier()
    Training(job(folder, **settings, resume=str(kept))).run()
    dist.barrier()
    if dist.get_rank() == 0:
        (folder / "second.json").write_text(json.dumps(sealed(kept)))


def main() -> None:
    """`resuming.py FOLDER`, with the cases in cases.json there."""
    home = Path(sys.argv[1])
    for name, settings in json.loads((home / "cases.json").read_text()).items():
        play(name, settings, home)


if __name__ == "__main__":
    main()
