"""Hosts that cannot run together are refused on each of them in one line; those that can know who stands where."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path

import pytest
import torch
from msgspec import Struct
from msgspec.structs import replace
from tests.cli.ask import ask, refused
from tests.hosts.launching import PORT, Launcher, launched
from tests.processes.living import soon
from torch.distributed.distributed_c10d import Store

from gossamer.engine.launch.host import Host, about
from gossamer.engine.launch.interface import lead_out, own_only
from gossamer.engine.launch.meeting import Meeting, compare, meet
from gossamer.engine.launch.ties import FALLS, SURVIVES, Cause, Ties
from gossamer.lab import Lab, missing
from gossamer.parts.refusal import Refused

HERE = Path(__file__).parent
PLACES = str(HERE / "places.py")
SCENE = str(HERE.parent / "processes" / "scene.py")
lab_needed = pytest.mark.skipif(missing() is not None, reason=str(missing()))


def refusals(*launchers: Launcher) -> list[str]:
    """What launchers say as they all refuse: one line after that of the interface, code 2."""
    lines = []
    for launcher in launchers:
        code, text = launcher.ended(60.0)
        assert code == 2 and "Traceback" not in text, text
        said = [line for line in text.splitlines() if not line.startswith("gossamer: network interface ")]
        assert len(said) == 1, text
        lines += said
    return lines


def together(*hosts: Host, key: bytes | None = None, numbers: tuple[int | None, ...] = ()) -> list[Meeting | Refused]:
    """How a meeting on loopback goes for launchers that say this of themselves."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        where = ("127.0.0.1", free.getsockname()[1])

    def one(number: int) -> Meeting | Refused:
        try:
            met = meet(where, hosts[number], (numbers or range(len(hosts)))[number], 20.0, 3.0)
            compare(met, key)
            return met
        except Refused as refusal:
            return refusal

    with ThreadPoolExecutor(len(hosts)) as pool:
        return list(pool.map(one, range(len(hosts))))


HOST = about("10.0.0.1", 2, 3, ("allreduce", None, 0), None)


@pytest.mark.parametrize(
    ("odd", "said"),
    [
        ({"torch": "1.13.1"}, f"torch is 1.13.1, there it is {torch.__version__}"),
        ({"gossamer": "9.9"}, f"gossamer is 9.9, there it is {version('gossamer')}"),
        ({"strategy": "local_sgd"}, "strategy is local_sgd, there it is allreduce"),
        ({"fabric": "torch"}, "fabric is torch, there it is not given"),
        ({"sealed": "00"}, "only one of them has a --key-file"),
        ({"job": "other"}, "--rdzv-id is other, there it is not given"),
    ],
)
def test_what_differs_is_named_on_every_host(odd: dict[str, str], said: str) -> None:
    found = together(HOST, HOST, replace(HOST, address="10.0.0.3", workers=1, **odd))
    for each in found:
        assert str(each).startswith(f"run: host 2 (10.0.0.3, rank 4) differs from host 0 (10.0.0.1): {said}; ")


def test_a_host_of_a_version_that_says_other_things_is_named() -> None:
    class Older(Struct):
        address: str
        hosts: int
        gossamer: str

    found = together(HOST, replace(HOST, hosts=3), Older("10.0.0.9", 3, "0.1"))  # type: ignore[arg-type]
    here = version("gossamer")
    for each in found[:2]:
        assert str(each).startswith(f"run: host 2 (10.0.0.9) has gossamer 0.1, and here it is {here}: what it says of")


def test_what_all_hosts_together_cannot_play_is_refused_on_each_before_any_worker_starts() -> None:
    odd = replace(HOST, strategy="dpsgd(Grid())")
    for each in together(odd, odd, replace(odd, workers=1)):
        assert str(each).startswith("Grid: 5 workers make a torus of 5 x 1, which is a circle; nearest that works: ")
    assert all(isinstance(each, Meeting) for each in together(odd, odd, odd))


def test_hosts_count_themselves_and_nobody_takes_a_number_twice() -> None:
    found = together(HOST, HOST, HOST, numbers=(None, None, None))
    assert sorted(each.number for each in found if isinstance(each, Meeting)) == [0, 1, 2]
    doubled = together(HOST, HOST, HOST, numbers=(0, 1, 1))
    assert "host 1 is here already" in " ".join(map(str, doubled))
    few = "run: 2 of 3 hosts came within 3 s; host 2 did not; nearest that works: --rdzv-conf join_timeout=SECONDS"
    assert [str(each).startswith(few) for each in doubled].count(True) == 2


def test_hosts_that_count_on_different_numbers_are_told_at_once() -> None:
    few, many = replace(HOST, hosts=2), HOST
    found = [str(each) for each in together(few, many)]
    assert found[0].startswith("run: host 1 (10.0.0.1, ranks 2-3) differs from host 0 (10.0.0.1): --nnodes is 3, there")
    assert found[1].startswith("run: --nnodes is 3 here, and 2 on host 0 (10.0.0.1)")


def test_what_listens_there_and_is_no_launcher_is_told() -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        threading.Thread(target=lambda: [other.accept()[0].close() for _ in range(50)], daemon=True).start()
        with pytest.raises(Refused, match=r"127.0.0.1:\d+ is no store of a launcher"):
            meet(("127.0.0.1", other.getsockname()[1]), HOST, 1, 1.0, 3.0)


@lab_needed
def test_another_key_and_endpoints_where_nobody_is_are_told_in_one_line(tmp_path: Path) -> None:
    mine, other = str(tmp_path / "key"), str(tmp_path / "other")
    assert ask("key", mine).exit_code == ask("key", other).exit_code == 0
    quick, script = ["--rdzv-conf", "join_timeout=3"], [SCENE, str(tmp_path), "sleeps", "9"]
    with Lab(hosts=4) as lab:
        nowhere, nobody = f"{lab.hosts[0].address}:1234", f"no-such-host.invalid:{PORT}"
        lines = refusals(
            launched(lab, tmp_path, 0, "--key-file", mine, *script),
            launched(lab, tmp_path, 1, "--key-file", other, *script),
            launched(lab, tmp_path, 2, "--rdzv-endpoint", nowhere, *quick, *script),
            launched(lab, tmp_path, 3, "--rdzv-endpoint", nobody, *quick, *script),
        )
        where = f"host 1 ({lab.hosts[1].address}, rank 1) differs from host 0 ({lab.hosts[0].address})"
    said = f"gossamer: run: {where}: its --key-file is another key; nearest that works: the same on all hosts"
    assert lines[:2] == [said, said]
    assert lines[2].startswith(f"gossamer: run: no launcher answers at {nowhere} after 3 s: Connection refused; ")
    assert lines[3].startswith(f"gossamer: run: no launcher answers at {nobody} after ")


@lab_needed
def test_members_know_their_hosts_and_meet_on_the_link(tmp_path: Path) -> None:
    """Also with unequal numbers; and what ended on one host is waited for by the other."""
    with Lab(hosts=2) as lab:
        runs = [
            launched(lab, tmp_path, host, "--nproc-per-node", str(1 + host), PLACES, str(tmp_path)) for host in (0, 1)
        ]
        ends = [run.ended(90.0) for run in runs]
        addresses = [host.address for host in lab.hosts]
    for host, (code, text) in enumerate(ends):
        assert code == 0, text
        assert f"gossamer: network interface {lab.hosts[host].interface}, address {addresses[host]}" in text
    told = [json.loads((tmp_path / f"told-{rank}").read_text()) for rank in range(3)]
    for rank, one in enumerate(told):
        assert one["hosts"] == [[0], [1, 2]] and one["per_host"] == [1, 2]
        assert one["host"] == min(rank, 1) and not one["one_host"]
        assert one["addresses"] == addresses
        assert one["sum"] == 6.0
        assert one["interface"] == lab.hosts[one["host"]].interface
    assert "in waits_to_be_asked" in told[1]["stack"]  # as told by rank 0, on the other host, through the store
    assert 'places.py", line' in told[2]["stack"]  # of rank 1, on the same host


@contextmanager
def two_of_three() -> Iterator[tuple[Ties, Ties, list[Store]]]:
    """The launchers of two hosts whose third has fallen silent, and their stores."""
    first, second, third = together(HOST, HOST, replace(HOST, address="10.0.0.3", workers=1))
    assert isinstance(first, Meeting) and isinstance(second, Meeting) and isinstance(third, Meeting)
    here, there, other = Ties(first), Ties(second), Ties(third)
    try:
        other.leave()
        assert soon(lambda: bool(here.lost(2.0) and there.lost(2.0)), 10.0)
        yield here, there, [first.store, second.store]
    finally:
        there.leave()
        here.leave()


def test_a_launcher_that_falls_silent_is_named() -> None:
    with two_of_three() as (here, there, _):
        for ties in (here, there):
            assert str(ties.lost(2.0)).startswith("host 2 (10.0.0.3, rank 4) has not been heard of for ")
        assert here.lost(30.0) is None
        assert there.publish(Cause(1, 3, "enough")) == Cause(1, 3, "enough")
        assert here.publish(Cause(0, 4, "too late")) == Cause(1, 3, "enough")


def test_where_a_loss_is_survived_a_silent_host_is_let_go_and_the_others_are_done_without_it() -> None:
    with two_of_three() as (here, there, stores):
        assert not here.let_go(2.0)  # nobody has said that the others can do without it
        stores[0].set(SURVIVES, "yes")
        assert soon(lambda: here.survives and there.survives)
        assert here.let_go(2.0) and there.let_go(2.0)
        assert here.lost(2.0) is there.lost(2.0) is None
        assert not here.done(0.5)
        assert there.done(5.0) and here.done(5.0)
        stores[1].set(FALLS, "yes")
        assert soon(lambda: not here.survives)


def test_a_name_that_leads_nowhere_else_is_refused_unless_an_interface_is_named() -> None:
    assert not own_only("127.0.0.1") and not own_only("localhost")
    with pytest.raises(Refused, match="head is a loopback address on this host, where no other host gets"):
        lead_out(("head", 29400), None)
    assert lead_out(("head", 29400), "10.0.0.1") == ("10.0.0.1", 29400)


def test_an_interface_that_is_not_there_is_refused_with_those_that_are() -> None:
    line = refused("run", "--nnodes", "2", "--interface", "eth77", SCENE)
    assert "there is no network interface 'eth77' on this host; nearest that works: " in line and "lo" in line
    assert len(line.splitlines()) == 1


def test_a_key_is_made_once_and_kept_from_others(tmp_path: Path) -> None:
    path = tmp_path / "key"
    assert ask("key", str(path)).exit_code == 0
    kept = path.read_bytes()
    assert len(kept) == 32 and path.stat().st_mode & 0o777 == 0o600
    assert "is there already" in refused("key", str(path))
    assert path.read_bytes() == kept
    path.chmod(0o644)
    assert "is open to other users" in refused("run", "--key-file", str(path), SCENE)
