"""The plain script and the same on many workers: few changed lines, the same training, under both launchers."""

from __future__ import annotations

import difflib
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parent.parent.parent / "examples"
LAUNCHERS = {
    "torchrun": ["-m", "torch.distributed.run", "--standalone"],
    "gossamer run": ["-c", "from gossamer.cli.main import main; main()", "run"],
}


def accuracies(*words: str) -> list[float]:
    """What the script printed, worker by worker."""
    done = subprocess.run(
        [sys.executable, *words],
        capture_output=True,
        text=True,
        timeout=150,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, done.stderr
    return [float(found) for found in re.findall(r"accuracy (\d\.\d+)", done.stdout)]


def test_at_most_five_lines_are_changed() -> None:
    before, after = ((EXAMPLES / name).read_text().splitlines() for name in ("plain.py", "distributed.py"))
    code = [line for line in difflib.unified_diff(before, after, n=0, lineterm="") if line.startswith("+")][1:]
    changed = [line for line in code if line[1:].strip() and not line[1:].startswith('"""')]
    assert 0 < len(changed) <= 5, changed


@pytest.mark.parametrize("launcher", ["gossamer run", pytest.param("torchrun", marks=pytest.mark.long)])
def test_four_workers_train_as_one_process_does(launcher: str) -> None:
    alone = accuracies(str(EXAMPLES / "plain.py"))
    together = accuracies(*LAUNCHERS[launcher], "--nproc-per-node", "2", str(EXAMPLES / "distributed.py"))
    assert len(alone) == len(together) == 1, "one of many workers prints"
    assert abs(together[0] - alone[0]) < 0.03 and min(alone[0], together[0]) > 0.9
