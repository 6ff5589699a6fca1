"""What torch frees at the end of a step stays with the process: given back, the next step would fault it in anew."""

from __future__ import annotations

import ctypes
import os
import platform

TRIM, MAPPED = -1, -3  # glibc's M_TRIM_THRESHOLD and M_MMAP_THRESHOLD
MOST = (1 << 31) - 1  # bytes at the end of the heap before they are given back
LARGE = 32 << 20  # bytes from which a block is given back all the same: kept (M_MMAP_MAX 0), eight dead copies pile up
TOLD = ("MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_", "MALLOC_TOP_PAD_", "MALLOC_MMAP_MAX_")


def keep() -> bool:
    """Let this process keep what it frees, unless its user has told malloc otherwise; whether it does."""
    chosen = any(name in os.environ for name in TOLD) or "glibc.malloc" in os.environ.get("GLIBC_TUNABLES", "")
    if chosen or platform.libc_ver()[0] != "glibc":
        return False
    mallopt = ctypes.CDLL(None).mallopt
    return bool(mallopt(MAPPED, LARGE)) and bool(mallopt(TRIM, MOST))
