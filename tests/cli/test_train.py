"""`train` from its first word to its last, on real processes; the workers are stand-ins that only keep a journal."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
from pathlib import Path
from time import monotonic, sleep

import pytest
from tests.cli.ask import ask, told

from gossamer.cli import train_play
from gossamer.cli.train_settings import NAMES, option
from gossamer.engine.job import TrainJob
from gossamer.records import Header, read

STAND_IN = [str(Path(__file__).with_name("stand_in.py"))]
QUICK = ("--task-option", "hidden=8", "--workers", "2", "--steps", "40", "--batch", "8")
KEYS = {
    "strategy", "workers", "seed", "steps", "epochs", "seconds", "accuracy", "loss", "bytes_sent_per_member",
    "seconds_per_step", "scaling_efficiency", "journal", "fabric", "kernel", "events", "target",
}  # fmt: skip


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(train_play, "COMMAND", STAND_IN)


def test_help_names_every_setting_and_shows_a_bare_resume() -> None:
    screen = ask("train", "--help").stdout
    for name in NAMES:
        assert f"--{option(name)} " in screen, name
    assert "gossamer train --resume" in screen and "bool" not in screen


def test_a_run_in_json() -> None:
    found = told("train", *QUICK)
    assert found.keys() >= KEYS
    assert (found["steps"], found["workers"], found["strategy"]) == (40, 2, "Exchange()")
    assert found["epochs"] == pytest.approx(40 * 2 * 8 / 1198)
    assert found["seconds"] == pytest.approx(0.4)
    assert found["seconds_per_step"] == pytest.approx(
        {"compute": 0.006, "encode": 0.0, "send": 0.001, "wait": 0.002, "decode": 0.0, "data": 0.001}
    )
    assert found["scaling_efficiency"] == pytest.approx(0.6)
    assert found["accuracy"] == pytest.approx(1 - 1 / 41)
    assert found["bytes_sent_per_member"] == 40 * 1000 + 24
    assert (found["fabric"], found["kernel"], found["failure"]) == ("stand-in", "none", None)
    assert [event["member"] for event in found["events"]] == [0, 1]
    folder = Path(found["journal"])
    assert re.fullmatch(r"\d{8}-\d{6}-allreduce", folder.name) and folder.parent.name == "runs"
    assert folder.stat().st_mode & 0o777 == 0o755


def test_a_box_progress_aside_and_settings_that_can_be_run_again() -> None:
    first = ask("train", *QUICK, "--strategy", "local_sgd(every=8)", "--rate", "0.3", "--clip", "1.5", columns=100)
    assert first.exit_code == 0, first.stderr
    box = first.stdout.splitlines()
    assert all(len(line) <= 100 for line in box)
    assert box[0].startswith("╭─ local_sgd(every=8)  digits, 2 workers")
    for words in (
        "0.976 on held-out data, loss 0.05",
        "0.97 after 340 ms",
        "batch 16 = 2 x 8",
        "1 kB a step",
        "stand-in",
    ):
        assert words in first.stdout, words
    assert "fabric: stand-in" in first.stderr
    assert re.search(r"step \d+/40 .* steps/s loss [\d.]+ exchange 30% accuracy 0.9", first.stderr)
    (folder,) = Path("runs").iterdir()
    assert ask("train", str(folder / "run.toml")).exit_code == 0
    (again,) = set(Path("runs").iterdir()) - {folder}
    assert (again / "run.toml").read_text() == (folder / "run.toml").read_text()
    jobs = [json.loads((each / "job.json").read_text()) for each in (folder, again)]
    assert {**jobs[0], "folder": ""} == {**jobs[1], "folder": ""}
    assert jobs[0].keys() == set(TrainJob.__struct_fields__)
    assert (jobs[0]["clip"], jobs[0]["save_every"], jobs[0]["fabric"]) == (1.5, 8, "auto")


def test_a_run_that_fails_says_how_to_go_on_and_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STAND_IN", "raise")
    began = monotonic()
    failed = ask("train", *QUICK, "--save-every", "3")
    assert failed.exit_code == 1
    assert monotonic() - began < 10
    lines = failed.stderr.splitlines()
    assert lines[-1] == "RuntimeError: the stand-in was told to fail"
    (folder,) = Path("runs").iterdir()
    assert f"journal in {folder}; last checkpoint: step 9; to go on: gossamer train --resume {folder}" in failed.stderr
    assert "failed: rank 1: RuntimeError: the stand-in was told to fail" in failed.stdout
    assert failed.stderr.count("Traceback") == 1
    monkeypatch.setenv("STAND_IN", "")
    found = told("train", "--resume", str(folder))
    assert (found["resumed_from"], found["steps"], found["failure"]) == (9, 40, None)
    assert found["bytes_sent_per_member"] == 31 * 1000 + 24
    assert Path(found["journal"]) == folder.absolute()
    assert sum(isinstance(record, Header) for record in read(folder / "journal-0.jsonl")) == 2
    more = told("train", "--resume", "--steps", "50")
    assert (more["resumed_from"], more["steps"]) == (39, 50)


def test_a_run_that_fails_at_once_is_begun_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STAND_IN", "raise")
    failed = ask("train", *QUICK, "--save-every", "30")
    (folder,) = Path("runs").iterdir()
    assert f"no checkpoint yet; to go on: gossamer train {folder}/run.toml" in failed.stderr


def test_a_loss_that_left_the_numbers_is_no_result(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STAND_IN", "diverge")
    found = told("train", *QUICK, "--rate", "0.4", code=1)
    assert (found["failure"], found["loss"], found["next"]) == ("diverged at step 5", None, "--rate 0.1")


def test_what_workers_print_is_passed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STAND_IN", "print")
    result = ask("train", *QUICK, "--json")
    assert json.loads(result.stdout)["steps"] == 40
    assert "[0] rank 0 says hello" in result.stderr and "[1] rank 1 says hello" in result.stderr


def test_sigterm_ends_a_run_with_its_verdict(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STAND_IN", "slow")

    def terminate() -> None:
        until = monotonic() + 30
        while not any(Path().glob("runs/*/checkpoints/step-*/manifest.json")) and monotonic() < until:
            sleep(0.02)
        os.kill(os.getpid(), signal.SIGTERM)

    before = signal.getsignal(signal.SIGTERM)
    sender = threading.Thread(target=terminate)
    sender.start()
    stopped = ask("train", *QUICK[:4], "--steps", "10000", "--save-every", "5")
    sender.join()
    assert stopped.exit_code == 143, stopped.stderr
    assert "the run was stopped" in stopped.stdout and "gossamer train --resume runs/" in stopped.stderr
    assert signal.getsignal(signal.SIGTERM) is before


def test_sigusr1_shows_the_verdict_so_far_and_ctrl_c_the_last_one(tmp_path: Path) -> None:
    code = (
        "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        f"from gossamer.cli import train_play; train_play.COMMAND = {STAND_IN!r}\n"
        "from gossamer.cli.main import main; main()"
    )
    words = ["train", *QUICK[:4], "--steps", "10000", "--json"]
    env, pipe = {**os.environ, "STAND_IN": "slow"}, subprocess.PIPE
    running = subprocess.Popen([sys.executable, "-c", code, *words], env=env, stdout=pipe, stderr=pipe, text=True)
    assert running.stderr is not None
    try:
        before = []
        while not (before and before[-1].startswith("step ")):
            before.append(running.stderr.readline())
            assert before[-1]
        running.send_signal(signal.SIGUSR1)
        while not before[-1].startswith("╰"):
            before.append(running.stderr.readline())
            assert before[-1]
        running.send_signal(signal.SIGINT)
        out, err = running.communicate(timeout=30)
    finally:
        running.kill()
    assert running.returncode == 130, err
    found = json.loads(out)
    assert (found["failure"], found["fabric"]) == ("was stopped", "stand-in")
    assert 0 < found["steps"] < 10000
    assert "Traceback" not in "".join(before) + err
    assert err.splitlines()[-1].startswith("gossamer: journal in runs/")
