"""One training run from its job to its end: workers started, watched through their journals, stopped when asked."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import msgspec

from gossamer.cli.train_folder import JOB, Kept
from gossamer.cli.train_progress import Progress
from gossamer.cli.train_request import Request
from gossamer.cli.train_screen import draw
from gossamer.cli.train_signals import Stopped, Wishes
from gossamer.cli.train_verdict import Verdict, verdict
from gossamer.engine.launch.failure import Death, ended
from gossamer.engine.launch.start import party
from gossamer.records.tail import Tail
from gossamer.records.tally import Tally

COMMAND = ["-m", "gossamer.engine.training"]  # as python is told what a worker runs
POLL = 0.2  # seconds between looks at the journals


@dataclass(frozen=True)
class Ending:
    """How a run ended: why it failed, if it did, the code to leave with, and a worker's own words."""

    failure: str | None = None
    code: int = 0
    words: str = ""


def play(request: Request, run: Kept, resumed: int | None, where: Sequence[str]) -> tuple[Verdict, Ending]:
    """Start the workers, watch them to the end, and sum up."""
    resume = None if resumed is None else run.resumes
    (run.folder / JOB).write_bytes(msgspec.json.encode(request.job(run.folder, resume)))
    tails, tally = [_tail(run, member) for member in range(request.world.size)], Tally()
    with Progress(request.steps, request.mean_batch) as progress, Wishes() as wishes:

        def look() -> None:
            for tail in tails:
                tally.take(tail.new())
            progress.show(tally)
            if wishes.heed():
                draw(verdict(request, run.folder, tally, None, resumed), progress.console)

        def lost(death: Death) -> None:
            look()
            step = tally.lose(death.rank)
            progress.say(f"rank {death.rank} {ended(death.code)} in step {step}; the others go on")

        job = {"GOSSAMER_JOB": str(run.folder / JOB)}
        size = request.world.size

        def hear(rank: int, line: str) -> None:
            progress.hear(str(rank) if rank < size else party(rank, size), line)

        workers = (size, job, where, hear, request.settings.servers)
        ending = _watched(workers, look, lost)
        for tail in tails:
            tally.take(tail.rest())
        progress.last(tally)
    found = verdict(request, run.folder, tally, ending.failure, resumed)
    return found, ending if ending.failure or not found.failure else Ending(found.failure, 1)


def _tail(run: Kept, member: int) -> Tail:
    """What is in a journal already is of the run before it was resumed."""
    path = run.journal(member)
    return Tail(path, path.stat().st_size if path.exists() else 0)


def _watched(
    started: tuple[int, dict[str, str], Sequence[str], Callable[[int, str], None], int],
    look: Callable[[], None],
    lost: Callable[[Death], None],
) -> Ending:
    from gossamer.engine.launch import WorkerFailed, Workers

    try:
        with Workers(COMMAND, *started) as workers:
            workers.wait(look, POLL, lost)
    except WorkerFailed as error:
        return Ending(f"failed: {error.short}", error.code if error.code > 0 else 1, str(error))
    except Stopped as error:
        return Ending("was stopped", error.code)
    return Ending()
