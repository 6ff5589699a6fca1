"""A member that never enters an exchange: the others say who, in which exchange and step, and what it is doing."""

from __future__ import annotations

import re
import time
from pathlib import Path

import pytest
from tests.processes.living import left, none_runs, pids, shared, soon
from tests.processes.test_faults import SCRIPT, started

SAID = re.compile(r"gossamer: member (\d) has waited \d+ s(.*)$", re.MULTILINE)
HASTE = 4.0  # how many times sooner than in earnest patience is lost
NEVER = "    time.sleep(600)"


def said(file: Path) -> list[str]:
    """The lines of a report, as soon as there is one."""
    text = file.read_text()
    found = SAID.search(text)
    return text[found.start() :].splitlines() if found else []


def missing(
    folder: Path, how: str, who: int, strategy: str, fabric: str, haste: float, awaited: str = ""
) -> tuple[list[str], float]:
    """What is said when one of two does not come, and how long after it should have; nobody is left of them.

    Who starts slowly is missed, too: what is awaited comes later then.
    """
    log, far = folder / "err", folder / f"far-{who}"
    words = ["run", "--nproc-per-node=2", "--fabric", fabric, SCRIPT, str(folder), how, str(who), strategy]
    with log.open("w") as file, started(*words, stderr=file, HASTE=str(haste)) as process:
        assert soon(lambda: any(awaited in line for line in said(log)) or process.poll() is not None, 90)
        took = time.time() - far.stat().st_mtime if far.exists() else 0.0
        process.terminate()
        assert none_runs(pids(folder))
        process.wait(10)
    assert process.returncode == 143, log.read_text()
    return said(log), took


def test_it_is_told_within_ten_seconds(tmp_path: Path) -> None:
    before = shared()
    lines, took = missing(tmp_path, "sleeps", 1, "allreduce", "shared", 1.0)
    assert 8.0 < took < 12.5  # a look every second, and the time to ask
    here = "exchange 0 (gradients over Complete())"
    assert re.fullmatch(
        r"gossamer: member 0 has waited (9|10) s in step 4: member 1 has not entered " + re.escape(here), lines[0]
    )
    assert lines[1] == "member 1 is here:"
    assert lines[2] == f'  File "{SCRIPT}", line {_line("    main()")}, in <module>'  # nothing of what runs it
    assert lines[-3:-1] == [f'  File "{SCRIPT}", line {_line(NEVER)}, in never_come', NEVER]
    assert lines[-1] == "gossamer: stopped by SIGTERM"
    assert not left(before)


SCENES = [
    ("stops", 0, "allreduce", "torch", " in step 4: member 0 has not entered exchange 0 (gradients over Complete())"),
    ("averages", 1, "local_sgd", "auto", " in step 5: member 1 has not entered the average of all members"),
    ("prepares", 1, "allreduce", "auto", ": member 1 has not come to prepare"),
]
MORE = [
    ("sleeps", 1, "parameter_server", "auto", " in step 4: member 1 has not entered exchange 0 (gradients over "),
    ("made before", 0, "allreduce", "auto", ": member 0 has not come to prepare"),
    ("starts alike", 0, "allreduce", "shared", " at the first parameters, where all have come"),
    ("is stopped there", 0, "allreduce", "torch", " at the making of a fabric, where all have come"),
]


@pytest.mark.parametrize(
    ("how", "who", "strategy", "fabric", "words"),
    [*SCENES, *(pytest.param(*scene, marks=pytest.mark.long) for scene in MORE)],
    ids=lambda each: each if isinstance(each, str) and not each.startswith((" ", ":")) else "",
)
def test_wherever_it_is_missed_it_is_told(
    how: str, who: int, strategy: str, fabric: str, words: str, tmp_path: Path
) -> None:
    """Over torch, at a hub, in an average, before the first step; stopped, or somewhere else."""
    before = shared()
    lines, took = missing(tmp_path, how, who, strategy, fabric, HASTE, words)
    speaks = who if how == "starts alike" else 1 - who  # a thread of its own says where it is
    start = rf"gossamer: member {speaks} has waited \d+ s" + re.escape(words)
    at = next((n for n, line in enumerate(lines) if re.match(start, line)), None)
    assert at is not None, lines
    lines = lines[at:]
    assert took < 6
    if how in ("stops", "is stopped there"):
        assert lines[1] == "member 0 is stopped (SIGSTOP)"
    elif how not in ("prepares", "made before"):
        assert lines[1] == f"member {who} is here:" and NEVER in lines, lines
    assert not left(before)


def _line(text: str) -> int:
    return Path(SCRIPT).read_text().splitlines().index(text) + 1
