"""A member that never enters an exchange: the others say who, in which exchange and step, and what it is doing."""

from __future__ import annotations

import re
import time
from pathlib import Path

import pytest
from tests.processes.living import left, none_runs, pids, shared, soon
from tests.processes.test_faults import SCRIPT, started

SAID = re.compile(r"gossamer: member (\d) has waited \d+ s in step 4: member (\d) has not entered (exchange 0 \(.*\))")
NEVER = "    time.sleep(600)"


def said(file: Path) -> list[str]:
    """The lines of a report, as soon as there is a whole one."""
    text = file.read_text()
    found = SAID.search(text)
    return text[found.start() :].splitlines() if found else []


def missing(folder: Path, how: str, who: int, strategy: str, fabric: str, haste: float) -> tuple[list[str], float]:
    """What is said when one of two does not come, and how long after it should have; nobody is left of them."""
    before, log = shared(), folder / "err"
    words = ["run", "--nproc-per-node=2", "--fabric", fabric, SCRIPT, str(folder), how, str(who), strategy]
    with log.open("w") as file, started(*words, stderr=file, HASTE=str(haste)) as process:
        assert soon(lambda: (folder / f"far-{who}").exists() or process.poll() is not None, 60)
        began = time.monotonic()
        assert soon(lambda: len(said(log)) > 1 and said(log)[-1] != "", 20), log.read_text()
        took, lines = time.monotonic() - began, said(log)
        process.terminate()
        assert none_runs(pids(folder))
        process.wait(10)
    assert process.returncode == 143
    assert not left(before)
    return lines, took


def test_it_is_told_within_ten_seconds(tmp_path: Path) -> None:
    lines, took = missing(tmp_path, "sleeps", 1, "allreduce", "shared", 1)
    assert 8.0 < took < 12.5  # a look every second, and the time to ask
    found = SAID.fullmatch(lines[0])
    assert found and found.group(1, 2, 3) == ("0", "1", "exchange 0 (gradients over Complete())")
    assert lines[1] == "member 1 is here:"
    assert lines[2] == f'  File "{SCRIPT}", line {_line("    main()")}, in <module>'  # nothing of what runs it
    assert lines[-2:] == [
        f'  File "{SCRIPT}", line {_line("    time.sleep(600)")}, in never_come',
        "    time.sleep(600)",
    ]


@pytest.mark.parametrize(
    ("how", "who", "strategy", "fabric"),
    [("stops", 0, "allreduce", "torch"), ("sleeps", 1, "parameter_server", "auto"), ("stops", 1, "dpsgd", "shared")],
)
def test_others_are_told_of_too(how: str, who: int, strategy: str, fabric: str, tmp_path: Path) -> None:
    lines, took = missing(tmp_path, how, who, strategy, fabric, 5)
    assert took < 5
    found = SAID.fullmatch(lines[0])
    assert found and found.group(1, 2) == (str(1 - who), str(who))
    if how == "stops":
        assert lines[1] == f"member {who} is stopped (SIGSTOP)"
    else:
        assert lines[1] == f"member {who} is here:" and lines[-1] == NEVER


def _line(text: str) -> int:
    return Path(SCRIPT).read_text().splitlines().index(text) + 1
