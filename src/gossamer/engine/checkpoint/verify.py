"""The bytes of a checkpoint against its manifest. Follows no link, and decodes nothing but the manifest."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from gossamer.engine.checkpoint.manifest import LARGEST, BadCheckpoint, Manifest, decode
from gossamer.engine.checkpoint.names import MANIFEST, step_of

_CHUNK = 1 << 22  # bytes hashed at a time
_PLAINLY = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK  # no link, and no pipe that keeps us waiting


def verify(folder: Path) -> Manifest:
    """Compare every byte of a checkpoint with what was sealed; all sizes first, since they cost nothing."""
    manifest = _manifest(folder)
    named = step_of(folder)
    if named is not None and named != manifest.step:
        raise BadCheckpoint(f"{folder} holds step {manifest.step}: it was renamed, or its {MANIFEST} is another's")
    _no_stranger(folder, manifest)
    for check in (_sized, _hashed):
        for file in manifest.files:
            check(folder, file, manifest)
    return manifest


def contents(folder: Path, file: str, manifest: Manifest) -> bytes:
    """A file's bytes, hashed after they were read: whatever happens to the file now, these are the sealed ones."""
    note = manifest.files[file]
    with _opened(folder, file, note.bytes) as descriptor:
        data = _read(descriptor, note.bytes)
    if len(data) != note.bytes or hashlib.sha256(data).hexdigest() != note.sha256:
        raise BadCheckpoint(f"{folder / file} was changed after it had been verified")
    return data


def _manifest(folder: Path) -> Manifest:
    with _opened(folder, MANIFEST, None) as descriptor:
        data = _read(descriptor, LARGEST)
    try:
        return decode(data)
    except BadCheckpoint as bad:
        raise BadCheckpoint(f"{folder}: {bad.reason}") from bad


def _no_stranger(folder: Path, manifest: Manifest) -> None:
    """Refuse files nobody sealed; hidden ones belong to file systems and file browsers."""
    seen = {name for name in os.listdir(folder) if not name.startswith(".")}
    strange = sorted(seen - manifest.files.keys() - {MANIFEST})
    if strange:
        raise BadCheckpoint(f"{folder / strange[0]} is not in the {MANIFEST}: take it out if you know where it is from")


def _sized(folder: Path, file: str, manifest: Manifest) -> None:
    with _opened(folder, file, manifest.files[file].bytes):
        pass


def _hashed(folder: Path, file: str, manifest: Manifest) -> None:
    note, digest = manifest.files[file], hashlib.sha256()
    with _opened(folder, file, note.bytes) as descriptor:
        while part := os.read(descriptor, _CHUNK):
            digest.update(part)
    if digest.hexdigest() != note.sha256:
        raise BadCheckpoint(f"{folder / file} is damaged, or of another checkpoint: its sha256 is not the sealed one")


@contextmanager
def _opened(folder: Path, file: str, size: int | None) -> Iterator[int]:
    """A regular file of this size (any up to the largest manifest for None), open for reading; else a refusal."""
    path = folder / file
    try:
        descriptor = os.open(path, _PLAINLY)
    except OSError as error:
        why = "is a link" if path.is_symlink() else "is missing" if not path.exists() else f"cannot be read: {error}"
        raise BadCheckpoint(f"{path} {why}") from error
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise BadCheckpoint(f"{path} is no regular file")
        if status.st_size > LARGEST if size is None else status.st_size != size:
            wanted = f"at most {LARGEST}" if size is None else str(size)
            raise BadCheckpoint(f"{path} has {status.st_size} bytes, not {wanted}")
        yield descriptor
    except OSError as error:
        raise BadCheckpoint(f"{path} cannot be read: {error}") from error
    finally:
        os.close(descriptor)


def _read(descriptor: int, most: int) -> bytes:
    with os.fdopen(os.dup(descriptor), "rb") as file:
        return file.read(most)
