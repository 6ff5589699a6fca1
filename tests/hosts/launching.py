"""Launchers on the hosts of a lab, for tests of what they say and how they end."""

from __future__ import annotations

import subprocess
import time
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
    """A launcher that runs, and where what it says goes."""

    process: subprocess.Popen[str]
    out: Path

    def ended(self, seconds: float = 60.0) -> tuple[int, str]:
        """How it ended: its code and what it said."""
        self.process.wait(seconds)
        return self.process.returncode, self.said

    @property
    def said(self) -> str:
        """All that it and its workers have said so far."""
        return self.out.read_text()


def launched(lab: Lab, folder: Path, host: int, *words: str, hosts: int = 2, **env: str) -> Launcher:
    """`gossamer run` on a host, with the other hosts met at the first one's address unless words say otherwise."""
    out = folder / f"said-{host}"
    met = [] if "--rdzv-endpoint" in words else ["--rdzv-endpoint", f"{lab.hosts[0].address}:{PORT}"]
    command = [*DOOR, "run", "--nnodes", str(hosts), *met, *words]
    env = {"TMPDIR": str(folder), "HASTE": "1", **env}
    with out.open("w") as file:
        process = lab.start(host, command, env, stdout=file, stderr=subprocess.STDOUT, cwd=folder, text=True)
    return Launcher(process, out)


def training(lab: Lab, folder: Path, *words: str, hosts: int = 2, workers: int = 2, **env: str) -> list[Launcher]:
    """A run without an end on all hosts, once it has made some steps."""
    script = [SCRIPT, str(folder), "is fine", "-1", *words]
    found = [
        launched(lab, folder, host, "--nproc-per-node", str(workers), *script, hosts=hosts, **env)
        for host in range(hosts)
    ]
    far = [folder / f"far-{rank}" for rank in range(hosts * workers)]
    there = soon(lambda: all(path.exists() for path in far) or any(_over(each) for each in found), 90.0)
    assert there and not any(_over(each) for each in found), [each.said for each in found]
    return found


def said(launcher: Launcher, words: Sequence[str], seconds: float) -> float:
    """Seconds until all these words were said; fails after so many."""
    began = time.monotonic()
    assert soon(lambda: all(word in launcher.said for word in words), seconds), launcher.said
    return time.monotonic() - began


def _over(launcher: Launcher) -> bool:
    return launcher.process.poll() is not None
