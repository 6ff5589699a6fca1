"""A simulation while it runs, on stderr, once it has taken a second."""

from __future__ import annotations

from threading import Event, Thread
from types import TracebackType

PATIENCE = 1.0  # seconds before the first word, and between two


class Ticker:
    """Tells what is being timed, from a thread of its own: in place on a terminal, line by line where there is none."""

    def __init__(self, total: int) -> None:
        from gossamer.cli.screen import aside

        self._total, self._console, self._line, self._said = total, aside(), "", ""
        self._live = self._console.status("") if self._console.is_terminal else None
        self._over, self._thread = Event(), Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Ticker:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        self._thread.join()
        if self._live is not None:
            self._live.stop()

    def tell(self, done: int, what: str) -> None:
        """So many are done, and this is next."""
        self._line = f"{done} of {self._total} done; now {what}"

    def _watch(self) -> None:
        from rich.text import Text

        while not self._over.wait(PATIENCE):
            if self._line == self._said:
                continue
            self._said = self._line
            if self._live is None:
                self._console.print(Text(self._said))
            else:
                self._live.update(Text(self._said))
                self._live.start()
