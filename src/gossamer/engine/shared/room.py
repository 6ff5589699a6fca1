"""How much memory a lane may still take on this host. Knows no lane."""

from __future__ import annotations

import resource
from pathlib import Path

_CONTROL = Path("/sys/fs/cgroup")
_FILES = {  # by version of control groups: limit, in use, and the name of what would be given back
    "": ("memory.max", "memory.current", "inactive_file"),
    "memory": ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
}


def available() -> int:
    """Bytes: the least of what the host has free, what its control groups leave, and the limit for a file."""
    most, _ = resource.getrlimit(resource.RLIMIT_FSIZE)
    limits = [most] if most != resource.RLIM_INFINITY else []
    return min([_host(), *_control(), *limits])


def _host() -> int:
    """What the kernel says could be had without swapping."""
    for line in Path("/proc/meminfo").read_text().splitlines():
        name, _, value = line.partition(":")
        if name == "MemAvailable":
            return int(value.split()[0]) * 1024
    return 0


def _control() -> list[int]:
    """What each control group that this process is in leaves; its folder has another name inside a container."""
    left = []
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _, kind, path = line.split(":", 2)
        if kind in _FILES:
            left += [_left(_CONTROL / kind / inside, kind) for inside in {path.strip("/"), ""}]
    return [one for one in left if one is not None]


def _left(folder: Path, kind: str) -> int | None:
    """The limit less what is in use; None if there is no limit to read."""
    limit, usage, spare = _FILES[kind]
    try:
        most, used = (folder / limit).read_text().strip(), int((folder / usage).read_text())
        stat = dict(line.split() for line in (folder / "memory.stat").read_text().splitlines())
    except (OSError, ValueError):
        return None
    return None if most == "max" else max(0, int(most) - used + int(stat.get(spare, 0)))
