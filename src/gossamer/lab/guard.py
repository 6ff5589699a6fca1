"""Ends what a lab started and removes what it made, also where the lab itself was killed. Needs Python's library only.

Run as a program it waits for the lab's process to be gone, however it went, and then cleans up after it.
"""

from __future__ import annotations

import os
import select
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from time import sleep

SPACES = Path("/run/netns")
FILES = Path("/etc/netns")  # what `ip netns exec` lays over /etc, by the name of the namespace
PREFIX = "gossamer-lab"


def started(pid: int) -> str | None:
    """When a process began, in the kernel's ticks: with its number that names it, though numbers are used again."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    except (FileNotFoundError, ProcessLookupError):
        return None


def namespaces(prefix: str = PREFIX) -> list[str]:
    """The namespaces whose names begin so; also those of which only files are left."""
    found = {path.name for folder in (SPACES, FILES) if folder.is_dir() for path in folder.iterdir()}
    return sorted(name for name in found if name.startswith(f"{prefix}-"))


def orphans() -> list[str]:
    """The namespaces of labs whose process is gone."""
    found = []
    for name in namespaces():
        words = name.removeprefix(PREFIX).split("-")  # "", process, its beginning, number of the lab, host
        if len(words) == 5 and words[1].isdecimal() and started(int(words[1])) != words[2]:
            found.append(name)
    return found


def inside(spaces: list[os.stat_result]) -> Iterator[int]:
    """The processes in any of these namespaces."""
    wanted = {(space.st_dev, space.st_ino) for space in spaces}
    for folder in Path("/proc").iterdir() if wanted else ():
        if folder.name.isdecimal():
            with suppress(OSError):  # it ended meanwhile
                seen = (folder / "ns/net").stat()
                if (seen.st_dev, seen.st_ino) in wanted:
                    yield int(folder.name)


def residents(names: list[str]) -> list[int]:
    """The processes in namespaces of these names."""
    return list(inside([(SPACES / name).stat() for name in names if (SPACES / name).exists()]))


def kill(spaces: list[os.stat_result]) -> None:
    """Kill all that runs in these namespaces, until nobody is left."""
    while found := [pid for pid in inside(spaces) if not gone(pid)]:
        for pid in found:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        sleep(0.005)


def gone(pid: int) -> bool:
    """Whether a process has ended: a zombie has, and only waits for its parent."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return True


def remove(names: list[str]) -> None:
    """Kill all that runs in these namespaces, and take them away with their links.

    Who was about to enter is killed once the names are gone; held open until then, they are nobody else's.
    """
    with ExitStack() as held:
        paths = [SPACES / name for name in names if (SPACES / name).exists()]
        spaces = [os.fstat(held.enter_context(path.open("rb")).fileno()) for path in paths]
        kill(spaces)
        for name in names:
            shutil.rmtree(FILES / name, ignore_errors=True)
            subprocess.run(["ip", "netns", "del", name], stderr=subprocess.DEVNULL)  # another may have been faster
        kill(spaces)


def wait(pid: int) -> None:
    """Return when our parent, which is to be this process, has ended."""
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    if os.getppid() == pid:
        select.select([handle], [], [])


if __name__ == "__main__":
    wait(int(sys.argv[1]))
    remove(namespaces(sys.argv[2]))
