"""The fixed header before every piece of a message, and the reasons for which one is dropped. Knows no socket."""

from __future__ import annotations

import hashlib
import hmac
import struct
from dataclasses import dataclass

from gossamer.engine.lines import DTYPES, GOT, KINDS, LOST, Numbers

MAGIC, VERSION = b"gsmr", 3
PIECE = 256 * 1024  # bytes; 4 MB pieces brought 0.62 of a 1 Gbit/s link, these 0.90
_HEADER = struct.Struct("<4sBBBx16sIIIIQQQ4q")
HEADER = _HEADER.size
NO_BODY = 255  # in the place of a type of number


@dataclass(frozen=True)
class Realm:
    """What a member listens to: one generation of one job, in a world of known size, bodies up to a limit."""

    job: bytes
    generation: int
    size: int
    limit: int  # bytes of a body


@dataclass(frozen=True)
class Head:
    """What is said of a piece before it comes: whose it is, what it means, and where in its body it lies."""

    sender: int
    kind: int
    slot: int
    dtype: int
    serial: int  # of the message, among its sender's to this listener
    length: int  # bytes of the whole body
    offset: int
    numbers: Numbers

    @property
    def piece(self) -> int:
        """Bytes that must follow."""
        return min(PIECE, self.length - self.offset)


def job_of(secret: bytes, name: str) -> bytes:
    """What stands for a job in headers: nobody without its secret can tell or make it."""
    return hmac.digest(secret, name.encode(), hashlib.sha256)[:16]


def written(realm: Realm, head: Head) -> bytes:
    """A header as it travels."""
    return _HEADER.pack(
        MAGIC, VERSION, head.kind, head.dtype, realm.job, realm.generation,
        head.sender, head.slot, 0, head.serial, head.length, head.offset, *head.numbers,
    )  # fmt: skip


def read(realm: Realm, data: bytes | memoryview) -> Head | str:
    """A header that belongs here, or the reason why it is dropped: the first of those below that holds."""
    if len(data) != HEADER:
        return "no header"
    magic, version, kind, dtype, job, generation, sender, slot, _, serial, length, offset, *numbers = _HEADER.unpack(
        data
    )
    if magic != MAGIC:
        return "no header"
    if version != VERSION:
        return "another version"
    if not hmac.compare_digest(job, realm.job):
        return "another job"
    if generation != realm.generation:
        return "another generation"
    if sender >= realm.size or kind not in (*KINDS, LOST, GOT) or (dtype >= len(DTYPES) and dtype != NO_BODY):
        return "nonsense"
    if length > realm.limit:
        return "too large"
    if offset % PIECE or (offset >= length and offset) or (length and dtype == NO_BODY):
        return "nonsense"
    if dtype != NO_BODY and length % DTYPES[dtype].itemsize:
        return "nonsense"
    return Head(sender, kind, slot, dtype, serial, length, offset, (numbers[0], numbers[1], numbers[2], numbers[3]))
