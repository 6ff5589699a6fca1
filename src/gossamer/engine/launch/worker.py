"""What every worker starts through: it ends with its launcher, runs a script as python would, notes what went wrong.

Runs before anything else is loaded, so it knows neither torch nor the rest of Gossamer.
"""

from __future__ import annotations

import ctypes
import faulthandler
import io
import json
import os
import runpy
import signal
import sys
import threading
import time
import traceback
from collections.abc import Iterator
from contextlib import redirect_stderr
from types import TracebackType

NOTES, PARENT = "GOSSAMER_NOTES", "GOSSAMER_PARENT"  # the launcher's folder for notes, and its process
SLATE = "GOSSAMER_SLATE"  # where this worker writes how far it is
ALOUD = "GOSSAMER_ALOUD"  # set where what a worker says goes elsewhere than what its launcher says
PR_SET_PDEATHSIG = 1
LINGER = 2.0  # seconds
LONGEST = 100_000  # characters of a traceback
ABSENT = (  # how torch and gloo say that somebody else is gone
    "Connection closed by peer", "Connection reset by peer", "Connection refused", "Broken pipe", "pair closure",
    "Timed out waiting", "wait timeout after", "remote process exited", "failed to connect", "failed to recv",
    "caused by a remote worker", "Socket closed", "unexpectedly closed", "Pair is not connected",
)  # fmt: skip
TAKEN = ("EADDRINUSE", "failed to listen")  # a network error that is this worker's own


def main() -> None:
    """`worker.py SCRIPT ARGS...`, `worker.py -m MODULE ARGS...` or `worker.py --exec COMMAND ARGS...`."""
    end_with(int(os.environ.pop(PARENT, "0")))
    faulthandler.enable()
    whole_lines()
    notes, words = os.environ.pop(NOTES, ""), sys.argv[1:]
    sign_in(notes)
    if notes:
        os.environ[SLATE] = os.path.join(notes, f"step-{os.environ.get('RANK', '0')}")
    hear_threads(notes)
    try:
        run(words)
    except SystemExit as end:
        leave(notes, end, code_of(end))
        hurry(code_of(end))
        raise
    except KeyboardInterrupt:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGINT)  # the launcher says that all was stopped
    except BaseException as error:
        error.__traceback__ = own(error.__traceback__)
        code = tell(notes, error)
        hurry(code)
        sys.exit(code)


def end_with(parent: int) -> None:
    """Be killed when the thread that started this process ends; be gone if it already has."""
    if sys.platform != "linux":
        return
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
    if parent and os.getppid() != parent:
        os._exit(1)


def whole_lines() -> None:
    """Let each line leave in one piece and as soon as it ends, so that those of many workers do not mix."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(line_buffering=True)


def sign_in(notes: str) -> None:
    """Say in the name of an empty file which process plays which rank, in which attempt."""
    if notes:
        attempt, rank = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0"), os.environ.get("RANK", "0")
        _put(notes, f"started-{attempt}-{rank}-{os.getpid()}", "")


def hear_threads(notes: str) -> None:
    """Leave a note of an error, in whatever thread, that says of itself that it ends the process."""
    usual = threading.excepthook

    def hear(told: threading.ExceptHookArgs) -> None:
        if getattr(told.exc_value, "last", False) is True and told.exc_value is not None:
            leave(notes, told.exc_value, 1, plain=True)
        else:
            usual(told)

    threading.excepthook = hear


def run(words: list[str]) -> None:
    """Run as `python SCRIPT`, `python -m MODULE` or a command of its own would be, with its arguments and path."""
    if words[0] == "--exec":
        os.execvp(words[1], words[1:])
    module = words[0] == "-m"
    sys.argv = words[1:] if module else words
    if not sys.flags.safe_path:
        sys.path[0] = os.getcwd() if module else os.path.dirname(os.path.realpath(words[0]))
    if module:
        runpy.run_module(words[1], run_name="__main__", alter_sys=True)
    else:
        runpy.run_path(words[0], run_name="__main__")


def tell(notes: str, error: BaseException) -> int:
    """Leave a note of the error and let the script's own hook hear of it; print it unless the launcher will: the code.

    A traceback is shown once, and last: by the launcher, who knows whose was the first.
    """
    code = 2 if refused(error) else 1
    leave(notes, error, code)
    if code == 1:
        with redirect_stderr(io.StringIO() if notes and not _aloud() else sys.stderr):
            sys.excepthook(type(error), error, error.__traceback__)
    elif not notes:
        print(f"gossamer: {error}", file=sys.stderr)
    return code


def _aloud() -> bool:
    """Whether a traceback is printed here, too: into a log, or as the launcher will start anew and say nothing."""
    tried, most = (os.environ.get(f"TORCHELASTIC_{name}", "0") for name in ("RESTART_COUNT", "MAX_RESTARTS"))
    return ALOUD in os.environ or int(tried) < int(most)


def leave(notes: str, error: BaseException, code: int, plain: bool = False) -> None:
    """Write down what went wrong, if anything did and a launcher wants to know."""
    if not notes or code == 0:
        return
    quiet = isinstance(error, SystemExit)
    text = "" if quiet or plain else "".join(traceback.format_exception(error))
    said = "" if quiet and not isinstance(error.args and error.args[0], str) else str(error)
    note = {
        "rank": int(os.environ.get("RANK", "0")),
        "time": time.time(),
        "code": code,
        "type": type(error).__name__,
        "message": said[:LONGEST],
        "traceback": text[-LONGEST:],
        "secondary": secondary(error),
        "refused": refused(error),
    }
    _put(notes, f"failed-{os.getpid()}", json.dumps(note))


def hurry(code: int) -> None:
    """See to it that a failed worker is gone soon, whatever threads or libraries keep it: others wait for its end."""
    if code:
        faulthandler.dump_traceback_later(LINGER, exit=True, file=open(os.devnull, "w"))  # noqa: SIM115


def secondary(error: BaseException) -> bool:
    """Whether the error, or what it was raised from, only says that somebody else is gone."""
    return any(
        getattr(one, "secondary", False) is True or (isinstance(one, RuntimeError) and cut_off(one))
        for one in causes(error)
    )


def cut_off(error: RuntimeError) -> bool:
    """Whether torch says that a connection has ended or was never made; an address that is taken is no such thing."""
    said = str(error)
    network = type(error).__name__ == "DistNetworkError" or any(words in said for words in ABSENT)
    return network and not any(words in said for words in TAKEN)


def causes(error: BaseException) -> Iterator[BaseException]:
    """The error, what it was raised from, what that was raised from, and so on."""
    seen: set[int] = set()
    step: BaseException | None = error
    while step is not None and id(step) not in seen:
        seen.add(id(step))
        yield step
        step = step.__cause__


def refused(error: BaseException) -> bool:
    """Whether the error is a mistake of the user's with a line of its own: a refusal, or nothing there to be run."""
    ours = any(
        (kind.__module__, kind.__name__) == ("gossamer.parts.refusal", "Refused") for kind in type(error).__mro__
    )
    return ours or (isinstance(error, ImportError | OSError) and error.__traceback__ is None)


def own(trace: TracebackType | None) -> TracebackType | None:
    """The part of a traceback that python would show, without what runs the script; nothing if it never ran."""
    while trace is not None and trace.tb_frame.f_code.co_filename in (__file__, runpy.__file__, "<frozen runpy>"):
        trace = trace.tb_next
    return trace


def code_of(end: SystemExit) -> int:
    """The exit code python makes of a SystemExit."""
    if end.code is None:
        return 0
    return end.code & 0xFF if isinstance(end.code, int) else 1


def _put(notes: str, name: str, text: str) -> None:
    path = os.path.join(notes, name)
    try:
        with open(f"{path}.new", "w") as file:
            file.write(text)
        os.replace(f"{path}.new", path)
    except OSError:
        pass  # the launcher is gone, and so are those who would read it


if __name__ == "__main__":
    main()
