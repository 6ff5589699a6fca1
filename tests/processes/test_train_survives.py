"""A worker of `gossamer train` is killed in step 30 of 300: where the others go on, they finish and have learnt."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest
from tests.cli.ask import DOOR

from gossamer.engine.checkpoint import load
from gossamer.engine.loop.checkpoints import members
from gossamer.records import StepRecord, read

RATES = {"hogwild": "0.05"}  # every gradient counts in full
TARGET = 0.97


def trained(folder: Path, strategy: str, rank: int) -> tuple[subprocess.CompletedProcess[str], Path]:
    words = ["--strategy", strategy, "--steps", "300", "--batch", "32", "--rate", RATES.get(strategy, "0.2")]
    words += ["--trouble", f"fail(rank={rank}, step=30)"]
    done = train(folder, *words)
    (run,) = (folder / "runs").iterdir()
    return done, run


def train(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*DOOR, "train", *words], cwd=folder, capture_output=True, text=True, timeout=240,
        env={**os.environ, "COLUMNS": "200"},
    )  # fmt: skip


def steps(run: Path, rank: int) -> int:
    """How far a member's journal goes."""
    records = [record for record in read(run / f"journal-{rank}.jsonl") if isinstance(record, StepRecord)]
    return records[-1].step + 1


USUAL = {("hogwild", 1)}
CASES = [
    pytest.param(strategy, rank, marks=() if (strategy, rank) in USUAL else pytest.mark.long)
    for strategy in ("gossip_pull", "hogwild")
    for rank in range(4)
]


@pytest.mark.parametrize(("strategy", "rank"), CASES)
def test_the_others_finish_and_have_learnt(strategy: str, rank: int, tmp_path: Path) -> None:
    done, run = trained(tmp_path, strategy, rank)
    assert done.returncode == 0, done.stdout + done.stderr
    assert [steps(run, member) for member in range(4)] == [30 if member == rank else 300 for member in range(4)]
    said = f"gossamer: rank {rank} was killed by SIGKILL in step 30; the others go on"
    assert (done.stdout + done.stderr).count(said) == 1
    seen = [json.loads(line) for path in run.glob("journal-*.jsonl") for line in path.read_text().splitlines()]
    assert max(each["accuracy"] for each in seen if each["kind"] == "evaluation") >= TARGET
    kept = load(run / "checkpoints")
    assert (kept.step, members(kept)) == (300, [member for member in range(4) if member != rank])
    if rank == 0:
        done = train(tmp_path, "--resume", str(run), "--steps", "310", "--trouble", "fail(rank=0, step=900)")
        assert done.returncode == 0, done.stdout + done.stderr
        assert done.stderr.count("step 300 of 3 workers goes on with 4: all start from the average") == 1
        assert [steps(run, member) for member in range(4)] == [310] * 4


def test_where_all_wait_for_all_they_stop(tmp_path: Path) -> None:
    done, run = trained(tmp_path, "local_sgd(every=4)", 2)
    assert done.returncode == 137
    assert "rank 2 was killed by SIGKILL, and all others were stopped" in done.stdout + done.stderr
    assert max(steps(run, member) for member in range(4)) < 40
