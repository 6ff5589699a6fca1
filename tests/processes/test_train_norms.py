"""Batch norm in our own loop: statistics taken afresh before an evaluation are those of all workers' samples."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path
from typing import Any
from zlib import crc32

import pytest
import torch
import torch.distributed as dist
from safetensors.torch import load_file
from tests.processes.pool import Member, everywhere
from tests.processes.resuming import STEPS, job
from torch import Tensor

from gossamer.engine import training
from gossamer.engine.training import Training
from gossamer.tasks import Task, evaluate


def played(member: Member, **settings: object) -> tuple[Training, list[dict[str, Tensor]], dict[str, Tensor]]:
    """A short run, the model's tensors as each evaluation had them, and the model of the last checkpoint."""
    folder = Path(tempfile.gettempdir()) / f"norms-{os.getppid()}-{crc32(str(settings).encode())}-{member.fabric}"
    seen: list[dict[str, Tensor]] = []

    def looked(task: Task, model: Any) -> tuple[float, float]:
        assert not any(buffer.requires_grad for buffer in model.buffers())
        seen.append({name: value.clone() for name, value in model.state_dict().items()})
        return evaluate(task, model)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(training, "evaluate", looked)
        run = Training(job(folder, fabric=member.fabric, workers=member.size, **settings))
        run.run()
    kept = load_file(folder / "checkpoints" / f"step-{STEPS}" / "model.safetensors")
    dist.barrier()
    if member.rank == 0:
        shutil.rmtree(folder)
    return run, seen, kept


def pooled(run: Training, state: dict[str, Tensor], step: int) -> tuple[Tensor, Tensor, int]:
    """Mean and variance, over all that the workers have read, of what comes into the norm; samples of each worker."""
    rows = [run.stream.indices(member, s) for member in range(run.world.size) for s in range(step)]
    inputs = run.task.train[0][torch.cat(rows)]
    before = inputs.double() @ state["0.weight"].double().T + state["0.bias"].double()
    return before.mean(0), before.var(0, correction=0), len(before) // run.world.size


@everywhere(worlds=(2, 3), fabrics=("shared", "torch"), strategy=("allreduce", "local_sgd(every=5)"))
def test_fresh_statistics_are_the_pooled_ones(member: Member, strategy: str) -> None:
    """At the parameters that are evaluated, to the last of them; the model that is kept has them, too."""
    run, seen, kept = played(member, strategy=strategy, norms="fresh", momentum=0.9, rate=0.2)
    steps = [4, 5, 8, 10, 12]  # every fourth, and with every checkpoint
    assert len(seen) == len(steps)
    for state, step in zip(seen, steps, strict=True):
        mean, var, count = pooled(run, state, step)
        assert torch.allclose(state["1.running_mean"].double(), mean, rtol=0.0, atol=1e-6)
        found = state["1.running_var"].double()
        assert (found / var - 1).abs().max() < 1.05 / (count - 1)  # of each worker's own, as torch has it: over n - 1
        member.same(state["1.running_var"])
    assert torch.allclose(kept["1.running_mean"], seen[-1]["1.running_mean"], rtol=1e-6)
    assert torch.allclose(kept["1.running_var"], seen[-1]["1.running_var"], rtol=1e-6)


@everywhere(worlds=(2,), fabrics=("shared",))
def test_moving_averages_lag_behind(member: Member) -> None:
    run, seen, _ = played(member, norms="moving", rate=0.2)
    mean, _, _ = pooled(run, seen[-1], STEPS)
    assert len(seen) == 3 and not torch.allclose(seen[-1]["1.running_mean"].double(), mean, rtol=0.0, atol=1e-2)


@everywhere(worlds=(2,), fabrics=("shared", "torch"), strategy=("gossip_pull", "hogwild"))
def test_fresh_statistics_where_nobody_waits(member: Member, strategy: str) -> None:
    _, seen, kept = played(member, strategy=strategy, norms="fresh")
    member.same(seen[-1]["1.running_mean"])
    assert torch.allclose(kept["1.running_mean"], seen[-1]["1.running_mean"], rtol=1e-6)


@everywhere(worlds=(2,), fabrics=("shared", "torch"))
def test_weights_decay_and_nothing_else(member: Member) -> None:
    """Without a rate to speak of, only decay moves them."""
    run, _, kept = played(member, decays="weights", decay=0.5, rate=1e-3, steps=STEPS)
    fresh = training.build(run.job.task, run.job.seed, {}).model.state_dict()
    shrunk = 1.0 - 0.5 * 1e-3
    moved = (kept["0.weight"] / fresh["0.weight"]).median()
    assert abs(float(moved) - shrunk**STEPS) < 5e-3
    assert [len(held["params"]) for held in run.optimizer.param_groups] == [2, 4]
    assert [held["weight_decay"] for held in run.optimizer.param_groups] == [0.5, 0.0]
