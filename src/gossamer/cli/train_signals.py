"""What a person may ask of a run while it goes on: to end, or to show how it stands. Knows no run."""

from __future__ import annotations

import signal
from types import FrameType, TracebackType

ENDING = (signal.SIGINT, signal.SIGTERM)


class Stopped(Exception):
    """Somebody asked the run to end."""

    def __init__(self, number: int) -> None:
        super().__init__(f"stopped by {signal.Signals(number).name}")
        self.code = 128 + number  # what a shell reports


class Wishes:
    """While inside, signals are noted, and acted on where that is safe: where `heed` is called.

    A second one of the same kind does what it would have done, for whoever does not want to wait. What was ignored
    before, as Ctrl-C is by a shell's background jobs, stays ignored.
    """

    def __init__(self) -> None:
        self._noted: set[int] = set()
        self._before: dict[int, signal._HANDLER] = {}

    def heed(self) -> bool:
        """Raise if the run is to end; else whether it is to be shown, once each time."""
        for number in ENDING:
            if number in self._noted:
                raise Stopped(number)
        asked = signal.SIGUSR1 in self._noted
        self._noted.discard(signal.SIGUSR1)
        return asked

    def __enter__(self) -> Wishes:
        for number in (*ENDING, signal.SIGUSR1):
            handler = signal.getsignal(number)
            if handler is not signal.SIG_IGN:
                self._before[number] = handler
                signal.signal(number, self._note)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _note(self, number: int, frame: FrameType | None) -> None:
        self._noted.add(number)
        if number in ENDING:
            signal.signal(number, self._before[number])
