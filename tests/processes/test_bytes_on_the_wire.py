"""Recorded bytes against the loopback interface's own counter: nothing is hidden and nothing is invented."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

from gossamer.engine.crew import Crew
from gossamer.tasks.task import Task, classified


def large(seed: int = 0) -> Task:
    """A million parameters, so that payloads dwarf headers and acknowledgements."""
    generator = torch.Generator().manual_seed(1)
    inputs, labels = torch.randn(64, 500, generator=generator), torch.arange(64) % 4
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = nn.Sequential(nn.Linear(500, 2000), nn.ReLU(), nn.Linear(2000, 4))
    return Task(model, (inputs, labels), (inputs, labels), classified)


def written(crew: Crew) -> int:
    """Bytes the workers have written so far, as the kernel counted them: gloo writes to its sockets like to files."""
    lines = [Path(f"/proc/{worker.pid}/io").read_text() for worker in crew._workers]
    return sum(int(line.split()[1]) for text in lines for line in text.splitlines() if line.startswith("wchar"))


def carried(crew: Crew, expression: str, steps: int) -> tuple[int, int]:
    """Bytes the kernel saw leave and bytes the records tell of, for one run."""
    before = written(crew)
    result = crew.run(strategy=expression, task="tests.processes.test_bytes_on_the_wire:large", batch=2, steps=steps)
    owner = (
        sum(record.heard.get(0, 0) for record in result.steps if record.member != 0) if "server" in expression else 0
    )
    local = sum(record.sent.get(0, 0) for record in result.steps if record.member == 0) if "server" in expression else 0
    return written(
        crew
    ) - before, result.sent + owner - local  # a hub answers others; what it hears of itself stays inside


@pytest.mark.parametrize(
    "expression",
    ["allreduce(native)", "allreduce(ring)", "allreduce(torus)", "parameter_server", "gossip_pull", "sgp",
     "powersgd(8)", "dgc(density=0.05)", "Exchange(codec=Ternary())", "Exchange(codec=Half())",
     "Exchange(route=Ring(), synchrony=Synchrony(delay=2))", "firecaffe", "tencent", "allreduce(halving_doubling)",
     "one_bit", "strom(threshold=0.0001)"],
)  # fmt: skip
def test_recorded_bytes_are_the_bytes_that_left(four: Crew, expression: str) -> None:
    """Two runs of different length: their difference is free of the files that every run writes."""
    short, long = carried(four, expression, 2), carried(four, expression, 7)
    left, recorded = long[0] - short[0], long[1] - short[1]
    assert recorded > 100_000
    assert left == pytest.approx(recorded, rel=0.05), f"{left} left, {recorded} recorded"
