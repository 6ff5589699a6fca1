"""CONTRIBUTING, followed to the letter in a copy of the project: one class, one specimen line, one catalogue line."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
IMPORT = "from gossamer.parts.codec.sixteen import Sixteen\n"


def blocks() -> list[str]:
    return re.findall(r"```python\n(.*?)```", (ROOT / "CONTRIBUTING.md").read_text(), flags=re.S)


def inserted(path: Path, after: str, line: str) -> None:
    """Put the line at the top of the table that begins with `after`, and the import above the first import of ours."""
    text = path.read_text()
    assert after in text, f"{path.name} has no {after!r}"
    if IMPORT in text:  # somebody has followed the page already
        return
    text = text.replace(after, after + line, 1)
    text = text.replace("from gossamer.", IMPORT + "from gossamer.", 1)
    path.write_text(text)


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The project with the codec of CONTRIBUTING added."""
    folder = tmp_path_factory.mktemp("newcomer")
    for name in ("src", "tests"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
    shutil.copy(ROOT / "pyproject.toml", folder)
    the_class, specimen, entry = blocks()[:3]
    (folder / "src/gossamer/parts/codec/sixteen.py").write_text(the_class)
    inserted(folder / "tests/laws/specimens.py", "CODECS: tuple[Codec, ...] = (\n", specimen)
    inserted(folder / "src/gossamer/strategy/catalog.py", "CATALOG: tuple[Entry, ...] = (\n", entry)
    return folder


def ran(copy: Path, *command: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "PYTHONPATH": str(copy / "src")}
    return subprocess.run([sys.executable, *command], cwd=copy, env=env, capture_output=True, text=True, timeout=300)


def test_the_laws_take_the_new_codec_in(copy: Path) -> None:
    laws = [f"tests/laws/test_{law}.py" for law in ("codec", "feedback", "specimens")]
    done = ran(copy, "-m", "pytest", *laws, "-p", "no:xdist", "-k", "Sixteen or sixteen or specimen")
    assert done.returncode == 0, done.stdout + done.stderr
    assert int(re.findall(r"(\d+) passed", done.stdout)[0]) >= 5


@pytest.mark.long
def test_the_class_passes_strict_types(copy: Path) -> None:
    """In the project's own cache, where everything but the class is known already."""
    file = copy / "src/gossamer/parts/codec/sixteen.py"
    alone = shutil.copy(file, copy / "sixteen.py")
    check = [sys.executable, "-m", "mypy", "--strict", str(alone)]
    done = subprocess.run(check, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout


def test_the_new_entry_is_listed_shown_and_rehearsed(copy: Path) -> None:
    door = ("-c", "from gossamer.cli.main import main; main()")
    listed = ran(copy, *door, "list")
    assert "sixteen" in listed.stdout, listed.stderr
    shown = ran(copy, *door, "show", "sixteen", "--workers", "8")
    assert "Sixteen()" in shown.stdout, shown.stderr
    rehearsed = ran(copy, *door, "rehearse", "--strategy", "sixteen", "--workers", "4", "--epochs", "6", "--json")
    assert rehearsed.returncode == 0, rehearsed.stderr
    assert '"accuracy"' in rehearsed.stdout


def test_without_its_specimen_the_laws_complain(copy: Path) -> None:
    specimens = copy / "tests/laws/specimens.py"
    kept = specimens.read_text()
    specimens.write_text(kept.replace(blocks()[1], "", 1))
    done = ran(copy, "-m", "pytest", "tests/laws/test_specimens.py", "-p", "no:xdist")
    specimens.write_text(kept)
    assert done.returncode == 1
    assert "Sixteen" in done.stdout
