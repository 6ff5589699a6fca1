"""Plays the runs of a sweep, several processes side by side. Knows no screen and no file."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from math import isfinite
from threading import Thread
from time import perf_counter
from typing import TYPE_CHECKING

from gossamer.cli.sweep_case import Case, Curve, Result
from gossamer.parts.refusal import Refused

if TYPE_CHECKING:
    from gossamer.cli.perform import Run

Watch = Callable[[Sequence[Case]], None]  # is told what is running


def play(case: Case) -> Result:
    """One run; the same numbers in whatever process and order it is played."""
    import torch

    from gossamer.cli.perform import perform

    torch.set_num_threads(1)  # one thread adds up alike on every machine, and the runs share the cores
    began = perf_counter()
    try:
        run = perform(case.request, case.part, case.request.plan(case.part), None, lambda outcome, total: None)
    except Refused as error:
        raise Refused(f"{case.label}: {error.reason}", error.nearest) from None  # a nearest that travels
    return result(case, run, perf_counter() - began)


def result(case: Case, run: Run, wall: float) -> Result:
    """A run that was played, as a line of the sweep; what is no number is None."""
    from gossamer.cli.report import numbers

    sums, seen, key = numbers(run), run.outcome.evaluations, case.key
    return Result(
        setting=case.setting,
        strategy=key.strategy,
        expression=case.part.text,
        workers=key.workers,
        rate=key.rate,
        straggler=key.straggler,
        seed=key.seed,
        steps=run.plan.steps,
        samples=len(run.outcome.steps) * run.plan.batch,
        seconds=sums.seconds,
        accuracy=_number(sums.last.accuracy),
        loss=_number(sums.last.loss),
        efficiency=sums.efficiency,
        bytes_sent_per_member=sums.sent,
        divergence=_number(sums.last.divergence),
        failure=sums.failure,
        wall_seconds=wall,
        curve=Curve(
            [each.time for each in seen],
            [each.epochs for each in seen],
            [_number(each.accuracy) for each in seen],
            [_number(each.loss) for each in seen],
        ),
    )


def _number(value: float) -> float | None:
    return value if isfinite(value) else None


def results(cases: Sequence[Case], jobs: int, watch: Watch) -> Iterator[Result]:
    """The cases' results as they come; with one job everything happens in this process."""
    if min(jobs, len(cases)) <= 1:
        for case in cases:
            watch([case])
            yield play(case)
        return
    with _pool(min(jobs, len(cases))) as pool:
        left, running = list(reversed(cases)), dict[Future[Result], Case]()
        while left or running:
            while left and len(running) < jobs:
                case = left.pop()
                running[pool.submit(play, case)] = case
            watch(list(running.values()))
            for done in wait(running, return_when=FIRST_COMPLETED).done:
                case = running.pop(done)
                yield _result(done, case)


def _result(done: Future[Result], case: Case) -> Result:
    try:
        return done.result()
    except BrokenProcessPool:
        raise Refused(f"{case.label}: its process was ended from outside", "fewer --jobs, if memory is short") from None


@contextmanager
def _pool(jobs: int) -> Iterator[ProcessPoolExecutor]:
    """Fresh processes; if the sweep is broken off they are ended, not waited for."""
    before = set(multiprocessing.active_children())
    pool = ProcessPoolExecutor(jobs, multiprocessing.get_context("spawn"), _begin)
    try:
        yield pool
    except BaseException:
        for child in set(multiprocessing.active_children()) - before:
            child.terminate()
        raise
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def _begin() -> None:
    """Ctrl-C reaches every process at a terminal, and the one that started the others answers it; none outlives it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    Thread(target=_follow, daemon=True).start()


def _follow() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)  # a killed sweep's runs are nobody's
