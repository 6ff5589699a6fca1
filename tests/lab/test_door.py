"""`gossamer lab`: a command on every host, who failed first, and bytes that must agree."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from time import monotonic

import pytest
from tests.cli.ask import DOOR, ask, refused

from gossamer.lab import guard, missing

HERE = Path(__file__).parent
SH = ("sh", "-c")
needs_hosts = pytest.mark.skipif(missing() is not None, reason=str(missing()))


def ran(*words: str, timeout: float = 100) -> subprocess.CompletedProcess[str]:
    """`gossamer lab` as a process, with what it printed."""
    return subprocess.run([*DOOR, "lab", *words], capture_output=True, text=True, timeout=timeout)


@needs_hosts
def test_a_command_runs_on_every_host() -> None:
    done = ran("--hosts", "3", "--rate", "100mbit", "--", *SH, "echo $GOSSAMER_HOST of $GOSSAMER_HOSTS; echo odd >&2")
    assert done.returncode == 0
    assert sorted(done.stdout.splitlines()) == [f"[host {host}] {host} of 3" for host in range(3)]
    assert {f"[host {host}] odd" for host in range(3)} < set(done.stderr.splitlines())
    assert ["host", "address", "sent", "received", "busy"] in [line.split() for line in done.stderr.splitlines()]
    assert "links of 100 Mbit/s" in done.stderr


@needs_hosts
def test_the_first_failure_ends_all_and_gives_its_code() -> None:
    began = monotonic()
    done = ran("--hosts", "3", *SH, "[ $GOSSAMER_HOST = 1 ] && exit 7; trap 'echo ended; exit 3' TERM; sleep 60 & wait")
    assert done.returncode == 7
    assert monotonic() - began < 30
    assert sorted(done.stdout.splitlines()) == ["[host 0] ended", "[host 2] ended"]


@needs_hosts
def test_others_go_on_where_they_are_to() -> None:
    done = ran("--hosts", "2", "--keep-going", "--", *SH, "[ $GOSSAMER_HOST = 1 ] && kill -9 $$; sleep 0.5; echo done")
    assert (done.returncode, done.stdout) == (137, "[host 0] done\n")


@needs_hosts
@pytest.mark.parametrize(("factor", "code"), [("1.0", 0), ("0.8", 1)])
def test_recorded_bytes_must_agree_with_the_links(factor: str, code: int) -> None:
    talk = [sys.executable, str(HERE / "crossing.py"), "8000000", factor]
    done = ran("--hosts", "2", "--spare", "100kB", "--", *talk)
    assert done.returncode == code, done.stderr
    assert "recorded" in done.stderr
    assert ("agree within 10% and 100 kB for starting up" in done.stderr) == (code == 0)
    assert ("its journals say" in done.stderr) == (code == 1)


@needs_hosts
def test_bytes_that_were_recorded_and_never_left_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GOSSAMER_JOURNAL", str(tmp_path / "kept"))
    record = """{"kind":"step","crossed":{"0":5000000}}"""
    write = f"[ $GOSSAMER_HOST = 0 ] || {{ mkdir -p $GOSSAMER_JOURNAL; echo '{record}' > $GOSSAMER_JOURNAL/j.jsonl; }}"
    done = ran("--hosts", "2", *SH, write)
    assert done.returncode == 1
    assert "gossamer: host 1: 0 bytes left it and its journals say 5,000,000 crossed; more than 10%" in done.stderr
    assert (tmp_path / "kept" / "host-1" / "j.jsonl").exists()
    assert ran("--hosts", "2", "--spare", "5MB", *SH, write).returncode == 0


@needs_hosts
@pytest.mark.parametrize(
    ("launcher", "workers"),
    [
        pytest.param([sys.executable, "-m", "torch.distributed.run"], 1, marks=pytest.mark.long, id="torchrun"),
        pytest.param([*DOOR, "run"], 2, id="run"),
    ],
)
def test_launchers_need_no_flags(launcher: list[str], workers: int) -> None:
    done = ran("--hosts", "2", "--workers", str(workers), "--", *launcher, str(HERE / "summing.py"))
    assert done.returncode == 0, done.stderr
    found = sorted(line for line in done.stdout.splitlines() if "stands" in line)
    size = 2 * workers
    told = [f"[host {host}] stands {host} {workers} {size} {host} 2 total {size * (size + 1) // 2}" for host in (0, 1)]
    assert found == sorted(told * workers)


@needs_hosts
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_being_stopped_ends_all(number: signal.Signals, code: int) -> None:
    listening = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n" + DOOR[2]
    words = [*DOOR[:2], listening, "lab", "--hosts", "2", "--", *SH, "echo up; exec sleep 300"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None
        assert {running.stdout.readline() for _ in range(2)} == {"[host 0] up\n", "[host 1] up\n"}
        mine = [name for name in guard.namespaces() if f"-{running.pid}-" in name]
        inside = guard.residents(mine)
        assert len(inside) == 2
        running.send_signal(number)
        out, err = running.communicate(timeout=30)
    assert (running.returncode, out) == (code, "")
    assert "Traceback" not in err
    assert not set(mine) & set(guard.namespaces())
    assert all(guard.gone(pid) for pid in inside)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--hosts", "0", "--", "true"), "hosts must be from 1 to 250, not 0"),
        (("--rate", "100 foo", "--", "true"), "'100 foo' is no rate"),
        (("--rate", "1bit", "--", "true"), "must lie from 64kbit to 100gbit"),
        (("--hosts", "2"), "there is no command"),
        (("--", "no-such-command"), "there is no command 'no-such-command' that can be run"),
        (("--workers", "0", "--", "true"), "workers must be from 1"),
        (("--spare", "much", "--", "true"), "not a number with a unit"),
        (("--nonsense", "--", "true"), "No such option"),
    ],
)
def test_bad_input_is_one_line(words: tuple[str, ...], said: str) -> None:
    text = refused("lab", *words)
    assert said in text
    assert "No such option" in said or len(text.splitlines()) == 1


def test_without_the_tools_one_line_names_the_package(tmp_path: Path) -> None:
    words = [*DOOR, "lab", "--", sys.executable]
    done = subprocess.run(words, env={**os.environ, "PATH": str(tmp_path)}, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "gossamer: lab: needs `ip`, which is not here: install the package iproute2\n"


@needs_hosts
def test_without_root_one_line_says_so() -> None:
    code = "import os; from gossamer.lab import missing; os.setuid(65534); print(missing())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "needs root, to make network namespaces: run it with sudo\n"


def test_it_has_help() -> None:
    assert "lab" in ask("--help").stdout
    result = ask("lab", "--help")
    assert result.exit_code == 0
    assert "--keep-going" in result.stdout and "bool" not in result.stdout
