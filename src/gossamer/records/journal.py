"""The journal of a run: append-only JSON lines, one record each. Knows no player."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import TracebackType

import msgspec

from gossamer.records.record import FORMAT, Header, Record

_decoder = msgspec.json.Decoder(Record)


class Journal:
    """Appends records to a file, if there is one; a run that fails leaves what was written."""

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self._encoder = msgspec.json.Encoder()
        self._file = None
        if path is not None:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file = path.open("ab")

    def write(self, record: Record) -> None:
        """Append one line."""
        if self._file is not None:
            self._file.write(self._encoder.encode(record) + b"\n")

    def __enter__(self) -> Journal:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._file is not None:
            self._file.close()


def read(path: Path) -> Iterator[Record]:
    """The records of a journal; a torn last line, as a killed run leaves it, is passed over."""
    with path.open("rb") as lines:
        for number, line in enumerate(lines):
            try:
                record = _decoder.decode(line)
            except msgspec.DecodeError as error:
                if not line.endswith(b"\n"):
                    return
                raise ValueError(f"{path}, line {number + 1}: not a journal line ({error})") from None
            if isinstance(record, Header) and record.format > FORMAT:
                raise ValueError(f"{path} is of format {record.format}; this version reads up to {FORMAT}")
            yield record
