"""Who failed first, and how it is told: from how processes ended and the notes they left. Starts and stops nobody."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import msgspec

from gossamer.parts.refusal import Refused

STOPPED = (-signal.SIGTERM, -signal.SIGKILL)  # how a launcher ends those that go on
MOMENT = 0.5  # seconds in which a cause may still come to light, once its consequences have


class Note(msgspec.Struct):
    """What a worker wrote down as it failed."""

    rank: int
    time: float
    code: int
    type: str
    message: str
    traceback: str
    secondary: bool
    refused: bool


@dataclass(frozen=True)
class Death:
    """The end of a worker's process: its exit code, or minus the signal that killed it, and when that was seen."""

    rank: int
    pid: int
    code: int
    time: float


class WorkerFailed(RuntimeError):
    """A worker failed, and all others were stopped: the first whose failure is its own."""

    def __init__(self, rank: int, code: int, headline: str, traceback: str = "", short: str = "") -> None:
        super().__init__(f"{headline}\n{traceback}".rstrip("\n"))
        self.rank = rank
        self.code = code  # for a process that passes it on: the worker's own, or 128 and its signal
        self.headline = headline
        self.traceback = traceback
        self.short = short or headline  # one line


def notes_in(folder: Path) -> dict[int, Note]:
    """The notes workers left in this folder, by process."""
    found = {}
    for path in folder.glob("failed-*[0-9]"):
        with suppress(OSError, msgspec.MsgspecError):
            found[int(path.name.removeprefix("failed-"))] = msgspec.json.decode(path.read_bytes(), type=Note)
    return found


def only_secondary(deaths: Iterable[Death], notes: Mapping[int, Note]) -> bool:
    """Whether all that have failed so far only miss somebody else."""
    return all(death.pid in notes and notes[death.pid].secondary for death in deaths if death.code)


def by_rank(rank: int) -> str:
    """A worker in words, where nothing more is known of it."""
    return f"rank {rank}"


def blamed(
    deaths: Iterable[Death], notes: Mapping[int, Note], named: Callable[[int], str] = by_rank
) -> WorkerFailed | Refused:
    """The first failure in words."""
    death = first(deaths, notes)
    return told(death, notes.get(death.pid), named(death.rank))


def first(deaths: Iterable[Death], notes: Mapping[int, Note]) -> Death:
    """The first failure that is nobody else's: before those that only miss another, before those that were stopped."""
    failed = [death for death in deaths if death.code != 0 or death.pid in notes]
    began = min(death.time for death in failed)

    def order(death: Death) -> tuple[int, float]:
        note = notes.get(death.pid)
        if note is not None:
            return int(note.secondary), note.time
        return (2 if death.code in STOPPED and death.time > began else 0), death.time

    return min(failed, key=order)


def told(death: Death, note: Note | None, rank: str) -> WorkerFailed | Refused:
    """One failure in words; `rank` is how whoever failed is named."""
    if note is not None and note.refused:
        return Refused(f"{rank}: {note.message}")
    if note is not None and note.traceback:
        short = f"{rank}: {note.type}: {note.message}".splitlines()[0].removesuffix(": ")
        said = f"{rank} failed, and all others were stopped:"
        return WorkerFailed(death.rank, note.code, said, note.traceback, short)
    if note is None and death.code < 0:
        hint = "; if nobody did that, memory ran out" if death.code == -signal.SIGKILL else ""
        said = f"{rank} was killed by {_name(-death.code)}, and all others were stopped{hint}"
        return WorkerFailed(death.rank, 128 - death.code, said)
    code = death.code if note is None else note.code
    why = f": {note.message}" if note is not None and note.message else ""
    return WorkerFailed(death.rank, code, f"{rank} ended with code {code}, and all others were stopped{why}")


def ended(code: int) -> str:
    """How a process ended, in words."""
    return f"was killed by {_name(-code)}" if code < 0 else f"ended with code {code}"


def _name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
