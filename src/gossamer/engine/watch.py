"""Who is missing, and what it is doing: a sibling's Python stack, when to speak of it, and the words.

Knows nothing of exchanges but their names.
"""

from __future__ import annotations

import ctypes
import linecache
import os
import re
import runpy
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from traceback import walk_stack
from types import FrameType

from torch.distributed.distributed_c10d import Store

from gossamer.engine.launch.start import SHIM
from gossamer.engine.post import ASK, FILE, Place, Post, answer, host, place_of, question, stat

__all__ = ["Patience", "Post", "report", "stack_of"]

SOONEST, STEPS = 10.0, 5.0  # a wait is long after so many seconds, and so many usual steps
STACKS = 3  # in one report; more would bury the first
NAP, FAR = 0.005, 3.0  # seconds between two looks, and until a member on another host has answered
HEAD = re.compile(rb"^(?:Stack|Thread|Current thread)\b.*\(most recent call first\):$", re.MULTILINE)
FRAME = re.compile(r'  File "(?P<file>.*)", line (?P<line>\d+) in (?P<name>.*)')


def stack_of(store: Store, member: int, timeout: float = 2.0) -> str:
    """A member's Python stack, innermost call last; or a sentence that says why there is none."""
    place = place_of(store, member, timeout)
    if isinstance(place, str):
        return place
    if place.host != host():
        return _ask_far(store, member, max(timeout, FAR))
    try:
        return _ask(place, timeout)
    except (ProcessLookupError, FileNotFoundError):
        return "has ended"
    except OSError as error:  # another user's process
        return f"cannot be asked: {error.strerror}"


def ended(store: Store, member: int, timeout: float = 2.0) -> bool:
    """Whether a member of this host has ended, as far as can be told."""
    place = place_of(store, member, timeout)
    if isinstance(place, str) or place.host != host():
        return False
    try:
        start, state = stat(place.pid)
    except OSError as error:
        return isinstance(error, ProcessLookupError | FileNotFoundError)
    return start != place.start or state in "ZX"


def _ask_far(store: Store, member: int, timeout: float) -> str:
    """What a member on another host is doing, as a thread of its own says; or that it does not."""
    try:
        told, until = answer(member, store.add(question(member), 1)), time.monotonic() + timeout
        while time.monotonic() < until:
            if store.check([told]):
                return store.get(told).decode(errors="replace")
            time.sleep(NAP)
    except RuntimeError as error:
        return f"is on another host, and the store is gone: {str(error).splitlines()[0]}"
    return f"is on another host, and did not answer within {timeout:g} s"


def _ask(place: Place, timeout: float) -> str:
    start, state = stat(place.pid)
    if start != place.start or state in "ZX":
        return "has ended"
    if state in "Tt":
        return "is stopped (SIGSTOP)" if state == "T" else "is stopped by a debugger"
    file = f"/proc/{place.pid}/fd/{place.fd}"
    if FILE not in os.readlink(file):
        return "has left"
    with open(file, "rb") as written:
        known = written.seek(0, os.SEEK_END)
        for _ in range(2):  # they queue up: where the second answer begins, the first is complete
            _signal(place.pid)
        deadline = time.monotonic() + timeout
        while time.monotonic() < deadline:
            written.seek(known)
            text = written.read()
            heads = list(HEAD.finditer(text))
            if len(heads) > 1:
                return stack(text[heads[0].end() : heads[1].start()].decode(errors="replace"))
            time.sleep(NAP)
    return _silent(place, timeout)


def _signal(pid: int) -> None:
    """Ask a process's main thread: of a whole process, a thread that knows no Python may take the call."""
    if ctypes.CDLL(None, use_errno=True).tgkill(pid, pid, ASK):
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))


def _silent(place: Place, timeout: float) -> str:
    """Why a process may not have answered."""
    _, state = stat(place.pid)
    reasons = {"D": "is waiting for the disk", "T": "is stopped (SIGSTOP)", "Z": "has ended", "X": "has ended"}
    return reasons.get(state, f"did not answer within {timeout:g} s (busy outside Python)")


def stack(dump: str) -> str:
    """What a fault handler wrote, as Python prints a traceback: innermost call last, with the source where it is."""
    return _written([(found["file"], int(found["line"]), found["name"]) for found in FRAME.finditer(dump)][::-1])


def shown(frame: FrameType | None) -> str:
    """A thread of this process, in the same way."""
    return _written([(one.f_code.co_filename, line, one.f_code.co_name) for one, line in walk_stack(frame)][::-1])


def _written(frames: Sequence[tuple[str, int, str]]) -> str:
    lines = []
    for file, line, name in _own(frames):
        lines.append(f'  File "{file}", line {line}, in {name}')
        if source := linecache.getline(file, line).strip():
            lines.append(f"    {source}")
    return "\n".join(lines) if lines else "is not in Python (starting or ending)"


def _own(frames: Sequence[tuple[str, int, str]]) -> Sequence[tuple[str, int, str]]:
    """Without what ran the script, as python would show it; all of them where nothing else is there."""
    runner = [file in (SHIM, runpy.__file__, "<frozen runpy>") for file, _, _ in frames]
    first = runner.index(False) if False in runner else 0
    return frames[first:]


def lasting(usual: float) -> float:
    """Seconds after which a wait is a long one, where a step usually takes so many."""
    return max(SOONEST, STEPS * usual)


class Patience:
    """When a wait has lasted long enough to speak: after max(10 s, 5 usual steps), then each time it has doubled."""

    def __init__(self, usual: Callable[[], float]) -> None:
        self._usual = usual
        self._next: float | None = None

    @property
    def next(self) -> float:
        """Seconds of waiting after which the next report is due."""
        if self._next is None:
            self._next = lasting(self._usual())
        return self._next

    def due(self, waited: float) -> bool:
        """Whether to speak now; the next time is then at twice the wait."""
        if waited < self.next:
            return False
        self._next = 2.0 * max(waited, self.next)
        return True

    def calm(self) -> None:
        """The wait is over; the next begins anew."""
        self._next = None


def report(store: Store, missing: Sequence[int], me: int, exchange: str, step: int, waited: float) -> str:
    """Who is missing, where and for how long, with what the first of them are doing."""
    said = f"member {me} has waited {waited:.0f} s in step {step}: {named(missing)} not entered {exchange}"
    return "\n".join([said, *doing(store, missing)])


def doing(store: Store, missing: Sequence[int]) -> list[str]:
    """What the first of them are doing."""
    lines = []
    for member in missing[:STACKS]:
        found = stack_of(store, member)
        lines.append(f"member {member} is here:\n{found}" if found.startswith("  File") else f"member {member} {found}")
    if len(missing) > STACKS:
        lines.append(f"(the first {STACKS} of {len(missing)} are shown)")
    return lines


def away(store: Store, members: Sequence[int]) -> dict[int, str]:
    """Of members that should be waiting, too, those that cannot say where, and why."""
    if not members:
        return {}
    with ThreadPoolExecutor(len(members)) as pool:  # one after the other may take as many seconds as members
        told = pool.map(lambda member: stack_of(store.clone(), member), members)  # type: ignore[attr-defined]
        found = dict(zip(members, told, strict=True))
    return {member: why for member, why in found.items() if not why.startswith("  File")}


def named(missing: Sequence[int]) -> str:
    """Members as the beginning of what they have not done."""
    names = ", ".join(map(str, missing))
    return f"members {names} have" if len(missing) > 1 else f"member {names} has"
