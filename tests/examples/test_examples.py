"""Everything we show still runs."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
TASK = ROOT / "examples" / "moons.py"
SHOWN = sorted(set((ROOT / "examples").glob("*.py")) - {TASK})


@pytest.mark.parametrize("script", SHOWN, ids=lambda path: path.name)
def test_an_example_runs(script: Path) -> None:
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()


def test_the_run_file_trains_the_task_beside_it(tmp_path: Path) -> None:
    door = [sys.executable, "-c", "from gossamer.cli.main import main; main()"]
    words = [
        "train",
        str(ROOT / "examples" / "run.toml"),
        "--workers",
        "2",
        "--epochs",
        "10",
        "--folder",
        str(tmp_path),
        "--json",
    ]
    done = subprocess.run([*door, *words], capture_output=True, text=True, timeout=120, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["accuracy"] > 0.9


def test_what_is_shown_of_them_is_what_is_there() -> None:
    """The task in README, and the run file in the page on training."""
    source = next(block for block in re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), flags=re.S)
                  if "def make(" in block)  # fmt: skip
    assert TASK.read_text().endswith(source)
    shown = re.search(r"```toml\n(.*?)```", (ROOT / "docs" / "training.md").read_text(), flags=re.S)
    assert shown is not None and shown[1] == (ROOT / "examples" / "run.toml").read_text()


def test_there_are_examples() -> None:
    assert SHOWN
