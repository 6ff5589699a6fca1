"""How the tests knock at the door: in this process where they can, as a process of its own where it matters."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from time import perf_counter
from typing import Any

from typer.testing import CliRunner, Result

from gossamer.cli.main import app

DOOR = [sys.executable, "-c", "from gossamer.cli.main import main; main()"]


def ask(*words: str, columns: int = 160) -> Result:
    """Run a command in this process, on a terminal so many characters wide."""
    return CliRunner().invoke(app, list(words), env={"COLUMNS": str(columns)})


def told(*words: str, code: int = 0) -> dict[str, Any]:
    """The one JSON object that a command prints; anything else on stdout, or another exit code, is a failure."""
    result = ask(*words, "--json")
    assert result.exit_code == code, result.stderr
    found = json.loads(result.stdout)
    assert isinstance(found, dict)
    return found


def refused(*words: str) -> str:
    """What a command says on stderr as it refuses: exit code 2, nothing on stdout, no traceback."""
    result = ask(*words)
    assert result.exit_code == 2, (result.exit_code, result.exception, result.stdout, result.stderr)
    assert result.stdout == ""
    assert "Traceback" not in result.stderr
    assert result.stderr.strip()
    return result.stderr


def process(*words: str, where: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Run a command as a process of its own."""
    return subprocess.run([*DOOR, *words], capture_output=True, text=True, cwd=where, timeout=120)


def seconds(*words: str, enough: float, tries: int = 12) -> float:
    """The best wall time of a command, interpreter start included; on a busy machine some tries are unlucky."""
    best = float("inf")
    while tries and best >= enough:
        began = perf_counter()
        assert process(*words).returncode == 0
        best, tries = min(best, perf_counter() - began), tries - 1
    return best
