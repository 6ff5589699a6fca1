"""Hubs between hosts: in shards that members keep, or servers, each on its host; every link carries as much."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from tests.hosts.launching import launched

from gossamer.engine.messages.secret import made
from gossamer.lab import Lab, missing
from gossamer.records import StepRecord, read

SCRIPT = str(Path(__file__).parent.parent / "processes" / "serving.py")
STEPS, MODEL = 12, 8 * (11 * 20_000 + 20_001)  # bytes of the wide model
SPARE = 600_000  # bytes of all that is said beside, before the first step most of it


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    """Two hosts at 400 Mbit/s."""
    if (why := missing()) is not None:
        pytest.skip(why)
    with Lab(hosts=2, rate="400mbit") as lab:
        yield lab


@pytest.mark.parametrize("servers", [pytest.param(0, marks=pytest.mark.long), 2])
def test_each_link_carries_its_share(lab: Lab, tmp_path: Path, servers: int) -> None:
    """With two hosts of one worker each: of what a worker pushes half leaves, and half of the answer to the other.

    The first one's parameters are what all begin with, and leave it once.
    """
    key = tmp_path / "key"
    made(key)
    words = [
        "--nproc-per-node",
        "1",
        "--servers",
        str(servers),
        "--key-file",
        str(key),
        "--strategy",
        "parameter_server",
    ]
    words += ["--journal", str(tmp_path / "journal")]
    before = lab.traffic()
    runs = [launched(lab, tmp_path, host, *words, SCRIPT, str(tmp_path), "wide") for host in range(2)]
    for run in runs:
        code, said = run.ended(180.0)
        assert code == 0, said
    sent = [(now - then).sent for now, then in zip(lab.traffic(), before, strict=True)]
    pushed = STEPS * MODEL
    assert all(pushed <= each <= 1.1 * pushed + SPARE for each in (sent[0] - MODEL, sent[1])), (sent, pushed)
    ends = [torch.load(tmp_path / f"after-{rank}.pt", weights_only=True) for rank in range(2)]
    assert all(torch.equal(one, other) for one, other in zip(*ends, strict=True))
    if not servers:  # they keep no journal
        recorded = [crossed(tmp_path / "journal" / f"journal-{rank}.jsonl") for rank in range(2)]
        assert recorded == [pushed, pushed]


def crossed(path: Path) -> int:
    """Bytes that left a host, as its worker recorded them."""
    return sum(sum(record.crossed.values()) for record in read(path) if isinstance(record, StepRecord))
