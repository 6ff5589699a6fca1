"""Hosts that cannot run together are refused on each of them in one line; those that can know who stands where."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.cli.ask import ask, refused
from tests.hosts.launching import PORT, launched

from gossamer.lab import Lab, missing

HERE = Path(__file__).parent
PLACES = str(HERE / "places.py")
SCENE = str(HERE.parent / "processes" / "scene.py")
lab_needed = pytest.mark.skipif(missing() is not None, reason=str(missing()))
QUICK = ["--rdzv-conf", "join_timeout=3"]


def refusals(lab: Lab, folder: Path, *each: list[str]) -> list[str]:
    """What the launchers of as many hosts say as they all refuse: one line after that of the interface, code 2."""
    found = [launched(lab, folder, host, *words) for host, words in enumerate(each)]
    lines = []
    for launcher in found:
        code, text = launcher.ended(60.0)
        assert code == 2 and "Traceback" not in text, text
        said = [line for line in text.splitlines() if not line.startswith("gossamer: network interface ")]
        assert len(said) == 1, text
        lines += said
    return lines


@lab_needed
def test_hosts_given_different_things_are_named(tmp_path: Path) -> None:
    mine, other = str(tmp_path / "key"), str(tmp_path / "other")
    assert ask("key", mine).exit_code == ask("key", other).exit_code == 0
    script = ["--nproc-per-node", "2", SCENE, str(tmp_path), "sleeps", "9"]
    one = ["--nproc-per-node", "1", SCENE, str(tmp_path), "sleeps", "9"]
    cases = {
        "strategy is local_sgd, not allreduce": (["--strategy", "allreduce"], ["--strategy", "local_sgd"]),
        "its --key-file is another key": (["--key-file", mine], ["--key-file", other]),
        "only one of them has a --key-file": (["--key-file", mine], []),
    }
    with Lab(hosts=2) as lab:
        address = lab.hosts[1].address
        for said, (first, second) in cases.items():
            lines = refusals(lab, tmp_path, [*first, *script], [*second, *one])
            words = f"gossamer: run: host 1 ({address}, rank 2) differs from host 0 ({lab.hosts[0].address}): {said}; "
            assert lines == [f"{words}nearest that works: the same on all hosts"] * 2


@lab_needed
def test_nobody_at_the_endpoint_is_told_soon(tmp_path: Path) -> None:
    with Lab(hosts=2) as lab:
        nowhere, nobody = f"{lab.hosts[1].address}:{PORT}", "no-such-host.invalid:1234"
        ends = ["--rdzv-endpoint", nowhere, *QUICK, SCENE], ["--rdzv-endpoint", nobody, *QUICK, SCENE]
        second = launched(lab, tmp_path, 1, *ends[1])
        first = launched(lab, tmp_path, 0, *ends[0])
        heard = first.ended(40.0), second.ended(40.0)
    for (code, text), where in zip(heard, (nowhere, nobody), strict=True):
        assert code == 2 and f"run: no launcher answers at {where} after 3 s: " in text, text
        assert "Traceback" not in text


@lab_needed
def test_too_few_hosts_are_counted(tmp_path: Path) -> None:
    with Lab(hosts=1) as lab:
        code, text = launched(lab, tmp_path, 0, *QUICK, SCENE).ended(40.0)
    assert code == 2 and text.splitlines()[-1].startswith("gossamer: run: 1 of 2 hosts came within 3 s; host 1 did not")


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
        if rank:  # each is asked by its neighbour: on the same host through /proc, else through the store
            assert "in waits_to_be_asked" in one["stack"], one


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
