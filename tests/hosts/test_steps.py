"""Training between hosts: the bytes on the links are those recorded, memory ends at the host, exchanges hide."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gossamer.lab import Lab, missing

MODEL = 16 << 20  # bytes: layers of a megabyte
HEADERS = 1.03  # of packets, and answers to those that came
VOTES = 300_000  # bytes that members may take to tell each other what else they have to, in a few steps
ROUTES = ("Auto()", "Torus(x=2)", "Hierarchical(per_host=2)", "Ring()", "HalvingDoubling()", "Native()")


class Told:
    """Workers on the hosts of a lab, two on each unless told, which make steps when told to."""

    def __init__(self, lab: Lab, each: int = 2) -> None:
        self.lab, self.each = lab, each
        command = [sys.executable, str(Path(__file__).with_name("steps.py"))]
        pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        count = each * len(lab.hosts)
        self.workers = [lab.start(rank // each, command, env=self._env(rank, count), **pipes) for rank in range(count)]

    def step(self, strategy: str, count: int, seconds: float = 0.0) -> list[dict[str, Any]]:
        """What each worker says after so many steps."""
        for worker in self.workers:
            assert worker.stdin is not None
            worker.stdin.write(json.dumps([strategy, seconds, count]) + "\n")
            worker.stdin.flush()
        said = [worker.stdout.readline() for worker in self.workers if worker.stdout is not None]
        assert all(said), "a worker has ended"
        return [json.loads(line) for line in said]

    def end(self) -> None:
        """All end well."""
        for worker in self.workers:
            assert worker.stdin is not None
            assert worker.stdout is not None
            worker.stdin.close()
            worker.stdout.close()
        assert [worker.wait(30) for worker in self.workers] == [0] * len(self.workers)

    def _env(self, rank: int, count: int) -> dict[str, str]:
        first, here = self.lab.hosts[0], self.lab.hosts[rank // self.each]
        return {
            "RANK": str(rank), "WORLD_SIZE": str(count), "LOCAL_RANK": str(rank % self.each),
            "LOCAL_WORLD_SIZE": str(self.each), "GROUP_RANK": str(rank // self.each), "OMP_NUM_THREADS": "1",
            "MASTER_ADDR": first.address,
            "MASTER_PORT": "29500", "GLOO_SOCKET_IFNAME": here.interface,
        }  # fmt: skip


@pytest.fixture(scope="module")
def told() -> Iterator[Told]:
    """Two hosts at 400 Mbit/s."""
    if (why := missing()) is not None:
        pytest.skip(why)
    with Lab(hosts=2, rate="400mbit") as lab:
        found = Told(lab)
        yield found
        found.end()


@pytest.mark.parametrize("route", ROUTES)
def test_bytes_on_the_links_are_those_recorded_and_all_end_alike(told: Told, route: str) -> None:
    strategy = f"Exchange(route={route})"
    told.step(strategy, 0)
    before = told.lab.traffic()
    said = told.step(strategy, 2)
    sent = [(now - then).sent for now, then in zip(told.lab.traffic(), before, strict=True)]
    recorded = [sum(each["crossed"] for each in said[host : host + 2]) for host in (0, 2)]
    for counted, noted in zip(sent, recorded, strict=True):
        assert noted >= 2 * MODEL  # 2 (H-1)/H of the model a step, at the least
        assert abs(counted - HEADERS * noted) <= 0.10 * noted + VOTES, (counted, noted)
    assert len({each["total"] for each in said}) == 1


def test_memory_is_shared_inside_a_host_and_never_between_hosts(told: Told) -> None:
    one, two, three, four = (set(each["memories"]) for each in told.step("Exchange()", 1))
    assert one == two != set()
    assert three == four != set()
    assert not one & three


@pytest.mark.parametrize("share", [0.5, *(pytest.param(share, marks=pytest.mark.long) for share in (1.0, 2.0))])
def test_the_exchange_hides_behind_computing(told: Told, share: float) -> None:
    found = []
    for _ in range(4):  # other tests may take the cores meanwhile: once is enough to see that it hides
        exchange = quickest(told, "Exchange()", 0.0)
        seconds = round(share * exchange, 2)
        compute = quickest(
            told, "Exchange(payload=PARAMETERS, synchrony=Synchrony(every=1000))", seconds
        )  # never, here
        both = quickest(told, "Exchange()", seconds)
        assert compute > 0.9 * seconds
        found.append((exchange, compute, both))
        if both <= 1.2 * max(compute, exchange):
            return
    raise AssertionError(f"exchange, compute and both: {found}")


def quickest(told: Told, strategy: str, seconds: float) -> float:
    """Of some steps, as the slowest worker sees them."""
    return min(max(each["seconds"] for each in told.step(strategy, 1, seconds)) for _ in range(5))
