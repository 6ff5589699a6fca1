"""A refusal in a user's own script, which none of our launchers has started: one line of each worker, exit code 2."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = """
import sys, torch, gossamer
from torch import nn
if "own" in sys.argv:
    sys.excepthook = lambda kind, error, trace: print("heard", error, file=sys.stderr)
model = nn.Linear(2, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
if "alone" in sys.argv:
    gossamer.prepare(model, optimizer, strategy="gossip_pull")
if "at once" in sys.argv:
    gossamer.prepare(model, optimizer, stratgy="allreduce")
gossamer.prepare(model, optimizer)
if "fails" in sys.argv:
    raise ValueError("my own")
optimizer.step(lambda: 0.0)
"""
LATE = "optimizer.step(closure) would compute in the midst of an exchange; nearest that works: step() without one"
ONCE = "prepare: there is no keyword 'stratgy'; nearest that works: strategy=..."


def ran(folder: Path, *words: str, before: tuple[str, ...] = ()) -> tuple[int, list[str]]:
    """How python ended, and what it said aside."""
    (folder / "script.py").write_text(SCRIPT)
    command, env = [sys.executable, *before, str(folder / "script.py"), *words], {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, env=env, input="")
    return done.returncode, done.stderr.splitlines()


ALONE = "RandomPeer: gossip needs company, and there is 1 worker; nearest that works: 2 workers, or allreduce()"


@pytest.mark.parametrize(
    ("words", "line"), [(["at once"], ONCE), (["alone"], ALONE), ([], LATE)], ids=["in prepare", "alone", "later"]
)
def test_one_line_and_code_2_without_a_launcher(words: list[str], line: str, tmp_path: Path) -> None:
    code, lines = ran(tmp_path, *words)
    assert (code, lines[-1]) == (2, f"gossamer: {line}")
    assert not any("Traceback" in each for each in lines)


def test_other_errors_are_told_as_before(tmp_path: Path) -> None:
    code, lines = ran(tmp_path, "fails")
    assert (code, lines[-1]) == (1, "ValueError: my own") and "Traceback (most recent call last):" in lines
    code, lines = ran(tmp_path, "fails", "own")
    assert (code, lines[-1]) == (1, "heard my own")


def test_who_stays_at_a_prompt_is_not_thrown_out(tmp_path: Path) -> None:
    code, lines = ran(tmp_path, "at once", before=("-i",))
    assert code == 0 and f"gossamer: {ONCE}" in lines


def test_under_torchrun_each_worker_says_it_in_one_line(tmp_path: Path) -> None:
    code, lines = ran(tmp_path, before=("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"))
    said = [line for line in lines if LATE in line]
    assert said and {*said} <= {f"gossamer: rank {rank}: {LATE}" for rank in (0, 1)}
    assert not any("script.py" in line for line in lines if line.startswith("  File")), "no traceback of a worker"
    assert code == 1 and any("exitcode  : 2" in line for line in lines)  # torchrun itself ends with 1, whatever they do
