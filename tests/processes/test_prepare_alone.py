"""A world of one is the bare loop, to the bit, and needs no process group."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).with_name("one_worker.py")


def test_one_worker_is_the_bare_loop() -> None:
    done = subprocess.run([sys.executable, "-W", "error", str(SCRIPT)], capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["fine"]
