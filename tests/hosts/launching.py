"""Launchers on the hosts of a lab, for tests of what they say and how they end."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.cli.ask import DOOR
from tests.processes.living import soon

from gossamer.lab import Lab

SCRIPT = str(Path(__file__).parent.parent / "processes" / "faulty.py")
PORT = 29411


@dataclass
class Launcher:
    """A launcher that runs, and where what it and its workers say goes."""

    process: subprocess.Popen[str]
    out: Path

    def ended(self, seconds: float = 60.0) -> tuple[int, str]:
        """How it ended: its code and what was said."""
        self.process.wait(seconds)
        return self.process.returncode, self.out.read_text()


def launched(lab: Lab, folder: Path, host: int, *words: str, first: int = 0) -> Launcher:
    """`gossamer run` on one of two hosts, met at the address of the first unless words say otherwise."""
    out, env = folder / f"said-{host}", {"TMPDIR": str(folder)}
    met = [] if "--rdzv-endpoint" in words else ["--rdzv-endpoint", f"{lab.hosts[first].address}:{PORT}"]
    command = [*DOOR, "run", "--nnodes", "2", *met, *words]
    with out.open("w") as file:
        process = lab.start(host, command, env, stdout=file, stderr=subprocess.STDOUT, cwd=folder, text=True)
    return Launcher(process, out)


def training(lab: Lab, folder: Path, workers: int = 2, first: int = 0) -> list[Launcher]:
    """A run without an end on two hosts."""
    folder.mkdir(exist_ok=True)
    words = ["--nproc-per-node", str(workers), SCRIPT, str(folder), "is fine", "-1"]
    return [launched(lab, folder, host, *words, first=first) for host in (first, first + 1)]


def trains(runs: Sequence[Launcher], folder: Path, workers: int = 2) -> None:
    """Wait until all have made some steps."""
    far = [folder / f"far-{rank}" for rank in range(2 * workers)]
    assert soon(lambda: all(path.exists() for path in far) or any(map(_over, runs)), 90.0)
    assert not any(map(_over, runs)), [each.out.read_text() for each in runs]


def _over(launcher: Launcher) -> bool:
    return launcher.process.poll() is not None
