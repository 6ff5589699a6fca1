"""`gossamer run` on real processes: torchrun's flags, our settings, the first real traceback last, nobody left over."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.cli.ask import DOOR, refused
from tests.processes.living import all_there, left, none_runs, pids, shared
from torch.distributed.run import get_args_parser

from gossamer.engine.launch.flags import parser, read
from gossamer.parts.refusal import Refused

HERE = Path(__file__).parent
SCENE = str(HERE / "scene.py")
LISTENING = (  # a shell's background job starts deaf to Ctrl-C, and so would its children
    "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
    "from gossamer.cli.main import main; main()"
)


@contextmanager
def running(*words: str, folder: Path) -> Iterator[subprocess.Popen[str]]:
    """A launcher as a process of its own; whatever happens, it is gone at the end."""
    pipe, env = subprocess.PIPE, {**os.environ, "TMPDIR": str(folder)}  # one that is killed cannot clear its folder
    command = [*DOOR[:2], LISTENING, "run", *words]
    launcher = subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, cwd=folder, env=env)
    try:
        yield launcher
    finally:
        launcher.kill()
        launcher.communicate()


def ended(*words: str, folder: Path) -> tuple[int, str, str]:
    """How a launcher ended: its code, what it printed, what it said aside; nobody and nothing is left of it."""
    before = shared()
    with running(*words, folder=folder) as launcher:
        out, err = launcher.communicate(timeout=300)
    assert none_runs(pids(folder), 0.0)
    assert not left(before)
    return launcher.returncode, out, err


def test_every_flag_of_torchrun_is_there_and_means_the_same() -> None:
    theirs = {option: action for action in get_args_parser()._actions for option in action.option_strings}
    ours = {option: action for action in parser()._actions for option in action.option_strings}
    assert set(ours) - set(theirs) == {"--strategy", "--fabric", "--journal", "--servers", "--interface", "--key-file"}
    for option, action in theirs.items():
        same = ours[option]
        assert (same.dest, same.default, same.nargs, same.type is action.type or option.startswith("--dup")) == (
            action.dest, action.default, action.nargs, True,
        )  # fmt: skip


def test_a_rendezvous_that_is_named_is_kept() -> None:
    assert read([SCENE]).standalone
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    named = read(["--rdzv_backend=c10d", f"--rdzv-endpoint=localhost:{port}", SCENE])
    assert (named.standalone, named.rdzv_endpoint) == (False, f"localhost:{port}")
    assert not read(["--master-port", str(port), SCENE]).standalone
    assert not read(["--nnodes", "2", "--node-rank", "1", SCENE]).standalone


def test_all_is_fine_and_words_pass_through(tmp_path: Path) -> None:
    words = ["--lr", "0.1", "--nproc-per-node", "9", "--", "x y", "-m"]
    ours = ["--strategy", "allreduce(ring)", "--fabric=torch", "--journal", "kept"]
    code, out, err = ended("--nproc_per_node=2", *ours, SCENE, str(tmp_path), "is fine", "0", *words, folder=tmp_path)
    assert (code, out, err) == (0, "", "")
    told = [json.loads((tmp_path / f"told-{rank}").read_text()) for rank in (0, 1)]
    for rank, one in enumerate(told):
        assert one["argv"] == [SCENE, str(tmp_path), "is fine", "0", *words]
        assert (one["name"], one["path"]) == ("__main__", str(HERE))
        assert one["env"].pop("GOSSAMER_SLATE").endswith(f"/step-{rank}")
        assert one["env"].pop("GOSSAMER_KEY_FILE").startswith("/proc/")  # memory of the launcher, gone with it
        assert one["env"] == {
            "RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2", "GROUP_RANK": "0",
            "OMP_NUM_THREADS": "1", "MASTER_ADDR": "127.0.0.1", "GOSSAMER_STRATEGY": "allreduce(ring)",
            "GOSSAMER_FABRIC": "torch", "GOSSAMER_JOURNAL": str(tmp_path / "kept"),
        }  # fmt: skip


def test_a_command_runs_as_it_would(tmp_path: Path) -> None:
    assert ended("--no-python", "sh", "-c", "echo $RANK; exit 3", folder=tmp_path) == (
        3, "0\n", "gossamer: rank 0 ended with code 3, and all others were stopped\n",
    )  # fmt: skip


def test_one_raises_while_the_others_sleep(tmp_path: Path) -> None:
    code, _, err = ended("--nproc-per-node=4", SCENE, str(tmp_path), "raises", "2", folder=tmp_path)
    before, last = err.split("gossamer: rank 2 failed, and all others were stopped:\n")
    assert (code, before) == (1, "")  # the traceback stands there once
    assert last.startswith("Traceback (most recent call last):\n")
    assert last.endswith("ValueError: the loss of this rank went wrong\n")


def test_one_is_killed_and_others_do_not_listen(tmp_path: Path) -> None:
    with running("--nproc-per-node=3", SCENE, str(tmp_path), "sleeps", "9", "deaf", folder=tmp_path) as launcher:
        found = all_there(tmp_path, 3)
        subprocess.run(["kill", "-KILL", str(found[1])], check=True)
        assert none_runs(found)
        assert launcher.communicate(timeout=20)[1].startswith("gossamer: rank 1 was killed by SIGKILL, and all others")
    assert launcher.returncode == 137


def test_a_refusal_in_a_worker_is_one_line_and_code_2(tmp_path: Path) -> None:
    code, _, err = ended("--nproc-per-node=2", SCENE, str(tmp_path), "refuses", "1", folder=tmp_path)
    assert (code, err) == (2, "gossamer: rank 1: the model of this rank is odd; nearest that works: an even one\n")


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGKILL, -9)])
def test_workers_end_with_their_launcher(number: signal.Signals, code: int, tmp_path: Path) -> None:
    before = shared()
    with running("--nproc-per-node=2", SCENE, str(tmp_path), "sleeps", "9", folder=tmp_path) as launcher:
        found = all_there(tmp_path, 2)
        launcher.send_signal(number)
        assert none_runs(found)
        _, err = launcher.communicate(timeout=20)
    said = "" if number == signal.SIGKILL else f"gossamer: stopped by {number.name}\n"
    assert (launcher.returncode, err) == (code, said)
    assert not left(before)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "there is no script; nearest that works: gossamer run"),
        (["nothing.py"], "there is no script 'nothing.py'"),
        (["."], "'.' is a folder, not a script"),
        (["-m", "no_such_module"], "or on PYTHONPATH\n"),
        (["--no-python", "no-such-command"], "there is no command 'no-such-command'"),
        (["--no-python", "-m", "json.tool"], "contradict"),
        (["--nproc-per-node", "0", SCENE], "nproc-per-node must be from 1 to 1024, not 0"),
        (["--nproc-per-node", "many", SCENE], "--nproc-per-node many"),
        (["--nnodes", "0", SCENE], "nnodes must be from 1"),
        (["--nnodes", "a:b", SCENE], "--nnodes a:b is no number of hosts"),
        (["--monitor-interval", "0", SCENE], "--monitor-interval must lie above 0"),
        (["--nprocs", "2", SCENE], "there is no flag --nprocs; nearest that works: --nproc-per-node\n"),
        (["--r", "2", SCENE], "ambiguous option: --r could match --rdzv-backend, --rdzv-endpoint, "),
        (["--fabrik", "torch", SCENE], "there is no flag --fabrik; nearest that works: --fabric"),
        (
            ["--fabric", "wool", SCENE],
            "invalid choice: 'wool' (choose from 'auto', 'shared', 'hosts', 'torch', 'messages')",
        ),
        (["--max-restarts", "x", SCENE], "invalid int value: 'x'"),
        (["--master-port", "99999", SCENE], "99999"),
    ],
)
def test_bad_input_is_one_line(words: list[str], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    lines = refused("run", *words)
    assert said in lines
    assert len(lines.splitlines()) == 1


def test_only_a_script_of_a_like_name_is_suggested(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text("")
    assert "nearest" not in refused("run", "nope.py")
    assert refused("run", "trian.py").endswith("nearest that works: train.py\n")
    assert refused("run", ".").endswith("'.' is a folder, not a script; nearest that works: train.py\n")
    (tmp_path / "other.py").write_text("")
    assert "nearest" not in refused("run", ".")


def test_a_flag_cut_short_is_clear_if_it_stands_for_one_however_spelt() -> None:
    assert read(["--nproc", "3", SCENE]).workers == read(["--nproc=3", SCENE]).workers == 3


def test_a_strategy_that_cannot_be_read_is_pointed_at() -> None:
    assert refused("run", "--strategy", "local_sgd(evry=8)", SCENE).splitlines()[1].strip(" ") == "^" * len("evry")


def test_a_port_in_use_is_refused() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        for flags in (["--rdzv-backend=c10d", f"--rdzv-endpoint=localhost:{port}"], ["--master-port", port]):
            assert f":{port} cannot be used: Address already in use" in refused("run", *flags, SCENE)
        with pytest.raises(Refused, match="in use"):
            read(["--nnodes=2", "--node-rank=0", "--master-addr=127.0.0.1", "--master-port", port, SCENE])
        assert read(["--nnodes=2", "--node-rank=1", "--master-addr=127.0.0.1", "--master-port", port, SCENE]).hosts == 2
