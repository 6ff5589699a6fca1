"""The manifest: what a checkpoint consists of, sealed by its own sha256. Opens no file."""

from __future__ import annotations

import hashlib
import json
import re
from typing import Any

import msgspec

from gossamer.engine.checkpoint.names import MANIFEST, is_file_name
from gossamer.parts.refusal import Refused

FORMAT = 1
LARGEST = 1 << 26  # bytes of a manifest
_SEAL = re.compile(rb'\{\n "sha256": "([0-9a-f]{64})",')  # the first line, before the body it speaks for


class BadCheckpoint(Refused):
    """A checkpoint that must not be used: the file, what is wrong with it, and an earlier one that is whole."""


class FileNote(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a file must be, to the bit."""

    bytes: int
    sha256: str


class Manifest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Everything a checkpoint holds: its files by name, and the facts its writer put beside them."""

    format: int
    step: int
    files: dict[str, FileNote]
    facts: dict[str, Any]


def encode(manifest: Manifest) -> bytes:
    """The body as JSON, with the sha256 of exactly these bytes set before it; facts come back as they were or are
    refused."""
    try:
        text = json.dumps(msgspec.to_builtins(manifest), indent=1, allow_nan=False)
        same = json.loads(text)["facts"] == manifest.facts
    except (TypeError, ValueError, RecursionError) as error:
        raise Refused(
            f"checkpoint: its facts are not JSON ({error})", "pack() of them, which writes anything"
        ) from error
    if not same:
        raise Refused(
            "checkpoint: its facts change when written as JSON (tuples, keys that are no text)", "pack() of them"
        )
    body = text.encode()
    sealed = b'{\n "sha256": "%s",' % hashlib.sha256(body).hexdigest().encode() + body[1:] + b"\n"
    if len(sealed) > LARGEST:
        raise Refused(f"checkpoint: its facts take {len(sealed)} bytes, more than {LARGEST}", "tensors in a file")
    return sealed


def decode(data: bytes) -> Manifest:
    """The manifest of these bytes; the seal is checked before anything is read from them."""
    seal = _SEAL.match(data)
    if seal is None or not data.endswith(b"}\n"):
        raise BadCheckpoint(f"{MANIFEST} is cut short, or no manifest of a checkpoint")
    body = b"{" + data[seal.end() : -1]
    if hashlib.sha256(body).hexdigest().encode() != seal[1]:
        raise BadCheckpoint(f"{MANIFEST} is damaged: its sha256 is not the one it was sealed with")
    try:
        plain = json.loads(body)
        if isinstance(plain, dict) and isinstance(plain.get("format"), int) and plain["format"] > FORMAT:
            raise BadCheckpoint(f"{MANIFEST} is of format {plain['format']}; this version reads up to {FORMAT}")
        manifest = msgspec.convert(plain, Manifest, strict=True)
    except (ValueError, RecursionError) as error:
        if isinstance(error, BadCheckpoint):
            raise
        raise BadCheckpoint(f"{MANIFEST} is sealed but no manifest: {error}") from error
    return _sound(manifest)


def _sound(manifest: Manifest) -> Manifest:
    """Refuse names that are paths and sizes that are none, whoever sealed them."""
    if manifest.format < 1 or manifest.step < 0:
        raise BadCheckpoint(f"{MANIFEST} speaks of format {manifest.format} and step {manifest.step}")
    for name, note in manifest.files.items():
        if not is_file_name(name):
            raise BadCheckpoint(f"{MANIFEST} names the file {name!r}, which is no name for one")
        if note.bytes < 8 or not re.fullmatch(r"[0-9a-f]{64}", note.sha256):
            raise BadCheckpoint(f"{MANIFEST} has no right size and sha256 for {name}")
    return manifest
