"""What README shows is what happens."""

from __future__ import annotations

import doctest
import re
import subprocess
import sys
from pathlib import Path

README = (Path(__file__).parent.parent.parent / "README.md").read_text()


def test_the_python_session_is_real() -> None:
    sessions = [block for block in re.findall(r"```python\n(.*?)```", README, flags=re.S) if ">>>" in block]
    assert sessions
    for session in sessions:
        found = doctest.DocTestParser().get_doctest(session, {}, "README", None, 0)
        assert doctest.DocTestRunner(verbose=False).run(found).failed == 0


def test_the_refusal_is_real() -> None:
    """Every block that starts with a prompt prints what stands below it."""
    blocks = re.findall(r"```\n\$ gossamer (.*?)\n(.*?)```", README, flags=re.S)
    assert blocks
    for line, shown in blocks:
        door = "import shlex, sys; from gossamer.cli.main import main; sys.argv[1:] = shlex.split(sys.argv[1]); main()"
        done = subprocess.run([sys.executable, "-c", door, line], capture_output=True, text=True, timeout=60)
        assert (done.stdout + done.stderr).strip() == shown.strip()
        assert done.returncode == 2


def test_every_file_it_points_to_is_there() -> None:
    for target in re.findall(r"\]\(([^)#]+)\)", README):
        assert (Path(__file__).parent.parent.parent / target).exists(), target
