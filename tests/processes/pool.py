"""Worker processes that play the cases of test files: started once, given one case after the other.

A case is an ordinary function that trains as a user would, on every member at once, and asserts what must hold there.
"""

from __future__ import annotations

import importlib
import io
import json
import os
import queue
import subprocess
import sys
import tempfile
import threading
import time
import traceback
import warnings
from collections.abc import Callable, Sequence
from contextlib import redirect_stderr, suppress
from pathlib import Path
from typing import Any

import pytest

from gossamer.engine.launch.start import environment, start

ROOT = Path(__file__).parent.parent.parent
SECONDS = 150.0  # for any one case; a busy machine may take ten times as long as a quiet one
START = 10.0  # more for each process that has to start, on a machine with few cores that is busy
CASES = 5  # that are played in one process group
Case = Callable[..., None]


class Member:
    """What a case is given: which member it plays, and `prepare` on the fabric it is tried on."""

    def __init__(self, fabric: str, said: io.StringIO) -> None:
        self.rank, self.size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
        self.fabric, self.said, self.sessions = fabric, said, list[Any]()

    def prepare(self, *things: Any, **how: Any) -> Any:
        """`gossamer.prepare`, whose session ends with the case."""
        import gossamer
        from gossamer.engine.loop.prepare import session_of

        given = gossamer.prepare(*things, **{"fabric": self.fabric, **how})
        self.sessions.append(session_of(next(thing for thing in things if hasattr(thing, "named_parameters"))))
        return given

    def same(self, tensor: Any, within: float = 0.0) -> None:
        """All members must have called it with the same numbers."""
        import torch
        import torch.distributed as dist

        found = [torch.empty_like(tensor.detach().contiguous()) for _ in range(self.size)]
        dist.all_gather(found, tensor.detach().contiguous())
        for rank, theirs in enumerate(found):
            assert (theirs - found[0]).abs().max().item() <= within, f"member {rank} differs from member 0"


class Pool:
    """`size` processes, told that they are on so many hosts; after a case that failed they are started anew."""

    def __init__(self, size: int, hosts: int = 1) -> None:
        self.size, self.per_host = size, -(-size // hosts)
        self._processes: list[subprocess.Popen[str]] = []
        self._said: queue.Queue[tuple[int, str]] = queue.Queue()

    def play(self, case: Case, **given: object) -> None:
        """Play a case on all members; the first that fails is told."""
        until = time.monotonic() + SECONDS
        if not self._processes:
            until += START * self.size
            self._begin()
        line = json.dumps({"module": case.__module__, "case": case.__name__, "given": given}) + "\n"
        for process in self._processes:
            assert process.stdin is not None
            process.stdin.write(line)
            process.stdin.flush()
        failures = self._hear(until)
        if failures:
            self.end()
            raise AssertionError("\n".join(failures))

    def end(self) -> None:
        """No process is left."""
        for process in self._processes:
            process.kill()
        for process in self._processes:
            process.wait()
            for pipe in (process.stdin, process.stdout):
                with suppress(OSError):
                    assert pipe is not None
                    pipe.close()
        if self._processes:
            self._folder.cleanup()
        self._processes = []

    def _begin(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="gossamer-pool-")
        self._said = queue.Queue()
        for rank in range(self.size):
            host, here = divmod(rank, self.per_host)
            count = min(self.per_host, self.size - host * self.per_host)
            env = environment(rank, self.size, Path(self._folder.name), [str(ROOT)])
            env |= {"GROUP_RANK": str(host), "LOCAL_RANK": str(here), "LOCAL_WORLD_SIZE": str(count)}
            process = start(["-m", "tests.processes.pool"], env, subprocess.PIPE, subprocess.STDOUT)
            self._processes.append(process)
            threading.Thread(target=self._listen, args=(rank, process, self._said), daemon=True).start()

    def _listen(self, rank: int, process: subprocess.Popen[str], said: queue.Queue[tuple[int, str]]) -> None:
        assert process.stdout is not None
        with suppress(ValueError):
            for line in process.stdout:
                said.put((rank, line))
        said.put((rank, ""))

    def _hear(self, until: float) -> list[str]:
        waiting, failures, noise = set(range(self.size)), list[str](), list[str]()
        while waiting:
            try:
                rank, line = self._said.get(timeout=max(0.0, until - time.monotonic()))
            except queue.Empty:
                return [*failures, f"members {sorted(waiting)} did not end the case in time", *noise[-30:]]
            if line == "fine\n":
                waiting.discard(rank)
            elif line.startswith("failed ") or not line:
                told = json.loads(line[7:]) if line else "it ended: " + "".join(noise[-30:])
                failures.append(f"--- member {rank}:\n{told}")
                waiting.discard(rank)
                until = min(until, time.monotonic() + 1.0)  # the others may wait for it for ever
            else:
                noise.append(line)
        return failures


def everywhere(
    worlds: Sequence[int] = (2, 3), fabrics: Sequence[str] = ("shared", "torch", "hosts"), **each: Sequence[object]
) -> Callable[[Case], Case]:
    """Make a case a test: played by pools of these sizes on these fabrics, for every value of further arguments.

    Of several sizes the usual run plays the smallest over torch and the largest elsewhere, the long one all.
    """

    def wrap(case: Case) -> Case:
        def test(pools: Callable[[int, int], Pool], world: int, fabric: str, given: dict[str, object]) -> None:
            pools(world, 2 if fabric == "hosts" else 1).play(case, fabric=fabric, **given)

        options: list[dict[str, object]] = [{}]
        for name, values in each.items():
            options = [{**option, name: value} for option in options for value in values]
        ids = ["-".join(str(v) for v in option.values()) or "plain" for option in options]
        test = pytest.mark.parametrize("given", options, ids=ids)(test)
        places = [
            pytest.param(
                world, fabric, marks=[] if world == (min if fabric == "torch" else max)(worlds) else pytest.mark.long
            )
            for world in worlds
            for fabric in fabrics
            if world > 2 or fabric != "hosts"
        ]
        test = pytest.mark.parametrize("world, fabric", places)(test)
        test.__name__, test.__doc__, test.__module__ = case.__name__, case.__doc__, case.__module__
        test.case = case  # type: ignore[attr-defined]
        return test

    return wrap


def _play(asked: dict[str, Any]) -> str:
    """What to answer: fine, or what went wrong."""
    said, given = io.StringIO(), asked["given"]
    member = Member(given.pop("fabric"), said)
    with redirect_stderr(said), warnings.catch_warnings():
        try:
            case = getattr(importlib.import_module(asked["module"]), asked["case"]).case
            warnings.simplefilter("error")
            case(member, **given)
            for session in member.sessions:
                session.close()
        except BaseException:
            return "failed " + json.dumps(traceback.format_exc() + said.getvalue())
    return "fine"


def main() -> None:
    """Play one case after the other, as they come in."""
    import torch

    from gossamer.engine.loop.place import join

    torch.set_num_threads(1)
    first = os.environ["GOSSAMER_STORE"]
    for number, line in enumerate(sys.stdin):
        if number % CASES == 0:  # whoever comes to a store in a file reads all that was ever said there
            _part()
            os.environ["GOSSAMER_STORE"] = f"{first}-{number}"
            join()
        print(_play(json.loads(line)), flush=True)


def _part() -> None:
    """Leave the process group, if there is one, when all have come so far."""
    import torch.distributed as dist

    if dist.is_initialized():
        dist.barrier()
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
