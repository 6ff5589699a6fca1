"""What torch frees at the end of a step stays with the process, and what it is given comes in large pages.

Given back, the next step would fault it in anew; in pages of 4 KB that takes four times as long as to write to it.
"""

from __future__ import annotations

import ctypes
import os
import platform
from collections.abc import Mapping

TRIM, MAPPED = -1, -3  # glibc's M_TRIM_THRESHOLD and M_MMAP_THRESHOLD
MOST = (1 << 31) - 1  # bytes at the end of the heap before they are given back
LARGE = 32 << 20  # bytes from which a block is given back all the same: kept (M_MMAP_MAX 0), eight dead copies pile up
TOLD = ("MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_", "MALLOC_TOP_PAD_", "MALLOC_MMAP_MAX_")
TUNABLES, HUGE = "GLIBC_TUNABLES", "glibc.malloc.hugetlb=1"  # ask for large pages, where the kernel leaves it to us
SINCE = (2, 35)  # the glibc that knows it


def keep() -> bool:
    """Let this process keep what it frees, unless its user has told malloc otherwise; whether it does."""
    if _told(os.environ) or platform.libc_ver()[0] != "glibc":
        return False
    mallopt = ctypes.CDLL(None).mallopt
    return bool(mallopt(MAPPED, LARGE)) and bool(mallopt(TRIM, MOST))


def large_pages(environment: Mapping[str, str]) -> dict[str, str]:
    """What a process must find in its environment, as it starts, to have its memory in large pages; nothing where its
    user has told malloc anything, or malloc would not know."""
    name, version = platform.libc_ver()
    if _told(environment) or HUGE in environment.get(TUNABLES, "") or name != "glibc":
        return {}
    if tuple(map(int, version.split(".")[:2])) < SINCE:
        return {}
    return {TUNABLES: ":".join(filter(None, [environment.get(TUNABLES), HUGE]))}


def _told(environment: Mapping[str, str]) -> bool:
    """Whether malloc was told anything but what is ours."""
    tunables = environment.get(TUNABLES, "").replace(HUGE, "")
    return any(name in environment for name in TOLD) or "glibc.malloc" in tunables
