"""`gossamer profile`: the file reads back as what was measured, one that is there stays, and bad input is refused."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.cli.ask import ask, process, refused, told

from gossamer.sim.workload import Goal, Workload
from gossamer.sim.written import written

MOONS = Path(__file__).parents[2] / "examples"


def test_the_file_is_what_was_measured(tmp_path: Path) -> None:
    path = tmp_path / "digits.toml"
    found = told("profile", "digits", "--batches", "32,8,16", "--repeats", "5", "--output", str(path))
    read = Workload.load(path)
    assert found["batches"] == [8, 16, 32] == list(read.batches) and found["turns"] == [5, 5, 5]
    highest = 0.0  # a larger batch that was quicker is told as long as a smaller one
    for batch, seconds, (low, high) in zip(read.batches, found["seconds"], found["spread"], strict=True):
        highest = max(high, highest)
        assert read.compute(batch) == pytest.approx(seconds) and low * 0.999 <= seconds <= highest * 1.001
    assert read.ready() == found["ready"] == sorted(found["ready"], reverse=True)
    assert (read.nbytes, read.epoch, len(read.tags)) == (found["bytes"], 1198, found["tensors"])
    assert 0 < read.forward < 1 and read.update > 0 and "measured by gossamer profile" in read.source
    assert written(read) == path.read_text()


def test_a_task_of_ones_own_from_where_one_stands(tmp_path: Path) -> None:
    (tmp_path / "moons.py").write_text((MOONS / "moons.py").read_text())
    words = ("profile", "moons:make", "--task-option", "hidden=16", "--optimizer", "adam", "--batches", "4,900")
    done = process(*words, "--repeats", "3", where=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "workload: workload.toml" in done.stdout and "turn 3 of 3" in done.stderr
    found = Workload.load(tmp_path / "workload.toml")
    assert found.tags[0].shape == (16, 2) and found.name == "moons:make" and found.batches == (4, 900)


def test_a_file_that_is_there_stays_unless_forced(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text("mine")
    assert "is there already" in refused("profile", "digits", "--output", str(path)) and path.read_text() == "mine"
    words = ("profile", "digits", "--batches", "8", "--repeats", "3", "--output", str(path))
    assert ask(*words, "--force").exit_code == 0
    assert Workload.load(path).batches == (8,)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["nothing"], "there is no 'nothing'"),
        (["gossamer.tasks.digits:digit"], "has no function 'digit'; nearest that works: digits"),
        (["no_such_module:make"], "'no_such_module' cannot be found"),
        (["digits", "--batches", "8,2000"], "2000 is more than the 1198 samples"),
        (["digits", "--batches", "0,8"], "batch must be from 1"),
        (["digits", "--batches", "8,,16"], "whole numbers with commas between"),
        (["digits", "--batches", "-8"], "whole numbers with commas between"),
        (["digits", "--repeats", "0"], "repeats must be from 3"),
        (["digits", "--threads", "0"], "threads must be from 1"),
        (["digits", "--optimizer", "lion"], "there is no 'lion'"),
        (["digits", "--task-option", "hiden=3"], "cannot be called so"),
    ],
)
def test_bad_input(words: list[str], said: str, tmp_path: Path) -> None:
    path = tmp_path / "none.toml"
    assert said in refused("profile", *words, "--output", str(path))
    assert not path.exists()


def test_any_workload_is_written_as_it_is(tmp_path: Path) -> None:
    """Names that TOML must escape, a goal, one half of a precision: all come back."""
    tags = tuple(type(tag)(tag.name + '"\\\n', tag.shape, 2) for tag in Workload.load("mlp-small").tags)
    whole = Workload(tags, (0.1, 1 / 3, 0.0, 2e-9), (3,), (1e-7,), 0.0, 1 / 7, None, Goal(1e6, 1e3, "ü"), "näme", "“x”")
    path = tmp_path / "whole.toml"
    path.write_text(written(whole), "utf-8")
    assert Workload.load(path) == whole
