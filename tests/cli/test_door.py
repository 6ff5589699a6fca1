"""The door itself: how fast it opens, how it refuses, how it stops."""

from __future__ import annotations

import signal
import subprocess
from importlib.metadata import version
from pathlib import Path
from time import sleep

import pytest
from tests.cli.ask import DOOR, ask, process, seconds

from gossamer.records import Header, read


def test_help_answers_at_once() -> None:
    assert seconds("--help", enough=0.3) < 0.3


@pytest.mark.parametrize("route", ["ring", "torus"])
def test_show_of_4096_workers_answers_in_two_seconds(route: str) -> None:
    assert seconds("show", f"allreduce({route})", "--workers", "4096", enough=2.0) < 2.0


@pytest.mark.parametrize("topology", ["Cycle()", "Exponential()"])
def test_show_of_4096_gossiping_workers_answers_in_two_seconds(topology: str) -> None:
    expression = f"Exchange(payload=PARAMETERS, topology={topology})"
    assert seconds("show", expression, "--workers", "4096", enough=2.0) < 2.0


def test_help_names_every_command_and_shows_examples() -> None:
    result = ask("--help")
    assert result.exit_code == 0
    for word in ("list", "show", "rehearse", "train", "run", "lab", "gossamer show 'local_sgd(every=8)'"):
        assert word in result.stdout


@pytest.mark.parametrize("command", ["list", "show", "rehearse"])
def test_every_command_has_help(command: str) -> None:
    result = ask(command, "--help")
    assert result.exit_code == 0
    assert "--json" in result.stdout
    assert "bool" not in result.stdout


def test_version() -> None:
    result = ask("--version")
    assert (result.exit_code, result.stdout.strip()) == (0, f"gossamer {version('gossamer')}")


def test_showing_a_plain_codec_loads_no_torch() -> None:
    code = (
        "import sys\n"
        "from gossamer.cli.main import app\n"
        "app(['show', 'allreduce(ring)', '--workers', '64'], standalone_mode=False)\n"
        "sys.exit(70 if 'torch' in sys.modules else 0)"
    )
    assert subprocess.run([*DOOR[:2], code], capture_output=True).returncode == 0


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("show", "localsgd(every=8)"), "^^^^^^^^"),
        (("show", "allreduce", "--workers", "-3"), "workers must be from 1"),
        (("nonsense",), "No such command"),
        (("show",), "Missing argument"),
    ],
)
def test_a_refusal_is_exit_code_2_and_no_traceback(words: tuple[str, ...], said: str) -> None:
    done = process(*words)
    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_a_fault_of_our_own_keeps_its_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise ZeroDivisionError("ours")

    monkeypatch.setattr("gossamer.cli.sight.look", broken)
    assert isinstance(ask("show", "allreduce").exception, ZeroDivisionError)


def test_ctrl_c_is_one_line_and_130(tmp_path: Path) -> None:
    journal = tmp_path / "stopped.jsonl"
    listening = (  # a shell's background job starts deaf to Ctrl-C, and so would its children
        "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "from gossamer.cli.main import main; main()"
    )
    words = ["rehearse", "--steps", "1000000", "--evaluate-every", "1000000", "--journal", str(journal)]
    running = subprocess.Popen(
        [*DOOR[:2], listening, *words], stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        while running.poll() is None and not (journal.exists() and journal.stat().st_size > 1000):
            sleep(0.05)
        running.send_signal(signal.SIGINT)
        out, err = running.communicate(timeout=30)
    finally:
        running.kill()
    assert (running.returncode, out, err) == (130, "", "gossamer: stopped\n")
    assert isinstance(next(read(journal)), Header)


def test_a_reader_that_leaves_early_is_no_error_of_ours() -> None:
    with subprocess.Popen([*DOOR, "list", "--json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as run:
        assert run.stdout is not None and run.stderr is not None
        run.stdout.close()
        assert "Traceback" not in run.stderr.read()
