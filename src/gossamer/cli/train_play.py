"""One training run from its job to its end: workers started, watched through their journals, stopped when asked."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType

import msgspec

from gossamer.cli.train_folder import JOB, Kept
from gossamer.cli.train_progress import Progress
from gossamer.cli.train_request import Request
from gossamer.cli.train_screen import draw
from gossamer.cli.train_verdict import Verdict, verdict
from gossamer.records.tail import Tail
from gossamer.records.tally import Tally

COMMAND = ["-m", "gossamer.engine.training"]  # as python is told what a worker runs
POLL = 0.2  # seconds between looks at the journals


class Terminated(KeyboardInterrupt):
    """Somebody asked the run to end, as Ctrl-C does."""


@dataclass(frozen=True)
class Ending:
    """How a run ended: why it failed, if it did, the code to leave with, and a worker's own words."""

    failure: str | None = None
    code: int = 0
    words: str = ""


def play(request: Request, run: Kept, resumed: int | None, where: Sequence[str]) -> tuple[Verdict, Ending]:
    """Start the workers, watch them to the end, and sum up."""
    resume = None if resumed is None else run.checkpoints
    (run.folder / JOB).write_bytes(msgspec.json.encode(request.job(run.folder, resume)))
    tails, tally = [_tail(run, member) for member in range(request.world.size)], Tally()
    with Progress(request.steps, request.settings.batch) as progress, asked() as wanted:

        def look() -> None:
            for tail in tails:
                tally.take(tail.new())
            progress.show(tally)
            if wanted():
                draw(verdict(request, run.folder, tally, None, resumed), progress.console)

        ending = _watched(request.world.size, {"GOSSAMER_JOB": str(run.folder / JOB)}, where, look, progress.hear)
    for tail in tails:
        tally.take(tail.rest())
    found = verdict(request, run.folder, tally, ending.failure, resumed)
    return found, ending if ending.failure or not found.failure else Ending(found.failure, 1)


def _tail(run: Kept, member: int) -> Tail:
    """What is in a journal already is of the run before it was resumed."""
    path = run.journal(member)
    return Tail(path, path.stat().st_size if path.exists() else 0)


def _watched(
    size: int, env: dict[str, str], where: Sequence[str], look: Callable[[], None], hear: Callable[[int, str], None]
) -> Ending:
    from gossamer.engine.launch import WorkerFailed, Workers

    try:
        with Workers(COMMAND, size, env, where, hear) as workers:
            workers.wait(look, POLL)
    except WorkerFailed as error:
        first = str(error).partition("\n")[0].rstrip(":")
        return Ending(f"failed: {first}", error.code if error.code > 0 else 1, str(error))
    except Terminated:
        return Ending("was stopped", 128 + signal.SIGTERM)
    except KeyboardInterrupt:
        return Ending("was stopped", 128 + signal.SIGINT)
    return Ending()


@contextmanager
def asked() -> Iterator[Callable[[], bool]]:
    """While inside, SIGUSR1 asks for the verdict so far, once each time, and SIGTERM ends the run as Ctrl-C does."""
    waiting: list[int] = []

    def terminate(number: int, frame: FrameType | None) -> None:
        raise Terminated

    def note(number: int, frame: FrameType | None) -> None:
        waiting.append(number)

    before = {
        signal.SIGUSR1: signal.signal(signal.SIGUSR1, note),
        signal.SIGTERM: signal.signal(signal.SIGTERM, terminate),
    }
    try:
        yield lambda: bool(waiting) and bool(waiting.pop())
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
