"""The live noise scale: what is looked at is what autograd made and what was mixed, on every fabric, in both loops."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.distributed as dist
from tests.cli.ask import process
from tests.processes.pool import Member, everywhere
from tests.processes.user import cycle, loader, loss_of, net

import gossamer
from gossamer.engine.loop.gauge import FIRST
from gossamer.recipes import NoiseScale
from gossamer.records import Noise, StepRecord, read

STEPS = 40


def squares(tensors: list[torch.Tensor]) -> float:
    return sum(float((t.double() ** 2).sum()) for t in tensors)


def watched(
    member: Member, strategy: str, batch: int, scaler: torch.amp.GradScaler | None = None
) -> tuple[dict[int, Noise], dict[int, tuple[list[float], float]]]:
    """What the journal tells by step, and what was there without any scale: every member's own square, and that of the
    mix."""
    by = torch.amp.GradScaler("cpu", enabled=False) if scaler is None else scaler
    model = net(torch.float32)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    there = {}
    with tempfile.TemporaryDirectory() as folder:
        model, optimizer, batches = member.prepare(
            model, optimizer, loader(12 * batch, batch, torch.float32), *([scaler] if scaler else []),
            strategy=strategy, journal=folder,
        )[:3]  # fmt: skip
        for step, part in enumerate(cycle(batches, STEPS)):
            optimizer.zero_grad()
            loss = loss_of(model, part)
            own = squares(list(torch.autograd.grad(loss, list(model.parameters()), retain_graph=True)))
            by.scale(loss).backward()
            everybody = [torch.zeros((), dtype=torch.float64) for _ in range(member.size)]
            dist.all_gather(everybody, torch.tensor(own, dtype=torch.float64))
            mixed = [p.grad for p in model.parameters() if p.grad is not None]
            there[step] = [float(each) for each in everybody], squares(mixed) / by.get_scale() ** 2
            by.step(optimizer)
            by.update()
        records = [r for r in read(Path(folder) / f"journal-{member.rank}.jsonl") if isinstance(r, StepRecord)]
        known = gossamer.noise(model).scale
    found = {record.step - 1: look for record in records for look in record.noise}
    assert known == (found[max(found)].scale if found else None)
    return found, there


@everywhere(worlds=(2, 3), strategy=("allreduce", "half", "allreduce(sharded)", "horovod"))
def test_it_is_of_what_was_there(member: Member, strategy: str) -> None:
    """Own gradients, their average and the samples of both; members look together, and come to the same."""
    batch = 4 * member.size + 1  # one member has one sample more than the others
    found, there = watched(member, strategy, batch)
    assert min(found) == FIRST and len(found) >= 2
    seen = NoiseScale(0.9)
    for step, look in sorted(found.items()):
        own, mixed = there[step]
        assert look.large == batch
        assert look.small == pytest.approx(member.size / ((member.size - 1) / 4 + 1 / 5))
        assert look.small_square == pytest.approx(np.mean(own), rel=1e-4)
        assert look.large_square == pytest.approx(mixed, rel=1e-2 if strategy == "half" else 1e-4)
        seen.saw(look.small, look.small_square, look.large, look.large_square)
        assert look.scale == seen.scale or look.scale == pytest.approx(seen.scale, rel=1e-9)
    member.same(torch.tensor([float(step) for step in sorted(found)]))


@everywhere(worlds=(2,), strategy=("allreduce", "allreduce(sharded)", "half"))
def test_the_scale_of_a_loss_is_none_of_its_business(member: Member, strategy: str) -> None:
    """Whatever it was in each look: looks at scales from 2^4 on are smoothed together."""
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**4, growth_interval=3)
    found, there = watched(member, strategy, 8, scaler)
    assert scaler.get_scale() > 2.0**12 and len(found) >= 2
    for step, look in found.items():
        own, mixed = there[step]
        assert look.small_square == pytest.approx(np.mean(own), rel=1e-4)
        assert look.large_square == pytest.approx(mixed, rel=1e-2 if strategy == "half" else 1e-4)


@everywhere(
    worlds=(2,),
    fabrics=("shared",),
    strategy=("local_sgd", "one_bit(where=Everything())", "hogwild", "Exchange(synchrony=Synchrony(delay=1))"),
)
def test_nothing_is_told_where_gradients_are_not_averaged_as_they_are(member: Member, strategy: str) -> None:
    found, _ = watched(member, strategy, 8)
    assert not found


@everywhere(worlds=(2,), fabrics=("shared", "torch"))
def test_accumulated_gradients_are_of_all_their_samples(member: Member) -> None:
    model = net(torch.float32)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    with tempfile.TemporaryDirectory() as folder:
        model, optimizer, batches = member.prepare(
            model, optimizer, loader(96, 8, torch.float32), strategy="allreduce", journal=folder
        )
        for step, part in enumerate(cycle(batches, 24)):
            if step % 3 < 2:
                with model.no_sync():
                    (loss_of(model, part) / 3).backward()
            else:
                (loss_of(model, part) / 3).backward()
                optimizer.step()
                optimizer.zero_grad()
        records = [r for r in read(Path(folder) / f"journal-{member.rank}.jsonl") if isinstance(r, StepRecord)]
    looks = [look for record in records for look in record.noise]
    assert looks and {(look.small, look.large) for look in looks} == {(12.0, 24)}


def test_train_shows_what_the_batch_costs(tmp_path: Path) -> None:
    """In our own loop, where each worker sums its share of the mean, as over another fabric, where each has all."""
    firsts = []
    for fabric in ("shared", "torch"):
        asked = ("train", "--workers", "2", "--steps", "40", "--batch", "8", "--fabric", fabric, "--json")
        told = json.loads(process(*asked, where=tmp_path).stdout)
        assert told["noise_scale"] is None or told["batch_cost"] == pytest.approx(1 + 16 / told["noise_scale"])
        journals = sorted(Path(told["journal"]).glob("journal-*.jsonl"))
        looks = [{r.step: n for r in read(each) if isinstance(r, StepRecord) for n in r.noise} for each in journals]
        assert len(looks) == 2 and looks[0] == looks[1] and len(looks[0]) >= 2
        assert all((look.small, look.large) == (8.0, 16) for look in looks[0].values())
        firsts.append(looks[0][FIRST + 1])
    assert firsts[0].small_square == pytest.approx(firsts[1].small_square, rel=1e-3)
    assert firsts[0].large_square == pytest.approx(firsts[1].large_square, rel=1e-3)
