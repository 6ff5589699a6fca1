"""Where a worker writes how far it is for its launcher to read, whatever its end: eight bytes of a file in memory."""

from __future__ import annotations

import mmap
import os
import struct
from contextlib import suppress
from pathlib import Path

from gossamer.engine.launch.worker import SLATE

WORD = struct.Struct("<q")


class Slate:
    """A worker's own; writing costs no call of the kernel."""

    def __init__(self, path: str | None) -> None:
        self._memory: mmap.mmap | None = None
        with suppress(OSError):
            if path:
                with open(path, "w+b") as file:
                    file.write(WORD.pack(0))
                    file.flush()
                    self._memory = mmap.mmap(file.fileno(), WORD.size)

    @classmethod
    def found(cls) -> Slate:
        """The one that the launcher has named, or none."""
        return cls(os.environ.get(SLATE))

    def write(self, step: int) -> None:
        """So many steps are done."""
        if self._memory is not None:
            WORD.pack_into(self._memory, 0, step)

    def close(self) -> None:
        """Nothing more is written; what was stays."""
        memory, self._memory = self._memory, None
        if memory is not None:
            memory.close()


def read(folder: Path, rank: int) -> int | None:
    """The step that a worker was in, from its launcher's folder of notes; None if it never came to a step."""
    with suppress(OSError, struct.error):
        return int(WORD.unpack((folder / f"step-{rank}").read_bytes()[: WORD.size])[0])
    return None
