"""A run on a fixed number of hosts, one launcher on each: they meet, play, and end together, for one reason.

Hosts that come and go are left to torch's own launcher.
"""

from __future__ import annotations

import signal
import time
from argparse import Namespace
from collections.abc import Callable
from pathlib import Path
from typing import Any

from torch.distributed.elastic.multiprocessing import SignalException
from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
from torch.distributed.launcher.api import LaunchConfig

from gossamer.engine.launch.agent import LOOK, Agent, Elsewhere, Handler
from gossamer.engine.launch.failure import MOMENT, Death, WorkerFailed, blamed, notes_in, only_secondary
from gossamer.engine.launch.guard import Guard
from gossamer.engine.launch.host import about
from gossamer.engine.launch.meeting import Meeting, compare, meet
from gossamer.engine.launch.servers import Servers
from gossamer.engine.launch.start import keeping, party
from gossamer.engine.launch.ties import Cause, Ties
from gossamer.parts.refusal import Refused

CONNECT, JOIN = 15.0, 600.0  # seconds until the first launcher answers, and until all are there, unless told otherwise
# seconds in which the cause may come from another host, where workers here have only missed somebody
CAUSE, QUIET = 6.0, 2.5


class Stopped(Exception):
    """The launcher ended, and its workers with it, for a reason that lies with none of them."""

    def __init__(self, reason: str, code: int) -> None:
        super().__init__(reason)
        self.code = code


def asked_to(number: int) -> Stopped:
    """Somebody wants this to end."""
    return Stopped(f"stopped by {signal.Signals(number).name}", 128 + number)


def together(
    asked: Namespace, config: LaunchConfig, command: list[Any], guard: Guard, folder: Path
) -> Exception | None:
    """Meet the other hosts and run; what went wrong, if anything did, the same on all of them."""
    meeting = _meet(asked, config)
    compare(meeting, asked.key)
    ties = Ties(meeting)
    guard.spares = lambda: ties.survives
    handler = Handler(config.run_id, asked.where[0], meeting, lambda: _meet(asked, config, (asked.where[0], 0)))
    try:
        with Servers(command, asked.servers, meeting) as servers:
            Agent(config, command, handler, ties, folder, servers).perform()
        return None
    except ChildFailedError as error:
        return _ours(deaths(guard, error), ties, folder)
    except Elsewhere as error:
        return _theirs(guard, ties, folder, str(error))
    except SignalException as error:
        return _said(ties, asked_to(error.sigval))
    except (ValueError, RuntimeError, AssertionError, TimeoutError, OSError) as error:
        if guard.anybody:
            raise
        return _said(ties, Refused(f"run: no worker could be started: {error.__cause__ or error}"))
    finally:
        ties.leave()


def deaths(guard: Guard, error: ChildFailedError) -> list[Death]:
    """How workers ended, and when, as it was seen: torch knows that to the second only, so the guard gets a moment."""
    found, until = [], time.monotonic() + MOMENT
    for rank, failure in error.failures.items():
        while failure.pid not in guard.deaths and time.monotonic() < until:
            time.sleep(0.01)
        seen = guard.deaths.get(failure.pid)
        when = failure.timestamp + 1.0 if seen is None else seen.time
        found.append(Death(rank, failure.pid, failure.exitcode, when))
    return found


def _meet(asked: Namespace, config: LaunchConfig, where: tuple[str, int] | None = None) -> Meeting:
    given = (asked.strategy, asked.fabric, asked.servers)
    mine = about(asked.address, asked.workers, asked.hosts, given, asked.key, "" if asked.standalone else asked.rdzv_id)
    told = config.rdzv_configs.get("join_timeout", "")
    try:
        connect, join = (float(told or usual) for usual in (CONNECT, JOIN))
    except ValueError:
        raise Refused(f"run: join_timeout={told} is no number of seconds", "join_timeout=60") from None
    number = 0 if asked.hosts == 1 else asked.number
    return meet(where or asked.where, mine, number, connect, join)


def _ours(ended: list[Death], ties: Ties, folder: Path) -> Exception:
    """Workers here have failed: why, unless they only missed somebody on another host, who has the say then."""
    notes = notes_in(folder)
    if only_secondary(ended, notes):
        until, lost, cause = time.monotonic() + CAUSE, None, None
        while cause is None and lost is None and time.monotonic() < until and len(ties.meeting.hosts) > 1:
            cause, lost = ties.heard(LOOK), ties.lost(QUIET)
        if cause is not None:
            return _passed_on(ties, cause)
        if lost is not None:
            return _said(ties, Stopped(f"{lost}, and all workers here were stopped", 1))
    return _said(ties, blamed(ended, notes, _named(ties)))


def _theirs(guard: Guard, ties: Ties, folder: Path, lost: str) -> Exception:
    """All must end for what happened on another host; a cause that was noted here goes before a host that is lost."""
    if ties.cause is not None:
        return _passed_on(ties, ties.cause)
    notes = notes_in(folder)
    own = [death for pid, death in guard.deaths.items() if pid in notes and not notes[pid].secondary]
    if own:
        return blamed(own, notes, _named(ties))
    return _said(ties, Stopped(f"{lost}, and all workers here were stopped", 1))


def _named(ties: Ties) -> Callable[[int], str]:
    """How workers and servers are named, with the shards that they kept."""
    size = sum(host.workers for host in ties.meeting.hosts)
    return lambda rank: keeping(party(rank, size), ties.kept_by(rank))


def _said(ties: Ties, failure: WorkerFailed | Refused | Stopped) -> Exception:
    """Tell the other hosts why all end; if another was faster, that is the reason."""
    short = failure.short if isinstance(failure, WorkerFailed) else str(failure)
    code = 2 if isinstance(failure, Refused) else failure.code
    mine = Cause(ties.meeting.number, code, short, isinstance(failure, Refused))
    held = ties.publish(mine)
    return failure if held.host == mine.host else _passed_on(ties, held)


def _passed_on(ties: Ties, cause: Cause) -> Exception:
    line = f"{ties.meeting.named(cause.host)}: {cause.line}"
    return Refused(line) if cause.refused else Stopped(line, cause.code)
