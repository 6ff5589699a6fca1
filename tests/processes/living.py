"""Which processes run, for tests that see to it that none is left."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from time import monotonic, sleep


def runs(pid: int) -> bool:
    """Whether a process runs: it is there, and not just waiting to be collected."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


def pids(folder: Path) -> dict[int, int]:
    """The processes of the workers that said they are there, by rank."""
    return {int(path.name.removeprefix("pid-")): int(path.read_text()) for path in folder.glob("pid-*")}


def all_there(folder: Path, size: int, seconds: float = 60.0) -> dict[int, int]:
    """The processes of so many workers, once all are there."""
    assert soon(lambda: len(pids(folder)) >= size, seconds), f"only {sorted(pids(folder))} of {size} came"
    return pids(folder)


def soon(true: Callable[[], bool], seconds: float = 5.0) -> bool:
    """Whether it becomes true within so many seconds."""
    until = monotonic() + seconds
    while not true():
        if monotonic() > until:
            return False
        sleep(0.02)
    return True


def none_runs(processes: dict[int, int], seconds: float = 5.0) -> bool:
    """Whether all of these have ended within so many seconds."""
    return soon(lambda: not any(runs(pid) for pid in processes.values()), seconds)


def shared() -> set[str]:
    """What lies in shared memory under a name."""
    return set(os.listdir("/dev/shm"))


def left(before: set[str]) -> set[str]:
    """What lies there now and did not before, stays, and is in nobody's hands: others on this host come and go."""
    until, new = monotonic() + 0.5, shared() - before
    while new and monotonic() < until:
        sleep(0.05)
        new &= shared()
    held = "".join(_maps(path) for path in Path("/proc").glob("[0-9]*/maps")) if new else ""
    return {name for name in new if f"/dev/shm/{name}" not in held}


def _maps(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""
