"""The journal of a run: append-only JSON lines, one record each. Knows no player."""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from types import TracebackType

import msgspec

from gossamer.records.record import FORMAT, Header, Record

_decoder: msgspec.json.Decoder[Record] = msgspec.json.Decoder(Record, strict=False)
_NOT_A_NUMBER = re.compile(
    rb'("(?:loss|accuracy|divergence|cosine|bias|residual|lowest)":)null'
)  # JSON has no NaN: it is written as null


class Journal:
    """Appends records to a file, if there is one; a run that fails leaves what was written.

    A disk that is full stops no run: lines that find no room are left out, which is said once.
    """

    def __init__(self, path: Path | None, warn: Callable[[str], None] = warnings.warn) -> None:
        self.path, self._warn, self._told = path, warn, False
        self._encoder = msgspec.json.Encoder()
        self._file = None
        if path is not None:
            path.parent.mkdir(parents=True, exist_ok=True)
            torn = path.exists() and path.stat().st_size > 0 and not path.read_bytes().endswith(b"\n")
            self._file = path.open("ab", buffering=0)  # a line is there once written, whatever becomes of the run
            if torn:  # a killed run's last line must not spoil the first of this one
                self._file.write(b"\n")

    def write(self, record: Record) -> None:
        """Append one line."""
        if self._file is None:
            return
        line = self._encoder.encode(record) + b"\n"
        try:
            taken = self._file.write(line)
            if taken == len(line):
                return
            self._file.truncate(os.fstat(self._file.fileno()).st_size - taken)  # a part of it would spoil the next
            why = "no space is left"
        except OSError as error:
            why = str(error)
        if not self._told:
            self._told = True
            self._warn(f"{self.path} cannot be written ({why}); the run goes on, and what finds no room is left out")

    def close(self) -> None:
        """Nothing more is written."""
        if self._file is not None:
            self._file.close()

    def __enter__(self) -> Journal:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def decode(line: bytes) -> Record:
    """The record that a line of a journal holds."""
    return _decoder.decode(_NOT_A_NUMBER.sub(rb'\1"nan"', line))


def read(path: Path) -> Iterator[Record]:
    """The records of a journal; a torn last line, as a killed run leaves it, is passed over."""
    torn: msgspec.DecodeError | None = None  # forgiven at the end, or where another run's header follows
    with path.open("rb") as lines:
        for number, line in enumerate(lines):
            try:
                record = decode(line)
            except msgspec.DecodeError as error:
                torn = error
                continue
            if torn is not None and not isinstance(record, Header):
                raise ValueError(f"{path}, line {number}: not a journal line ({torn})")
            torn = None
            if isinstance(record, Header) and record.format > FORMAT:
                raise ValueError(f"{path} is of format {record.format}; this version reads up to {FORMAT}")
            yield record
