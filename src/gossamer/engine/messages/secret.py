"""The job secret: 32 bytes in a file that only its owner can read. Knows not who is told where it lies."""

from __future__ import annotations

import os
import secrets
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from gossamer.parts.refusal import Refused

LENGTH = 32  # bytes


def made(path: str | Path) -> bytes:
    """Write a new secret; a file that is there already stays as it is."""
    secret = secrets.token_bytes(LENGTH)
    try:
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        raise Refused(f"key: {path} is there already", "another name; or remove it, if no job uses it") from None
    except OSError as error:
        raise Refused(f"key: {path} cannot be written: {error.strerror}", "a folder of your own") from None
    with os.fdopen(fd, "wb") as file:
        os.fchmod(fd, 0o600)  # whatever the umask
        file.write(secret)
    return secret


@contextmanager
def lent() -> Iterator[tuple[str, bytes]]:
    """A new secret that other processes of this user find at a path for as long as this lasts, or the process does."""
    if not hasattr(os, "memfd_create"):
        with tempfile.TemporaryDirectory(prefix="gossamer-key-") as folder:
            yield f"{folder}/key", made(f"{folder}/key")
        return
    secret, fd = secrets.token_bytes(LENGTH), os.memfd_create("gossamer-key")
    try:
        os.fchmod(fd, 0o600)
        os.write(fd, secret)
        yield f"/proc/{os.getpid()}/fd/{fd}", secret
    finally:
        os.close(fd)


def read(path: str | Path) -> bytes:
    """The secret in a file; refuses what others could have read or written, and what is none."""
    try:
        # opened first and looked at then, so that what is judged is what is read; a pipe must not make us wait
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    except OSError as error:
        raise Refused(f"key: {path} cannot be read: {error.strerror}", "gossamer key FILE makes one") from None
    with os.fdopen(fd, "rb") as file:
        found = os.fstat(fd)
        if not stat.S_ISREG(found.st_mode):
            raise Refused(f"key: {path} is not a file", "gossamer key FILE makes one")
        if found.st_uid not in (os.geteuid(), 0):
            raise Refused(f"key: {path} belongs to another user", "a copy of your own")
        if found.st_mode & 0o077:
            raise Refused(f"key: {path} is open to other users (mode {found.st_mode & 0o777:o})", f"chmod 600 {path}")
        secret = file.read(LENGTH + 1)
    if len(secret) != LENGTH:
        held = f"{found.st_size} bytes" if found.st_size else "nothing"
        raise Refused(f"key: {path} holds {held}, a secret has {LENGTH}", "gossamer key FILE makes one")
    return secret
