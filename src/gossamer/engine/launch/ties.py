"""What the launchers of a run tell each other while it lasts: that they are alive, that all must end, that all is done.

Every word goes through the store in a thread of its own: where a link is down only that thread waits.
"""

from __future__ import annotations

import threading
import time

import msgspec
from torch.distributed.distributed_c10d import Store

from gossamer.engine.launch.meeting import RUN, Meeting

EVERY, NAP = 0.5, 0.1  # seconds between two rounds of words, and near the end
SILENT = 30.0  # seconds after which a host counts as gone, where its workers have not found that out long before
SURVIVES, FALLS = "survives", "falls"  # where workers say that the others go on without one of them, or cannot
KEEPS = "keeps"  # where each says which shards of hubs it keeps
LINGER = 3.0  # seconds in which others may hear the last word


class Cause(msgspec.Struct, frozen=True):
    """Why all must end, in one line, as one launcher found it; `code` is what its process ends with."""

    host: int
    code: int
    line: str
    refused: bool = False


class Ties:
    """One launcher's hold on the others; with no others, nothing."""

    def __init__(self, meeting: Meeting) -> None:
        self.meeting, self.cause = meeting, None  # type: Meeting, Cause | None
        self._hosts, self._me, self._own = len(meeting.hosts), meeting.number, None  # type: int, int, Cause | None
        self._counted: dict[str, bool] = {"done": False, "out": False}  # what this launcher wants counted, and was
        self._wanted: set[str] = set()
        self._all_done, self._all_out, self._over = threading.Event(), threading.Event(), threading.Event()
        self._settled = threading.Event()
        self._answered, self._broken = time.monotonic(), False
        self._beats: dict[int, tuple[bytes, float]] = {}
        self.gone: set[int] = set()  # hosts without which the others go on
        self._kept: dict[int, str] = {}  # as last heard: the link may be down when it is asked for
        self.survives = False  # whether workers have said that the others go on when one of them is gone
        self._store: Store = meeting.store.clone()  # type: ignore[attr-defined]
        threading.Thread(target=self._keep, name="ties", daemon=True).start()

    def publish(self, cause: Cause) -> Cause:
        """Tell all that they must end; what holds is the first word that was said, this one or another's."""
        self._own = cause
        if self._hosts > 1:
            self._settled.wait(LINGER)
        return self.cause or cause

    def heard(self, seconds: float) -> Cause | None:
        """Another's word, if one comes within so many seconds."""
        if self._hosts > 1:
            self._settled.wait(seconds)
        return self.cause

    def lost(self, limit: float = SILENT) -> str | None:
        """A host whose launcher has not been heard of for so many seconds, in words."""
        if self._hosts == 1:
            return None
        now, first = time.monotonic(), self.meeting.named(0)
        if self._me and self._broken:
            return f"the launcher of {first} has ended"
        if (silent := now - self._answered) > limit:
            return f"{first}, which holds the store, has not been heard of for {silent:.0f} s"
        for host in self._silent(limit):
            return f"{self.meeting.named(host)} has not been heard of for {now - self._beats[host][1]:.0f} s"
        return None

    def let_go(self, limit: float = SILENT) -> bool:
        """Go on without a host that is lost, if workers have said that they can, and the store is not there."""
        lost = self._silent(limit)
        if not self.survives or not lost or 0 in lost or self._broken or time.monotonic() - self._answered > limit:
            return False
        self.gone.add(lost[0])
        return True

    def _silent(self, limit: float) -> list[int]:
        now, beats = time.monotonic(), list(self._beats.items())
        return [h for h, (_, since) in beats if h != self._me and h not in self.gone and now - since > limit]

    def kept_by(self, number: int) -> str:
        """The shards that a worker or a server keeps, in words; nothing where it keeps none."""
        return self._kept.get(number, "")

    def done(self, seconds: float) -> bool:
        """Say that all workers here have ended well; whether that is so everywhere within so many seconds."""
        self._wanted.add("done")
        return self._hosts == 1 or self._all_done.wait(seconds)

    def leave(self) -> None:
        """Leave; the store's host goes last, as far as it can be waited for."""
        self._wanted.add("out")
        if self._hosts > 1 and not self._broken:
            self._all_out.wait(LINGER)
        self._over.set()

    def _keep(self) -> None:
        try:
            while not self._over.wait(NAP if self._wanted or self._own else EVERY):
                self._round()
                self._answered = time.monotonic()
        except RuntimeError:  # the store has gone with its host
            self._broken = True
            self._all_out.set()

    def _round(self) -> None:
        store, now = self._store, time.monotonic()
        store.add(f"beat/{self._me}", 1)
        self.survives = store.check([SURVIVES]) and not store.check([FALLS])
        if store.check([KEEPS]):
            told = [line.partition(" ") for line in store.get(KEEPS).decode().splitlines()]
            self._kept = {int(number): shards for number, _, shards in told}
        if self._own is not None and self.cause is None:
            store.compare_set("cause", "", msgspec.json.encode(self._own).decode())
        if self.cause is None and store.check(["cause"]):
            self.cause = msgspec.json.decode(store.get("cause"), type=Cause)
            self._settled.set()
        for host, beat in enumerate(store.multi_get([f"beat/{host}" for host in range(self._hosts)])):
            if self._beats.get(host, (b"", 0.0))[0] != beat:
                self._beats[host] = (beat, now)
        for name, event, enough in self._counts():
            if name in self._wanted:
                first, self._counted[name] = not self._counted[name], True
                if store.add(name, int(first)) >= enough:
                    event.set()

    def _counts(self) -> tuple[tuple[str, threading.Event, int], ...]:
        left = self._hosts - len(self.gone)
        return ("done", self._all_done, left), ("out", self._all_out, left if self._me == 0 else 1)


def beat_of(host: int) -> str:
    """Where a host's launcher counts, as a worker finds it in the store."""
    return f"{RUN}/beat/{host}"
