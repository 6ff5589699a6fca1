"""A sibling's stack is read whatever it does, and what has none is said in words; nothing is left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch.distributed as dist

from gossamer.engine.post import Place, key
from gossamer.engine.watch import Patience, Post, report, stack_of

Start = Callable[[int, str], "subprocess.Popen[str]"]

PREFACE = """
import sys, time, torch
import torch.distributed as dist
from gossamer.engine.watch import Post
torch.set_num_threads(1)
store = dist.FileStore(sys.argv[1], -1)
post = Post(store, int(sys.argv[2]))

def ready():
    print("ready", flush=True)
"""


@pytest.fixture
def store(tmp_path: Path) -> dist.Store:
    return dist.FileStore(str(tmp_path / "store"), -1)


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts members that say "ready" once they are about to do what their text says; ends them all."""
    begun: list[subprocess.Popen[str]] = []

    def of(member: int, text: str) -> subprocess.Popen[str]:
        script = tmp_path / f"member{member}.py"
        script.write_text(PREFACE + textwrap.dedent(text))
        command = [sys.executable, str(script), str(tmp_path / "store"), str(member)]
        pipe = subprocess.PIPE
        begun.append(subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True))
        assert begun[-1].stdout is not None and begun[-1].stdout.readline() == "ready\n"
        return begun[-1]

    yield of
    for process in begun:
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                pipe.close()


ASLEEP = """
def rests_a_while(seconds):
    ready()
    began = time.monotonic()
    time.sleep(seconds)
    print(time.monotonic() - began, flush=True)

def outer():
    rests_a_while(2.0)

outer()
"""

MULTIPLYING = """
torch.set_num_threads(2)  # one of the two knows no Python

def multiplies():
    a = torch.randn(1500, 1500)
    torch.mm(a, a)
    ready()
    while True:
        torch.mm(a, a)

multiplies()
"""

LOADING = """
from torch.utils.data import DataLoader

class Slow(torch.utils.data.Dataset):
    def __len__(self):
        return 4
    def __getitem__(self, index):
        time.sleep(1.0)
        return index

def waits_for_data():
    batches = iter(DataLoader(Slow(), num_workers=1))
    ready()
    print([int(batch) for batch in batches], flush=True)

waits_for_data()
"""


def state(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def until(process: subprocess.Popen[str], letter: str) -> None:
    """Wait until the kernel gives a process this state: S asleep, T stopped, Z ended."""
    while state(process.pid) != letter:
        time.sleep(0.005)


def test_a_sleeping_member_shows_its_stack_innermost_last_and_sleeps_on(store: dist.Store, start: Start) -> None:
    asleep = start(0, ASLEEP)
    until(asleep, "S")
    stacks = [stack_of(store, 0) for _ in range(3)]
    lines = stacks[0].splitlines()
    assert [line.rpartition(" in ")[2] for line in lines[::2]] == ["<module>", "outer", "rests_a_while"]
    assert lines[-1] == "    time.sleep(seconds)" and lines[0].startswith('  File "')
    assert stacks[1] == stacks[2] == stacks[0]
    assert asleep.stdout is not None
    assert 1.99 <= float(asleep.stdout.readline()) < 5.0  # three questions neither cut its sleep short nor prolonged it
    assert asleep.wait(20) == 0


def test_a_member_in_a_long_operation_or_waiting_for_data_is_shown(store: dist.Store, start: Start) -> None:
    loading = start(1, LOADING)
    until(loading, "S")
    deadline, waiting = time.monotonic() + 5.0, ""
    while "_try_get_data" not in waiting and time.monotonic() < deadline:  # it may be on its way there
        waiting = stack_of(store, 1, timeout=20.0)
    assert "in waits_for_data" in waiting and "_try_get_data" in waiting
    assert loading.stdout is not None and loading.stdout.readline() == "[0, 1, 2, 3]\n"
    start(0, MULTIPLYING)
    assert "in multiplies\n" in stack_of(store, 0, timeout=20.0)


def test_two_who_ask_at_once_each_hear_a_whole_stack(store: dist.Store, start: Start) -> None:
    until(start(0, "def rests():\n    ready()\n    time.sleep(60)\nrests()"), "S")
    with ThreadPoolExecutor(2) as both:
        stacks = set(both.map(lambda _: stack_of(store, 0, 20.0), range(60)))
    assert [line.rpartition(" in ")[2] for line in stacks.pop().splitlines()[::2]] == ["<module>", "rests"]
    assert not stacks


def test_a_stopped_a_dead_and_an_unknown_member_are_said_to_be_so(store: dist.Store, start: Start) -> None:
    member = start(0, ASLEEP)
    until(member, "S")
    member.send_signal(signal.SIGSTOP)
    until(member, "T")
    assert stack_of(store, 0) == "is stopped (SIGSTOP)"
    member.send_signal(signal.SIGCONT)
    assert "rests_a_while" in stack_of(store, 0)
    member.kill()
    until(member, "Z")  # ended, but nobody has taken notice yet
    assert stack_of(store, 0) == "has ended"
    member.wait()
    assert stack_of(store, 0) == "has ended"
    assert stack_of(store, 1) == "has not arrived yet"


def test_a_process_that_has_a_dead_members_number_is_never_signalled(store: dist.Store, start: Start) -> None:
    import msgspec

    alike = (  # it even has files of that name, and the signal would end it
        "import os, time; fd = os.memfd_create('gossamer-stack'); [os.dup2(fd, to) for to in range(fd, 40)]\n"
        "print('ready', flush=True); time.sleep(30)"
    )
    bystander = subprocess.Popen([sys.executable, "-c", alike], stdout=subprocess.PIPE, text=True)
    try:
        assert bystander.stdout is not None and bystander.stdout.readline() == "ready\n"
        start(0, ASLEEP)
        told = msgspec.json.decode(store.get(key(0)), type=Place)
        reused = msgspec.structs.replace(told, pid=bystander.pid)
        store.set(key(0), msgspec.json.encode(reused).decode())
        assert stack_of(store, 0) == "has ended"
        store.set(key(0), msgspec.json.encode(msgspec.structs.replace(reused, host="elsewhere")).decode())
        assert stack_of(store, 0) == "is on another host, and did not answer within 3 s"
        time.sleep(0.1)
        assert bystander.poll() is None
    finally:
        bystander.kill()
        bystander.communicate()


def test_a_member_that_cannot_hear_is_said_not_to_answer(store: dist.Store, start: Start) -> None:
    start(0, "import signal\nsignal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGRTMIN + 3])\nready()\ntime.sleep(60)")
    assert stack_of(store, 0, timeout=0.3) == "did not answer within 0.3 s (busy outside Python)"


def test_posts_of_a_process_share_a_file_and_a_late_question_does_no_harm(store: dist.Store) -> None:
    posts = [Post(store, member) for member in (0, 1)]
    opened = len(os.listdir("/proc/self/fd"))
    posts += [Post(store, member) for member in (2, 3)]
    assert len(os.listdir("/proc/self/fd")) == opened
    for member in range(4):
        assert "test_posts_of_a_process_share_a_file" in stack_of(store, member)
    posts[0].close()
    posts[0].close()
    assert stack_of(store, 0) == "has left" and "test_posts_of_a_process" in stack_of(store, 1)
    for post in posts[1:]:
        post.close()
    os.kill(os.getpid(), signal.SIGRTMIN + 3)  # not deadly


def test_a_store_that_does_not_answer_is_not_waited_for() -> None:
    hosting = (
        "import sys, torch.distributed as dist\n"
        "s = dist.TCPStore('127.0.0.1', 0, is_master=True, wait_for_workers=False); print(s.port, flush=True)\n"
        "sys.stdin.read()"
    )
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", hosting], stdin=pipe, stdout=pipe, text=True) as host:
        assert host.stdout is not None
        store = dist.TCPStore("127.0.0.1", int(host.stdout.readline()))
        assert stack_of(store, 0) == "has not arrived yet"
        host.send_signal(signal.SIGSTOP)
        until(host, "T")
        began = time.monotonic()
        assert stack_of(store, 0, timeout=0.3) == "cannot be found: the store did not answer within 0.3 s"
        assert time.monotonic() - began < 2.0
        host.kill()
    assert stack_of(store, 0).startswith("cannot be found: ")


def test_a_report_names_who_is_missing_where_and_how_long(store: dist.Store, start: Start) -> None:
    until(start(1, ASLEEP), "S")
    text = report(store, [1, 3, 4, 5], 0, "exchange 0 (gradients)", 12, 10.4)
    first, second, *_ = text.splitlines()
    assert first == "member 0 has waited 10 s in step 12: members 1, 3, 4, 5 have not entered exchange 0 (gradients)"
    assert second == "member 1 is here:"
    assert text.endswith("member 3 has not arrived yet\nmember 4 has not arrived yet\n(the first 3 of 4 are shown)")
    assert "in rests_a_while\n    time.sleep(seconds)\nmember 3" in text
    assert "member 3 has not entered" in report(store, [3], 0, "exchange 1", 2, 10.0)


def test_patience_ends_at_ten_seconds_or_five_steps_and_then_doubles() -> None:
    usual = [0.1]
    patience = Patience(lambda: usual[0])
    assert [waited for waited in range(100) if patience.due(waited)] == [10, 20, 40, 80]
    patience.calm()
    usual[0] = 4.0
    assert patience.next == 20.0 and not patience.due(19.9) and patience.due(25.0) and patience.next == 50.0
