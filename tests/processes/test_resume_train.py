"""`gossamer train` killed at a random step and resumed ends as if it never had been; what cannot go on says why."""

from __future__ import annotations

import json
import os
import random
import resource
import subprocess
from collections.abc import Iterator
from pathlib import Path
from time import monotonic, sleep

import pytest
from tests.cli.ask import DOOR
from tests.processes.living import shared
from tests.processes.resuming import STEPS, Training, job, sealed

from gossamer.records import Event, StepRecord, read

ROOT = str(Path(__file__).parents[2])
TASK = ("--task", "tests.processes.resuming:mortal", "--path", ROOT, "--workers", "2", "--batch", "4", "--seed", "3")
SAID = (*TASK, "--optimizer", "adam", "--rate", "0.01", "--steps", "60", "--save-every", "7", "--evaluate-every", "25")


def begun(where: Path, *words: str, dies: str = "0 nobody") -> subprocess.Popen[str]:
    """`gossamer train` as a process of its own."""
    where.mkdir(exist_ok=True)
    env, pipe = {**os.environ, "DIES": dies}, subprocess.PIPE
    return subprocess.Popen([*DOOR, "train", *words], env=env, stdout=pipe, stderr=pipe, text=True, cwd=where)


def ended(run: subprocess.Popen[str]) -> tuple[int, str, str]:
    out, err = run.communicate(timeout=300)
    return run.returncode, out, err


def kept(where: Path) -> dict[str, tuple[str, str]]:
    """The model and the optimizer's state of each checkpoint, by their sha256; members' files hold python's own RNG."""
    (folder,) = (where / "runs").iterdir()
    files = ("model.safetensors", "optimizer.safetensors")
    return {step: (found[files[0]], found[files[1]]) for step, found in sealed(folder / "checkpoints").items()}


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A run that nobody interrupts; it goes on while others are killed."""
    where = tmp_path_factory.mktemp("whole")
    run = begun(where, *SAID)
    try:
        yield where
    finally:
        run.kill()
        run.communicate()


@pytest.mark.long  # test_resume kills a worker in the usual run
def test_killed_at_random_it_ends_the_same(whole: Path, tmp_path: Path) -> None:
    before = shared()
    said = f"killed at step {(at := random.randrange(8, 60))}"
    code, _, _ = ended(begun(tmp_path, *SAID, dies=f"{at} launcher"))
    assert code == -9, said
    code, out, err = ended(begun(tmp_path, "--resume", "--json"))
    assert code == 0, (said, err)
    told = json.loads(out)
    assert (told["steps"], told["resumed_from"]) == (60, (at - 1) // 7 * 7)
    (folder,) = (whole / "runs").iterdir()
    until = monotonic() + 60
    while not (folder / "checkpoints" / "step-60").exists() and monotonic() < until:
        sleep(0.05)
    assert kept(tmp_path) == kept(whole), said
    assert sorted(kept(whole)) == ["step-56", "step-60"]
    assert shared() == before


@pytest.mark.long  # tests/engine damages checkpoints in the usual run
def test_a_damaged_checkpoint_is_refused_and_the_one_before_goes_on(whole: Path, tmp_path: Path) -> None:
    (folder,) = (whole / "runs").iterdir()
    subprocess.run(["cp", "-r", str(whole / "runs"), str(tmp_path)], check=True)
    file = tmp_path / "runs" / folder.name / "checkpoints" / "step-60" / "member-1.safetensors"
    file.write_bytes(file.read_bytes()[:-1])
    code, out, err = ended(begun(tmp_path, "--resume", "--steps", "70"))
    last = err.splitlines()[-1]
    assert (code, out) == (2, "") and "Traceback" not in err
    assert "member-1.safetensors has" in last
    assert "steps = 60" in (tmp_path / "runs" / folder.name / "run.toml").read_text()  # what was refused is forgotten
    offered = file.parents[1] / "step-56"
    assert last.endswith(f"nearest that works: {offered}")
    code, out, err = ended(begun(tmp_path, "--resume", str(offered), "--json"))
    assert code == 0, err
    assert json.loads(out)["resumed_from"] == 56
    assert kept(tmp_path)["step-60"] == kept(whole)["step-60"]


def test_a_place_that_cannot_be_written_is_said_once_and_training_goes_on(tmp_path: Path) -> None:
    (tmp_path / "checkpoints").write_text("a file where the folder should be")
    Training(job(tmp_path, workers=1)).run()
    records = list(read(tmp_path / "journal-0.jsonl"))
    said = [record.what for record in records if isinstance(record, Event) and "is not saved" in record.what]
    assert len(said) == 1 and "step 5 is not saved" in said[0] and "there is no earlier one" in said[0]
    assert sum(isinstance(record, StepRecord) for record in records) == STEPS


def test_a_full_disk_stops_neither_saves_nor_journals_for_good(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    training = Training(job(tmp_path, workers=1))
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    watched = list[int]()

    def fill(_: object, record: StepRecord) -> None:  # for some steps no file may grow
        limit = 700 if 2 < record.step < 10 else before[0]
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, before[1]))
        watched.append(record.step)

    training.session.watches.append(fill)
    try:
        training.run()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert watched == list(range(STEPS))
    steps = [record.step for record in read(tmp_path / "journal-0.jsonl") if isinstance(record, StepRecord)]
    assert steps[0] == 0 and steps[-1] == STEPS - 1 and len(steps) < STEPS
    assert sorted(sealed(tmp_path / "checkpoints")) == [f"step-{STEPS}"]
    err = capfd.readouterr().err
    assert err.count("is not saved in") == 1 and err.count("the run goes on, and what finds no room") == 1
