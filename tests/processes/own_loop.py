"""A user's own loop that keeps checkpoints: run by workers once, or several times over in one start of them."""

from __future__ import annotations

import json
import os
import random
import resource
import shutil
import signal
import sys
from pathlib import Path
from typing import Any

import numpy
import torch
import torch.distributed as dist
from tests.processes.resuming import sealed
from torch import nn
from torch.optim.swa_utils import AveragedModel
from torch.utils.data import DataLoader, TensorDataset

import gossamer

STEPS, EVERY = 11, 4


def things(strategy: str, fabric: str, width: int = 7) -> list[Any]:
    """A model that draws at random, an optimizer, a loader with a short last batch, a scheduler, a running average."""
    torch.manual_seed(5), random.seed(5), numpy.random.seed(5)
    inputs = torch.randn(30, 6)
    data = TensorDataset(inputs, (inputs[:, 0] > 0).long())
    model = nn.Sequential(nn.Linear(6, width), nn.BatchNorm1d(width), nn.ReLU(), nn.Dropout(0.2), nn.Linear(width, 2))
    model[4].bias.requires_grad_(False)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    loader = DataLoader(data, batch_size=8, shuffle=True)
    average = AveragedModel(model)
    prepared = gossamer.prepare(model, optimizer, loader, strategy=strategy, fabric=fabric)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 3, 0.5)
    return [*prepared, scheduler, average]


def train(folder: Path, strategy: str, fabric: str, steps: int = STEPS, dies: int | None = None) -> list[Any]:
    """Start or go on, to the end; `dies`: rank 1 is killed after that step."""
    given = things(strategy, fabric)
    model, optimizer, loader, scheduler, average = given
    done = gossamer.load(folder, *given, start=True).step
    while done < steps:
        for inputs, labels in loader:
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(inputs), labels).backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            scheduler.step()
            average.update_parameters(model)
            done += 1
            if done % EVERY == 0 or done == steps:
                assert gossamer.save(folder, *given, extra={"seen": done}, keep=9) == folder / f"step-{done}"
            if done == dies and os.environ["RANK"] == "1":
                os.kill(os.getpid(), signal.SIGKILL)
            if done == steps:
                break
    return given


def twice(folder: Path, strategy: str, fabric: str) -> None:
    """To the end; then from the first checkpoint to the end again."""
    train(folder, strategy, fabric)
    if dist.get_rank() == 0:
        (folder / "first.json").write_text(json.dumps(sealed(folder)))
        for each in folder.glob("step-*"):
            if each.name != f"step-{EVERY}":
                shutil.rmtree(each)
    dist.barrier()
    train(folder, strategy, fabric)
    dist.barrier()
    if dist.get_rank() == 0:
        (folder / "second.json").write_text(json.dumps(sealed(folder)))


def full_disk(folder: Path) -> None:
    """Files may not grow beyond some bytes on the last rank: nothing is saved, training goes on, the next is saved."""
    given = things("allreduce", "auto")
    told = [gossamer.save(folder, *given, step=1) is not None]
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    for step, limit in ((2, 3000), (3, 3000), (4, before[0])):
        if dist.get_rank() == 1:
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, before[1]))
        told.append(gossamer.save(folder, *given, step=step) is not None)
    found = gossamer.load(folder, *given, step=1)
    (folder / f"told-{dist.get_rank()}.json").write_text(json.dumps([told, found.step]))


def refusals(folder: Path) -> None:
    """What is refused, by every rank in the same words."""
    given = things("allreduce", "auto")
    said = []
    for step in (1, 2):
        gossamer.save(folder, *given, step=step)
    dist.barrier()
    if dist.get_rank() == 0:
        file = folder / "step-2" / "model.safetensors"
        data = bytearray(file.read_bytes())
        data[-1] ^= 1
        file.write_bytes(data)
    dist.barrier()
    other, wider = things("local_sgd", "auto"), things("allreduce", "auto", width=8)
    tries = [(given, None), (given, 7), (other, 1), (wider, 1), (given[:3], 1)]
    for each, step in tries:
        try:
            gossamer.load(folder, *each, step=step)
        except gossamer.Refused as refused:
            said.append(str(refused))
    assert gossamer.load(folder, *given, step=1).step == 1
    given[0](torch.randn(2, 6)).sum().backward()
    try:
        gossamer.save(folder, *given)
    except gossamer.Refused as refused:
        said.append(str(refused))
    given[1].step()
    (folder / f"said-{dist.get_rank()}.json").write_text(json.dumps(said))


def grown(folder: Path) -> None:
    """One worker's checkpoint, found in one.json's place, is where two go on from."""
    given = things("allreduce", "auto")
    found = gossamer.load(folder.parent / "one", *given)
    model, optimizer = given[:2]
    state = {name: tensor.tolist() for name, tensor in model.state_dict().items()}
    remembered = [optimizer.state[p]["exp_avg"].tolist() for p in model.parameters() if p.requires_grad]
    told = [found.step, found.extra, state, remembered, given[2].state(), optimizer.param_groups[0]["lr"]]
    (folder / f"grown-{dist.get_rank()}.json").write_text(json.dumps(told))


def exactly(folder: Path) -> None:
    """Within averaged() every rank has the mean of all, and afterwards its own."""
    model, *_ = things("local_sgd(every=100)", "auto")
    with torch.no_grad():
        for tensor in (*model.parameters(), model[1].running_mean):
            tensor.copy_(torch.full_like(tensor, float(dist.get_rank())))
    with gossamer.averaged(model):
        inside = [model[0].weight.mean().item(), model[1].running_mean.mean().item()]
    after = [model[0].weight.mean().item(), model[1].running_mean.mean().item()]
    (folder / f"mean-{dist.get_rank()}.json").write_text(json.dumps([inside, after]))


def main() -> None:
    """`own_loop.py FOLDER train STRATEGY FABRIC [DIES]`, or `own_loop.py FOLDER all`, for what cases.json says."""
    home = Path(sys.argv[1])
    if sys.argv[2] == "train":
        train(home, sys.argv[3], sys.argv[4], dies=int(sys.argv[5]) if len(sys.argv) > 5 else None)
        return
    for name, (strategy, fabric) in json.loads((home / "cases.json").read_text()).items():
        twice(home / name, strategy, fabric)
    for act in (full_disk, refusals, grown, exactly):
        (home / act.__name__).mkdir(exist_ok=True)
        act(home / act.__name__)


if __name__ == "__main__":
    main()
