"""A worker that raises or is killed: the others stop at once, its words come last, and nobody and nothing is left."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import pytest
from tests.cli.ask import ask
from tests.processes.living import all_there, left, none_runs, pids, shared, soon

ROOT = str(Path(__file__).parent.parent.parent)
SCRIPT = str(Path(__file__).with_name("faulty.py"))
LISTENING = (  # a shell's background job starts deaf to Ctrl-C, and so would its children
    "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
    "from gossamer.cli.main import main; main()"
)


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Every test in a folder of its own, and nothing left in shared memory after it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    before = shared()
    yield
    assert not left(before)


def trained(folder: Path, how: str, who: int, workers: int, fabric: str) -> list[str]:
    """The words of `gossamer train` on a task that goes wrong."""
    told = ["--task", "tests.processes.faulty:task", "--path", ROOT, "--batch", "8", "--steps", "100000"]
    options = [word for pair in (f"folder={folder}", f"how={how}", f"who={who}") for word in ("--task-option", pair)]
    return ["train", *told, *options, "--workers", str(workers), "--fabric", fabric]


@contextmanager
def started(*words: str, stderr: IO[str] | int = subprocess.PIPE, **env: str) -> Iterator[subprocess.Popen[str]]:
    """A command as a process in a group of its own, as a shell starts it; it is gone at the end."""
    command, env = [sys.executable, "-c", LISTENING, *words], {**os.environ, **env}
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=stderr, text=True, start_new_session=True, env=env
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def since(folder: Path, rank: int) -> float:
    """Seconds since a rank went wrong."""
    return time.time() - (folder / f"far-{rank}").stat().st_mtime


def stopped(folder: Path, rank: int) -> float:
    """Seconds from when a rank went wrong until no worker runs any more."""
    mark = folder / f"far-{rank}"
    assert soon(mark.exists, 90)
    assert none_runs(pids(folder), 40.0)
    return time.time() - mark.stat().st_mtime


@pytest.mark.parametrize(
    ("how", "who", "workers", "fabric"),
    [
        pytest.param("raises", 0, 2, "torch", marks=pytest.mark.long),
        ("raises", 1, 3, "shared"),
        pytest.param("dies", 2, 3, "torch", marks=pytest.mark.long),
    ],
)
def test_train_ends_with_the_first_failure(how: str, who: int, workers: int, fabric: str, tmp_path: Path) -> None:
    result = ask(*trained(tmp_path, how, who, workers, fabric))
    assert since(tmp_path, who) < 8  # with the verdict, and the end of the launcher itself
    assert none_runs(pids(tmp_path), 0.0)
    last = result.stderr[result.stderr.index(f"gossamer: rank {who} ") :]
    if how == "dies":
        assert result.exit_code == 137
        assert last.startswith(f"gossamer: rank {who} was killed by SIGKILL, and all others were stopped")
        assert "Traceback" not in result.stderr
    else:
        assert result.exit_code == 1
        assert last.startswith(
            f"gossamer: rank {who} failed, and all others were stopped:\nTraceback (most recent call"
        )
        assert last.endswith("ValueError: the numbers of this rank\nwent wrong\n")
        assert result.stderr.count("Traceback") == 1
        assert f"the run failed: rank {who}: ValueError: the numbers of this rank" in result.stdout
    assert "4 steps" in result.stdout  # what was done is in the verdict
    assert "GLHF" not in result.stderr


def test_train_ends_when_it_is_asked_to(tmp_path: Path) -> None:
    with started(*trained(tmp_path, "", -1, 2, "auto")) as process:
        found = all_there(tmp_path, 2)
        assert soon(lambda: (tmp_path / "far-0").exists(), 60)
        asked = time.monotonic()
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does
        assert none_runs(found)
        out, err = process.communicate(timeout=10)
    assert time.monotonic() - asked < 5
    assert process.returncode == 130
    assert "Traceback" not in out + err
    assert "the run was stopped" in out and "a step" in out
    assert "to go on: gossamer train" in err.splitlines()[-1]


@pytest.mark.parametrize(
    ("how", "who", "size", "fabric"),
    [
        pytest.param("raises", 2, 3, "torch", marks=pytest.mark.long),
        ("dies", 0, 2, "shared"),
        pytest.param("leaves", 1, 2, "shared", marks=pytest.mark.long),
    ],
)
def test_run_ends_with_the_first_failure(how: str, who: int, size: int, fabric: str, tmp_path: Path) -> None:
    with started(
        "run", f"--nproc-per-node={size}", "--fabric", fabric, SCRIPT, str(tmp_path), how, str(who)
    ) as process:
        took = stopped(tmp_path, who)
        out, err = process.communicate(timeout=300)
    assert took < (5 if how != "leaves" else 30)  # one that leaves in peace takes its time
    assert sorted(out.splitlines()) == [f"rank {rank} begins ... and says so" for rank in range(size)]
    if how == "dies":
        assert process.returncode == 137
        assert err.splitlines()[-1].startswith("gossamer: rank 0 was killed by SIGKILL, and all others were stopped")
        assert "Traceback" not in err
    elif how == "leaves":
        assert process.returncode == 1
        assert "MemberLost: member 1 has ended, and this member waits for numbers" in err.splitlines()[-1]
    else:
        assert process.returncode == 1
        assert err.count("Traceback") == 1
        assert "gossamer: rank 2 failed, and all others were stopped:\nTraceback" in err
        assert err.endswith("ValueError: the numbers of this rank\nwent wrong\n")


@pytest.mark.parametrize("what", ["train", "run"])
def test_workers_end_with_a_launcher_that_is_killed(what: str, tmp_path: Path) -> None:
    """In the midst of exchanges."""
    own = ["run", "--nproc-per-node=2", SCRIPT, str(tmp_path), "", "-1"]
    with started(*(own if what == "run" else trained(tmp_path, "", -1, 2, "auto"))) as process:
        found = all_there(tmp_path, 2)
        assert soon(lambda: (tmp_path / "far-1").exists(), 60)
        process.kill()
        assert none_runs(found)


def test_under_plain_torchrun_a_failure_is_a_clean_stop(tmp_path: Path) -> None:
    words = ["--standalone", "--nproc-per-node=2", SCRIPT, str(tmp_path), "raises", "1"]
    done = subprocess.run(
        [sys.executable, "-m", "torch.distributed.run", *words], capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 1
    assert "ValueError: the numbers of this rank" in done.stderr
    assert len(pids(tmp_path)) == 2
    assert none_runs(pids(tmp_path), 0.0)
    assert since(tmp_path, 1) < 8  # torch takes its time to say so
