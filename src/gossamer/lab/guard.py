"""Ends what a lab started and removes what it made, also where the lab itself was killed. Needs Python's library only.

Run as a program it waits for the lab's process to be gone, however it went, and then cleans up after it.
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from time import sleep

SPACES = Path("/run/netns")
PREFIX = "gossamer-lab"


def started(pid: int) -> str | None:
    """When a process began, in the kernel's ticks: with its number that names it, though numbers are used again."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    except (FileNotFoundError, ProcessLookupError):
        return None


def namespaces(prefix: str = PREFIX) -> list[str]:
    """The namespaces whose names begin so."""
    try:
        return sorted(path.name for path in SPACES.iterdir() if path.name.startswith(f"{prefix}-"))
    except FileNotFoundError:
        return []


def orphans() -> list[str]:
    """The namespaces of labs whose process is gone."""
    found = []
    for name in namespaces():
        words = name.removeprefix(PREFIX).split("-")  # "", process, its beginning, number of the lab, host
        if len(words) == 5 and words[1].isdecimal() and started(int(words[1])) != words[2]:
            found.append(name)
    return found


def inside(name: str) -> Iterator[int]:
    """The processes in a namespace."""
    try:
        space = (SPACES / name).stat()
    except FileNotFoundError:
        return
    for folder in Path("/proc").iterdir():
        if folder.name.isdecimal():
            try:
                seen = (folder / "ns/net").stat()
            except OSError:
                continue  # it ended meanwhile
            if (seen.st_dev, seen.st_ino) == (space.st_dev, space.st_ino):
                yield int(folder.name)


def end(names: list[str], number: int = signal.SIGKILL) -> None:
    """Send a signal to all that runs in these namespaces; killed is until nobody is left, whom they start included."""
    while found := [pid for name in names for pid in inside(name)]:
        for pid in found:
            try:
                os.kill(pid, number)
            except ProcessLookupError:
                continue
        if number != signal.SIGKILL or all(_gone(pid) for pid in found):
            return
        sleep(0.005)


def _gone(pid: int) -> bool:
    """Whether a process that was killed has ended: a zombie has, and waits for its parent only."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return True


def remove(names: list[str]) -> None:
    """Kill all that runs in these namespaces, and take them away with their links."""
    end(names)
    for name in names:
        subprocess.run(["ip", "netns", "del", name], stderr=subprocess.DEVNULL)  # another may have been faster


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
