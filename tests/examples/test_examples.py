"""Everything we show still runs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
SHOWN = sorted((ROOT / "examples").glob("*.py"))


@pytest.mark.parametrize("script", SHOWN, ids=lambda path: path.name)
def test_an_example_runs(script: Path) -> None:
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()


def test_there_are_examples() -> None:
    assert SHOWN
