"""A journal that is still being written, read as it grows: only new bytes, only whole lines. Knows no player."""

from __future__ import annotations

from pathlib import Path

import msgspec

from gossamer.records.journal import decode
from gossamer.records.record import Record

MOST = 1 << 22  # bytes in one look, so that a long journal is no long stop


class Tail:
    """What came to a journal since the last look; `since` skips what an earlier run left there.

    The last line may be torn: it is read again once it is whole. A line that is none of ours is passed over and
    counted, since whoever only watches must not stop the run.
    """

    def __init__(self, path: Path, since: int = 0) -> None:
        self.path, self.place, self.strange = path, since, 0

    def new(self) -> list[Record]:
        """The records that came since; none where there is no journal yet."""
        try:
            with self.path.open("rb") as file:
                file.seek(self.place)
                text = file.read(MOST)
        except FileNotFoundError:
            return []
        whole = text.rfind(b"\n") + 1
        self.place += whole
        return [record for line in text[:whole].splitlines() if line and (record := self._read(line)) is not None]

    def _read(self, line: bytes) -> Record | None:
        try:
            return decode(line)
        except msgspec.DecodeError:
            self.strange += 1
            return None

    def rest(self) -> list[Record]:
        """Everything that is still to come, once nobody writes any more."""
        found, place = self.new(), -1
        while place != self.place:
            place = self.place
            found += self.new()
        return found
