"""One piece of memory that all members on a host have mapped: no name, nothing to unlink. Knows no lane.

Member 0 makes it and tells the others, through the store, where they find its descriptor under /proc.
"""

from __future__ import annotations

import ctypes
import fcntl
import json
import mmap
import os
import secrets
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Protocol

import torch
from torch import Tensor

from gossamer.engine.lost import MemberLost
from gossamer.engine.shared.room import available

LOOK = timedelta(seconds=0.5)  # how often one looks whether somebody who is waited for is still there
TOKEN = 16  # bytes at the beginning, by which a sibling knows that it opened the right thing


class Store(Protocol):
    """What members tell each other through: any store of torch."""

    def set(self, key: str, value: str, /) -> None:
        """Tell."""

    def get(self, key: str, /) -> bytes:
        """Hear, when it was told."""

    def wait(self, keys: list[str], timeout: timedelta, /) -> None:
        """Wait until all were told; an error of some kind if they were not."""

    def check(self, keys: list[str], /) -> bool:
        """Whether all were told."""


Gone = Callable[[int], bool]  # whether a member's process has ended


class Unshared(Exception):
    """Members cannot share memory; all of them say so alike."""


class NoRoom(Unshared):
    """The host has too little memory for what members want to share; both in bytes. `what` may say for what."""

    def __init__(self, needed: int, available: int, what: str = "") -> None:
        told = f"shared memory needs {needed:,} bytes where {available:,} are available"
        super().__init__(f"{told} ({what})" if what else told)
        self.needed, self.available = needed, available


@dataclass(frozen=True)
class Memory:
    """A mapping; it stays for as long as anything refers to `bytes`."""

    bytes: ctypes.Array[ctypes.c_char]
    address: int
    remarks: tuple[str, ...]  # what each member had to say when it opened its own
    descriptor: int = -1  # of this process's own, where it was asked for, to lock parts of the memory by

    def tensor(self, start: int, count: int, dtype: torch.dtype) -> Tensor:
        """The numbers that lie there."""
        if not count:  # which torch finds nothing at all in
            return torch.empty(0, dtype=dtype)
        return torch.frombuffer(self.bytes, dtype=dtype, count=count, offset=start)


def nobody(member: int) -> bool:
    """Where nobody can tell who has ended."""
    return False


def shared(
    store: Store,
    name: str,
    member: int,
    size: int,
    needed: int,
    remark: str,
    *,
    lockable: bool = False,
    gone: Gone = nobody,
) -> Memory:
    """Map `needed` bytes that all members share; all call it alike, with a name that this store has not seen before.

    Nobody waits for a member that is `gone`."""
    kept: int | None = None
    try:
        if member == 0:
            kept, offer = _made(needed)
            store.set(f"{name}/offer", json.dumps(offer))
        found, fault = _opened(json.loads(_heard(store, f"{name}/offer", 0, gone)), needed, lockable)
        store.set(f"{name}/member {member}", json.dumps({"fault": fault, "remark": remark}))
        answers = [json.loads(_heard(store, f"{name}/member {other}", other, gone)) for other in range(size)]
    finally:
        if kept is not None:
            os.close(kept)  # all have mapped it, or never will
    for other, answer in enumerate(answers):
        if answer["fault"] and gone(0):
            raise MemberLost("member 0 ended before the others had opened the memory it made")
        if answer["fault"]:
            raise Unshared(f"member {other} cannot reach the memory that members share: {answer['fault']}")
    assert found is not None
    whole, address, descriptor = found
    return Memory(whole, address, tuple(answer["remark"] for answer in answers), descriptor)


def _heard(store: Store, key: str, member: int, gone: Gone) -> bytes:
    """What a member says, when it does."""
    lost = False
    while True:
        try:
            store.wait([key], LOOK)
            return store.get(key)
        except RuntimeError:
            if not store.check([key]) and lost:  # where the store itself is gone, this says so
                raise MemberLost(f"member {member} ended before it shared memory with the others") from None
        lost = gone(member)  # and then once more: it may have said it before it ended


def _made(needed: int) -> tuple[int | None, dict[str, Any]]:
    """Member 0's part: a descriptor and the offer, or none and the reason."""
    try:
        if needed > (room := available()):
            return None, {"needed": needed, "available": room}
        kept = os.memfd_create("gossamer", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    except (AttributeError, OSError) as error:  # no /proc that can be read, or another system
        return None, {"fault": f"memory cannot be shared here: {error}"}
    try:
        os.posix_fallocate(kept, 0, needed)
        token = secrets.token_bytes(TOKEN)
        os.pwrite(kept, token, 0)
        fcntl.fcntl(kept, fcntl.F_ADD_SEALS, fcntl.F_SEAL_GROW | fcntl.F_SEAL_SHRINK)  # nobody's reads ever fail
    except OSError:
        os.close(kept)
        return None, {"needed": needed, "available": min(available(), needed - 1)}
    return kept, {"pid": os.getpid(), "descriptor": kept, "bytes": needed, "token": token.hex()}


def _opened(
    offer: dict[str, Any], needed: int, lockable: bool
) -> tuple[tuple[ctypes.Array[ctypes.c_char], int, int] | None, str]:
    """Everybody's part: the mapping, and a descriptor if it is to be locked; or what is wrong with it."""
    if "needed" in offer:
        raise NoRoom(offer["needed"], offer["available"])
    if "fault" in offer:
        raise Unshared(offer["fault"])
    if offer["bytes"] != needed:
        return None, f"it wants {needed:,} bytes where member 0 made {offer['bytes']:,}"
    path = f"/proc/{offer['pid']}/fd/{offer['descriptor']}"
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except OSError as error:
        return None, f"{path}: {error.strerror}"
    try:
        if os.fstat(descriptor).st_size != needed or os.pread(descriptor, TOKEN, 0).hex() != offer["token"]:
            return None, f"{path} is something else; members in different containers cannot share memory"
        whole, address = _mapped(descriptor, needed)
    except OSError as error:
        return None, f"{path}: {error.strerror}"
    finally:
        if not lockable:
            os.close(descriptor)
    if lockable:
        weakref.finalize(whole, os.close, descriptor)
    return (whole, address, descriptor if lockable else -1), ""


def _mapped(descriptor: int, needed: int) -> tuple[ctypes.Array[ctypes.c_char], int]:
    """Map it all, page tables filled in; Python's own mmap would keep a descriptor open."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
    libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
    flags = mmap.MAP_SHARED | mmap.MAP_POPULATE
    address = libc.mmap(None, needed, mmap.PROT_READ | mmap.PROT_WRITE, flags, descriptor, 0)
    if address in (None, ctypes.c_void_p(-1).value):
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    whole = (ctypes.c_char * needed).from_address(address)
    weakref.finalize(whole, libc.munmap, address, needed).atexit = False  # tensors may outlive all else at the exit
    return whole, address
