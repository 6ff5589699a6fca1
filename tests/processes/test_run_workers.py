"""Workers of one host stand and fall together: the first real failure is told, nobody is left behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.processes.living import all_there, left, none_runs, pids, shared

from gossamer.engine.launch import WorkerFailed, Workers
from gossamer.parts.refusal import Refused

SCENE = str(Path(__file__).with_name("scene.py"))
HOLDER = "import sys; from gossamer.engine.launch import Workers; Workers(sys.argv[1:], 3).wait()"


def failure(folder: Path, how: str, who: int, *words: str, size: int = 4) -> tuple[WorkerFailed, list[str]]:
    """How such a scene ends, within 5 s of its beginning and with nobody left; and what was heard meanwhile."""
    before, heard = shared(), list[str]()
    with Workers([SCENE, str(folder), how, str(who), *words], size, hear=lambda _, line: heard.append(line)) as workers:
        with pytest.raises(WorkerFailed) as caught:
            all_there(folder, size)
            began = time.monotonic()
            workers.wait()
        assert time.monotonic() - began < 5
        assert none_runs(pids(folder), 0.0)
    assert not left(before)
    return caught.value, heard


def test_one_raises_while_the_others_sleep(tmp_path: Path) -> None:
    error, heard = failure(tmp_path, "raises", 2)
    assert (error.rank, error.code) == (2, 1)
    assert str(error).startswith("rank 2 failed, and all others were stopped:\nTraceback (most recent call last):\n")
    assert str(error).endswith("ValueError: the loss of this rank went wrong")
    frames = [line for line in error.traceback.splitlines() if line.startswith("  File")]
    assert [SCENE in frame for frame in frames] == [True, True, True]  # as python would show it, nothing of ours
    assert heard == []  # it is told once, by whoever catches the error
    assert error.short == "rank 2: ValueError: the loss of this rank went wrong"


@pytest.mark.parametrize("rank", range(4))
def test_any_rank_may_be_killed(rank: int, tmp_path: Path) -> None:
    with Workers([SCENE, str(tmp_path), "sleeps", "9"], 4) as workers:
        found = all_there(tmp_path, 4)
        assert [found[one] for one in range(4)] == workers.pids
        os.kill(workers.pids[rank], signal.SIGKILL)
        with pytest.raises(WorkerFailed, match=f"rank {rank} was killed by SIGKILL") as caught:
            workers.wait()
        assert (caught.value.rank, caught.value.code) == (rank, 137)
        assert none_runs(found, 0.0)


def test_those_that_miss_another_do_not_hide_it(tmp_path: Path) -> None:
    error, heard = failure(tmp_path, "is missed", 3)
    assert error.rank == 3 and error.traceback.endswith("ValueError: the cause\n")
    assert heard == []  # nor are those that only miss it


def test_one_that_was_killed_is_told_before_those_that_miss_it(tmp_path: Path) -> None:
    error, heard = failure(tmp_path, "is gone", 3)
    assert (error.rank, error.code) == (3, 137)
    assert heard == []


def test_where_all_miss_somebody_the_first_is_told(tmp_path: Path) -> None:
    error, _ = failure(tmp_path, "is missed", 9, size=3)
    assert error.rank == 0 and "MemberLost: rank 0 misses somebody" in error.traceback


@pytest.mark.parametrize(
    ("how", "code", "said"),
    [
        ("exits", 1, "rank 1 ended with code 1, and all others were stopped: not today"),
        ("vanishes", 7, "rank 1 ended with code 7, and all others were stopped"),
        ("stays", 1, "ValueError: a thread keeps this rank"),
    ],
)
def test_other_ways_to_end(how: str, code: int, said: str, tmp_path: Path) -> None:
    error, _ = failure(tmp_path, how, 1, size=2)
    assert (error.rank, error.code) == (1, code)
    assert str(error).endswith(said)


def test_who_does_not_listen_is_killed(tmp_path: Path) -> None:
    assert failure(tmp_path, "raises", 0, "deaf", size=2)[0].rank == 0


def test_what_a_dead_worker_started_ends_too(tmp_path: Path) -> None:
    error, _ = failure(tmp_path, "leaves a child", 1, size=2)
    assert error.code == 137 and 99 in pids(tmp_path)


def test_a_refusal_in_a_worker_is_one(tmp_path: Path) -> None:
    with Workers([SCENE, str(tmp_path), "refuses", "1"], 2) as workers:
        with pytest.raises(Refused) as caught:
            workers.wait()
        assert list(workers.lines[1]) == []
    assert str(caught.value) == "rank 1: the model of this rank is odd; nearest that works: an even one"


def test_all_is_fine(tmp_path: Path) -> None:
    ticks: list[float] = []
    words = [SCENE, str(tmp_path), "is fine", "0", "--lr", "0.1", "--", "x"]
    with Workers(words, 2, env={"GOSSAMER_STRATEGY": "x"}) as workers:
        workers.wait(lambda: ticks.append(time.monotonic()), every=0.01)
    assert ticks
    for rank in (0, 1):
        told = json.loads((tmp_path / f"told-{rank}").read_text())
        assert told["argv"] == words
        assert told["path"] == str(Path(SCENE).parent) and told["main"]
        store = told["env"].pop("GOSSAMER_STORE")
        assert not Path(store).parent.exists()
        assert Path(told["env"].pop("GOSSAMER_SLATE")) == Path(store).with_name(f"step-{rank}")
        assert told["env"] == {
            "RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2", "GROUP_RANK": "0",
            "OMP_NUM_THREADS": "1", "MASTER_ADDR": None, "GOSSAMER_STRATEGY": "x",
        }  # fmt: skip


def test_workers_end_with_a_launcher_that_is_killed(tmp_path: Path) -> None:
    words = [SCENE, str(tmp_path), "sleeps", "9", "deaf"]
    holder = subprocess.Popen([sys.executable, "-c", HOLDER, *words], env={**os.environ, "TMPDIR": str(tmp_path)})
    try:
        found = all_there(tmp_path, 3)
        assert not none_runs(found, 0.0)
    finally:
        holder.kill()
        holder.wait()
    assert none_runs(found)


def test_a_module_runs_as_it_would(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own.py").write_text(Path(SCENE).read_text())
    with Workers(["-m", "own", str(tmp_path), "is fine", "0"], 1) as workers:
        workers.wait()
    told = json.loads((tmp_path / "told-0").read_text())
    assert (told["argv"][0], told["path"]) == (str(tmp_path / "own.py"), str(tmp_path))
    with (
        pytest.raises(Refused, match=r"rank 0: No module named json\.nothing"),
        Workers(["-m", "json.nothing"], 1) as one,
    ):
        one.wait()


@pytest.mark.parametrize("size", [0, -1, True, 5000])
def test_an_absurd_number_is_refused(size: int) -> None:
    with pytest.raises(Refused, match="workers: size must be"):
        Workers(["nothing.py"], size)
