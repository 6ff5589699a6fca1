"""Members of two hosts visit one another by keyed messages: what they send, whom they refuse, and who is gone."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from gossamer.engine.messages import secret
from gossamer.lab import Lab, missing
from gossamer.parts.topology import Neighbours
from gossamer.parts.world import World
from gossamer.strategy import parse, slots

pytestmark = pytest.mark.skipif(missing() is not None, reason=str(missing()))
SCRIPT = str(Path(__file__).with_name("visiting.py"))
BYTES = 4 * (500 * 500 + 500)  # of the model
STEPS = 20
GATED = "Exchange(payload=PARAMETERS, topology=RandomPeer(), synchrony=Synchrony(staleness=3))"  # all wait for all
CARRIED = "torch (gloo), visits by keyed messages\n"


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    """Two hosts."""
    with Lab(hosts=2) as made:
        yield made


def begin(
    lab: Lab, strategy: str, steps: int, keys: list[Path] | None, pace: float = 0.0
) -> list[subprocess.Popen[str]]:
    """One worker on each host, as a launcher would start them."""
    found = []
    for host in (0, 1):
        env = {
            "RANK": str(host), "WORLD_SIZE": "2", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1", "GROUP_RANK": str(host),
            "MASTER_ADDR": lab.hosts[0].address, "MASTER_PORT": "29512",
            "GLOO_SOCKET_IFNAME": lab.hosts[host].interface,
            "OMP_NUM_THREADS": "1", "GOSSAMER_KEY_FILE": "" if keys is None else str(keys[host]),
        }  # fmt: skip
        command = [sys.executable, SCRIPT, strategy, str(steps), str(pace)]
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        found.append(lab.start(host, command, env, **pipes))
    return found


def end(workers: list[subprocess.Popen[str]], seconds: float = 60.0) -> list[tuple[str, str]]:
    """What each said and complained of."""
    try:
        return [worker.communicate(timeout=seconds) for worker in workers]
    finally:
        for worker in workers:
            worker.kill()


def predicted(strategy: str) -> list[int]:
    """Bytes of each host: what a hub is told and answers, or what partners show; and member 0 says how to begin."""
    exchange, world, sent = slots(parse(strategy))[0], World(2), [BYTES, 0]
    for step in range(STEPS):
        for member in (0, 1):
            mixing = None if exchange.hub else exchange.topology.mixing(member, step, world, 0)
            if mixing is None:
                sent[member] += BYTES  # a push, or the answer to the other's
            elif isinstance(mixing, Neighbours) and 1 - member in mixing.weights:
                sent[1 - member] += BYTES
    assert min(sent) > 5 * BYTES
    return sent


@pytest.mark.parametrize("strategy", ["parameter_server", "gossip_pull"])
def test_bytes_on_the_links_are_those_of_visits(lab: Lab, tmp_path: Path, strategy: str) -> None:
    secret.made(tmp_path / "key")
    with lab.metered(predicted(strategy), spare=150_000):
        workers = begin(lab, strategy, STEPS, [tmp_path / "key"] * 2)
        for worker, (said, complained) in zip(workers, end(workers), strict=True):
            assert worker.returncode == 0, complained
            assert said.startswith(f"{CARRIED}done ")


def test_without_a_key_or_with_two_nobody_trains(lab: Lab, tmp_path: Path) -> None:
    secret.made(tmp_path / "one")
    secret.made(tmp_path / "two")
    for keys, reason in (
        (None, r"no key to know them by; nearest that works: gossamer key FILE.*--key-file"),
        ([tmp_path / "one", tmp_path / "two"], r"member \d \(host \d, 10\..*does not hold this job's key"),
    ):
        workers = begin(lab, "parameter_server", STEPS, keys)
        for worker, (said, complained) in zip(workers, end(workers), strict=True):
            assert worker.returncode != 0 and not said
            assert re.search(rf"gossamer: rank \d: messages: .*{reason}", complained), complained


@pytest.mark.long
def test_a_host_whose_link_goes_down_is_named_and_who_waits_for_nobody_goes_on(lab: Lab, tmp_path: Path) -> None:
    secret.made(tmp_path / "key")
    workers = begin(lab, "gossip_pull", 2_000, [tmp_path / "key"] * 2, pace=0.01)
    try:
        assert [worker.stdout.readline() for worker in workers if worker.stdout] == [CARRIED] * 2
        lab.cut(1)
        (said, first), (nothing, second) = end(workers)
        assert re.search(
            r"gossamer: host 1 \(10\.\S+\): its worker 1 has not been heard of .*; the others go on", first
        )
        assert said.startswith("done "), first
        assert "gossamer: host 0 (10." in second and not nothing, second  # silent, or the store it holds is
    finally:
        lab.mend(1)
        end(workers)


def test_a_host_whose_link_goes_down_is_named_in_time(lab: Lab, tmp_path: Path) -> None:
    secret.made(tmp_path / "key")
    workers = begin(lab, GATED, 10**9, [tmp_path / "key"] * 2)
    try:
        assert [worker.stdout.readline() for worker in workers if worker.stdout] == [CARRIED] * 2
        lab.cut(1)
        began = time.monotonic()
        for other, worker in zip((1, 0), workers, strict=True):
            _, complained = worker.communicate(timeout=60.0)
            assert time.monotonic() - began < 20.0, complained  # ten seconds, on a busy machine
            gone = rf"MemberLost: member {other} \(host {other}, 10\.\S+\) is gone"
            silent = rf"host {other} \(10\.\S+\): its worker {other} has not been heard of"  # whoever sees it first
            assert re.search(f"{gone}|{silent}", complained), complained
    finally:
        lab.mend(1)
        end(workers)
