"""What README shows is what happens."""

from __future__ import annotations

import doctest
import json
import os
import re
import shlex
import subprocess
import sys
from inspect import signature
from pathlib import Path

from gossamer.cli.parts import vocabulary
from gossamer.parts.trouble import Fail, Slow
from gossamer.strategy import CATALOG
from gossamer.strategy.expression import parts

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
        done = subprocess.run([sys.executable, "-c", door, line], capture_output=True, text=True, timeout=200)
        assert (done.stdout + done.stderr).strip() == shown.strip()
        assert done.returncode == 2


def test_its_simulation_is_real(tmp_path: Path) -> None:
    """The table is what the command above it prints, up to where it tells of its sources."""
    ((command, shown),) = re.findall(r"```\n(gossamer simulate [^`]*)```\s+```\n(.*?)```", README, flags=re.S)
    words = [word.replace("docs/", f"{tmp_path}/") for word in shlex.split(command.replace("\\\n", " "))[1:]]
    door = [sys.executable, "-c", "from gossamer.cli.main import main; main()"]
    wide = {**os.environ, "COLUMNS": "120"}
    done = subprocess.run([*door, *words], capture_output=True, text=True, timeout=200, env=wide)
    assert done.returncode == 0, done.stderr
    printed = [line.rstrip() for line in done.stdout.splitlines()]
    assert shown.splitlines() == printed[: len(shown.splitlines())]
    assert (tmp_path / "simulation.png").exists()


def test_its_task_of_ones_own_trains(tmp_path: Path) -> None:
    source = next(block for block in re.findall(r"```python\n(.*?)```", README, flags=re.S) if "def make(" in block)
    (tmp_path / "moons.py").write_text(source)
    line = next(line for line in README.splitlines() if line.startswith("gossamer rehearse") and "moons:make" in line)
    words = [*shlex.split(line)[1:], "--json"]
    door = [sys.executable, "-c", "from gossamer.cli.main import main; main()"]
    done = subprocess.run([*door, *words], cwd=tmp_path, capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["accuracy"] > 0.9


def test_its_vocabulary_is_whole() -> None:
    """Every word stands in the table, with every field it takes."""
    table = README.split("### The words of an expression")[1].split("###")[0]
    strangers = {name for name, kind in parts().items() if not kind.__module__.startswith("gossamer.")}  # other tests'
    for title, items in vocabulary().items():
        for item in items if title != "composing" else ():
            assert item.name in strangers or f"`{item.name}" in table, item.name
    made = {name: kind for name, kind in parts().items() if kind.__module__.startswith("gossamer.parts.")}
    for name, kind in {**made, "slow": Slow, "fail": Fail}.items():
        assert f"`{name}({', '.join(signature(kind).parameters)})`" in table, name


def test_the_five_papers_are_named() -> None:
    for entry in CATALOG:
        for number in re.findall(r"P[1-5]", entry.paper):
            assert f"- **{number}** " in README


def test_every_file_it_points_to_is_there() -> None:
    for target in re.findall(r"\]\(([^)#]+)\)", README):
        assert (Path(__file__).parent.parent.parent / target).exists(), target
