"""A worker that is killed while hosts mix by the backend's own collective: the others name it by themselves."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from gossamer.lab import Lab, missing

pytestmark = pytest.mark.skipif(missing() is not None, reason=str(missing()))
STORE = (  # as it lives in a launcher: no worker takes it along
    "import sys; from torch.distributed import TCPStore; "
    "store = TCPStore('{}', 29514, None, True, wait_for_workers=False); sys.stdin.read()"
)
SCRIPT = str(Path(__file__).with_name("breaking.py"))


@pytest.mark.parametrize(
    ("route", "hosts", "workers", "who"),
    [("Native()", 3, 1, 1), pytest.param("Torus(x=2)", 2, 2, 3, marks=pytest.mark.long)],
)
def test_the_others_name_it(route: str, hosts: int, workers: int, who: int) -> None:
    """Without a launcher of ours, which would: once over torch, once in a column of a torus."""
    size = hosts * workers
    with Lab(hosts=hosts) as lab:
        address = lab.hosts[0].address
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        begun, store = [], lab.start(0, [sys.executable, "-c", STORE.format(address)], {}, stdin=subprocess.PIPE)
        for rank in range(size):
            host = rank // workers
            env = {
                "RANK": str(rank), "WORLD_SIZE": str(size), "LOCAL_RANK": str(rank % workers),
                "LOCAL_WORLD_SIZE": str(workers), "GROUP_RANK": str(host), "OMP_NUM_THREADS": "1",
                "MASTER_ADDR": address, "MASTER_PORT": "29514", "TORCHELASTIC_USE_AGENT_STORE": "True",
                "GLOO_SOCKET_IFNAME": lab.hosts[host].interface,
            }  # fmt: skip
            begun.append(lab.start(host, [sys.executable, SCRIPT, route, str(who)], env, **pipes))
        try:
            said = [worker.communicate(timeout=90.0) for worker in begun]
        finally:
            for worker in (*begun, store):
                worker.kill()
                worker.wait()
            store.stdin.close()
    for rank in set(range(size)) - {who}:
        out, err = said[rank]
        assert out, err
        told = json.loads(out)
        assert told["members"] == [who], f"member {rank}: {told}"
        assert f"member {who} " in told["said"]
