"""Files and folders that are on the disk for good once a call returns. Knows nothing of what is in them."""

from __future__ import annotations

import ctypes
import errno
import hashlib
import os
import shutil
from pathlib import Path

_CHUNK = 1 << 22  # bytes hashed and handed over at a time
_HERE, _EXCHANGE = -100, 2  # AT_FDCWD and RENAME_EXCHANGE of the kernel


def write(path: Path, data: bytes) -> str:
    """Make a new file of `data`, flushed to the disk; its sha256, taken in the same pass. A failure leaves no file."""
    digest, view = hashlib.sha256(), memoryview(data)
    with path.open("xb", buffering=0) as file:
        try:
            for start in range(0, len(view), _CHUNK):
                _all(file.fileno(), view[start : start + _CHUNK])
                digest.update(view[start : start + _CHUNK])
            os.fsync(file.fileno())
        except BaseException:
            path.unlink(missing_ok=True)
            raise
    return digest.hexdigest()


def _all(descriptor: int, part: memoryview) -> None:
    while part:
        part = part[os.write(descriptor, part) :]


def flush(folder: Path) -> None:
    """Make the names in a folder last: what was made in it, renamed or removed."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def appear(draft: Path, folder: Path) -> None:
    """`folder` becomes what `draft` was, in one move; what stood there before is removed."""
    if not folder.exists():
        draft.rename(folder)
    elif not _exchanged(draft, folder):
        vanish(folder)
        draft.rename(folder)
    flush(folder.parent)
    remove(draft)


def vanish(folder: Path) -> None:
    """Remove a folder so that no reader meets what is left of it: it first loses its name."""
    gone = folder.with_name(f".{folder.name}.gone")
    remove(gone)
    folder.rename(gone)
    remove(gone)


def remove(folder: Path) -> None:
    """Remove a folder with all that is in it, if it is there; a link is only unlinked."""
    if folder.is_symlink() or folder.is_file():
        folder.unlink()
    elif folder.exists():
        shutil.rmtree(folder)


def _exchanged(one: Path, other: Path) -> bool:
    """Swap two folders in one move; False where the system or the file system cannot."""
    swap = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if swap is None:
        return False
    if swap(_HERE, os.fsencode(one), _HERE, os.fsencode(other), _EXCHANGE) == 0:
        return True
    code = ctypes.get_errno()
    if code in (errno.EINVAL, errno.ENOSYS, errno.ENOTSUP):
        return False
    raise OSError(code, os.strerror(code), str(other))
