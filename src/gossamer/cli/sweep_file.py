"""The file of a sweep: one JSON line per run, added as runs finish, so that a sweep broken off goes on from it."""

from __future__ import annotations

import os
from pathlib import Path
from types import TracebackType

import msgspec

from gossamer.cli.screen import writable
from gossamer.cli.sweep_case import Result, Setting
from gossamer.parts.refusal import Refused

BEGINS = b'{"setting":'  # what is cut off at the end of a file must at least begin as a line of ours


class Runs:
    """The runs that are in a file already, and a place for the next; without a path nothing is kept."""

    def __init__(self, path: Path | None, setting: Setting) -> None:
        self.path = path
        self.found: list[Result] = []
        self._file = None
        if path is None:
            return
        if path.is_dir():
            raise Refused(f"out: {str(path)!r} is a folder, not a file to write to", str(path / "sweep.jsonl"))
        writable(path)
        whole = read(path, setting, self.found) if path.exists() else 0
        self._file = path.open("ab")
        self._file.truncate(whole)  # what a killed sweep left of its last line

    def add(self, result: Result) -> None:
        """Append a run, and see it onto the disk: it may have taken minutes."""
        self.found.append(result)
        if self._file is not None:
            self._file.write(msgspec.json.encode(result) + b"\n")
            self._file.flush()
            os.fsync(self._file.fileno())

    def __enter__(self) -> Runs:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._file is not None:
            self._file.close()


def read(path: Path, setting: Setting, into: list[Result]) -> int:
    """Take up the runs of a file, all of one setting; the bytes of its whole lines."""
    text = path.read_bytes()
    whole = text.rfind(b"\n") + 1
    if not text[whole:].startswith(BEGINS[: len(text) - whole]):
        raise Refused(f"out: {path} does not end in a run of a sweep; it is left alone", "another file")
    for number, line in enumerate(text[:whole].splitlines(), 1):
        try:
            result = msgspec.json.decode(line, type=Result)
        except msgspec.DecodeError:
            raise Refused(
                f"out: line {number} of {path} is no run of a sweep; it is left alone", "another file"
            ) from None
        _alike(path, result.setting, setting)
        into.append(result)
    return whole


def _alike(path: Path, there: Setting, here: Setting) -> None:
    for name in Setting.__struct_fields__:
        old, new = getattr(there, name), getattr(here, name)
        if old != new:
            raise Refused(f"out: {path} holds runs with {name} {old}, and {new} is asked for", "another --out")
