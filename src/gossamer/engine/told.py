"""What another process says of itself, read: who cannot be understood is refused by name. Knows no store."""

from __future__ import annotations

from importlib.metadata import version
from typing import TypeVar

import msgspec

from gossamer.parts.refusal import Refused

LONGEST = 40  # characters of a version that are told
T = TypeVar("T")


def read(said: bytes, kind: type[T], who: str) -> T:
    """What `who` says of itself; one that writes it otherwise has another version of gossamer."""
    try:
        return msgspec.json.decode(said, type=kind)
    except msgspec.MsgspecError:
        theirs, address = _found(said, "gossamer"), _found(said, "address")
        name = f"{who} ({address})" if address else who
        other = f"has gossamer {theirs}, and here it is {version('gossamer')}" if theirs else "has another gossamer"
        said_so = f"{name} {other}: what it says of itself cannot be read"
        raise Refused(said_so, "the same gossamer everywhere") from None


def _found(said: bytes, name: str) -> str | None:
    """A word of what was said, if that can be made out."""
    try:
        words = msgspec.json.decode(said)
    except msgspec.MsgspecError:
        return None
    word = words.get(name) if isinstance(words, dict) else None
    return word[:LONGEST] if isinstance(word, str) and word.isprintable() else None
