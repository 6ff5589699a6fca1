"""A thread beside the main one that performs mixes of several messages, one after the other. Knows no mix."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from queue import SimpleQueue
from typing import TypeVar

T = TypeVar("T")


class Carrier:
    """First handed over, first performed: members that hand over in one order perform in one order, so none waits
    for what another has put behind something else. The thread is started when first needed."""

    def __init__(self) -> None:
        self._queue: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._thread: threading.Thread | None = None

    def begin(self, work: Callable[[], T]) -> Future[T]:
        """Hand work over; its result, or what went wrong with it, is for whoever asks the future."""
        if self._thread is None:  # a daemon: a member that fails must not wait for what others never sent
            self._thread = threading.Thread(target=self._perform, name="gossamer-carrier", daemon=True)
            self._thread.start()
        future: Future[T] = Future()
        self._queue.put(lambda: _settle(future, work))
        return future

    def close(self) -> None:
        """Perform what was handed over, then end the thread."""
        if self._thread is not None:
            self._queue.put(None)
            self._thread.join()
            self._thread = None

    def _perform(self) -> None:
        while (job := self._queue.get()) is not None:
            job()


def _settle(future: Future[T], work: Callable[[], T]) -> None:
    try:
        future.set_result(work())
    except BaseException as error:  # whatever it is, the one who waits must hear of it
        future.set_exception(error)
