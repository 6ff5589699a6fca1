"""A thread beside the main one that performs mixes of several messages, one after the other. Knows no mix."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Generic, TypeVar

T = TypeVar("T")


@dataclass(eq=False)
class Task(Generic[T]):
    """Work that was handed over."""

    carrier: Carrier
    future: Future[T]
    work: Callable[[], T]

    def result(self) -> T:
        """What came of it, or what went wrong with it. Who waits for it performs it, if nobody has begun."""
        self.carrier.help(self.future)
        return self.future.result()

    def perform(self) -> BaseException | None:
        """Do it; what went wrong, if anything did."""
        try:
            self.future.set_result(self.work())
        except BaseException as error:  # whatever it is, the one who waits must hear of it
            self.future.set_exception(error)
            return error
        return None


class Carrier:
    """First handed over, first performed: members that hand over in one order perform in one order, so none waits
    for what another has put behind something else. The thread is started when first needed; who has nothing else to
    do than to wait does not wait for a thread to wake up, but takes its place. Once one has failed, nobody knows what
    the others are at: all that comes after it fails with the same error, and is not performed."""

    def __init__(self) -> None:
        self._queue: deque[Task[object]] = deque()
        self._news, self._one = threading.Semaphore(0), threading.Lock()
        self._closing = False
        self._failed: BaseException | None = None
        self._thread: threading.Thread | None = None

    def begin(self, work: Callable[[], T]) -> Task[T]:
        """Hand work over."""
        if self._thread is None:  # a daemon: a member that fails must not wait for what others never sent
            self._thread = threading.Thread(target=self._perform, name="gossamer-carrier", daemon=True)
            self._thread.start()
        task = Task(self, Future[T](), work)
        self._queue.append(task)  # type: ignore[arg-type]
        self._news.release()
        return task

    def help(self, future: Future[T]) -> None:
        """Perform what was handed over, until this has been."""
        while not future.done():
            self._next()

    def close(self, patience: float | None = None) -> None:
        """Perform what was handed over, then end the thread, or leave it after so many seconds."""
        if self._thread is not None:
            self._closing = True
            self._news.release()
            if threading.current_thread() is not self._thread:  # which may be the one that sees its owner go
                self._thread.join(patience)
            self._thread = None

    def _next(self) -> None:
        with self._one:  # whoever performs it: one at a time
            if not self._queue:
                return
            task = self._queue.popleft()
            if self._failed is not None:
                task.future.set_exception(self._failed)
                return
            self._failed = task.perform()
        if self._failed is not None and not isinstance(self._failed, Exception):
            raise self._failed  # meant for the thread that took the carrier's place

    def _perform(self) -> None:
        while not (self._closing and not self._queue):
            self._news.acquire()
            self._next()
