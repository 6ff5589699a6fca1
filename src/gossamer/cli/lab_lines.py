"""What many commands print, line by line, each line with the host it comes from. Waits for no command."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from types import TracebackType
from typing import IO, TextIO

import typer

PATIENCE = 2.0  # seconds for the last lines: one who was left behind and holds a pipe must not hold us
COLOURS = ("cyan", "green", "magenta", "yellow", "blue", "bright_red", "bright_cyan", "bright_green")


class Lines:
    """Reads every command's output and errors and hands them on whole: lines of two hosts never mix."""

    def __init__(self, commands: Sequence[subprocess.Popen[bytes]]) -> None:
        self._lock = threading.Lock()
        ways = [way for host, each in enumerate(commands) for way in _ways(host, each)]
        self._threads = [threading.Thread(target=self._hand_on, args=way, daemon=True) for way in ways]

    def __enter__(self) -> Lines:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        late = time.monotonic() + PATIENCE
        for thread in self._threads:
            thread.join(max(0.0, late - time.monotonic()))

    def _hand_on(self, host: int, source: IO[bytes], target: TextIO) -> None:
        prefix = f"[host {host}]"
        if target.isatty():
            prefix = typer.style(prefix, fg=COLOURS[host % len(COLOURS)])
        with source, suppress(BrokenPipeError):  # whoever read us has left, and so has whoever writes to us
            for line in source:
                text = line.decode(errors="replace").rstrip("\r\n")
                with self._lock:
                    target.write(f"{prefix} {text}\n")
                    target.flush()


def _ways(host: int, command: subprocess.Popen[bytes]) -> list[tuple[int, IO[bytes], TextIO]]:
    assert command.stdout is not None and command.stderr is not None
    return [(host, command.stdout, sys.stdout), (host, command.stderr, sys.stderr)]
