"""A member that dies or falls silent in the middle of a route: all others name it, and soon."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from tests.processes.pool import ROOT

from gossamer.engine.launch.start import environment, start

SIZE, WHO, PATIENCE = 4, 2, 2.0


@pytest.mark.parametrize(
    ("route", "how", "within"),
    [("Ring()", "dies", 3.0), ("HalvingDoubling()", "falls silent", PATIENCE + 4.0)],
)
def test_all_others_name_the_one_that_is_gone(route: str, how: str, within: float, tmp_path: Path) -> None:
    begun = []
    try:
        for rank in range(SIZE):
            words = ["-m", "tests.processes.dying", str(tmp_path), route, how, str(PATIENCE)]
            env = environment(rank, SIZE, tmp_path, [str(ROOT)])
            begun.append(start(words, env, subprocess.DEVNULL, subprocess.STDOUT))
        said = {rank: begun[rank].communicate(timeout=300)[0] for rank in range(SIZE) if rank != WHO}
    finally:
        for process in begun:
            process.kill()
        for process in begun:
            process.communicate()
    wrong = float((tmp_path / "wrong").read_text())
    for rank, words in said.items():
        assert (tmp_path / f"told-{rank}").exists(), f"member {rank} told of nobody:\n{words}"
        told = json.loads((tmp_path / f"told-{rank}").read_text())
        assert told["members"] == [WHO], f"member {rank}: {told}"
        assert f"member {WHO} ended or fell silent" in told["said"]
        assert told["time"] - wrong < within, f"member {rank}: {told}"
