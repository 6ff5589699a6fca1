"""Models of 16-bit numbers: what is kept and sent stays in 16 bits."""

from __future__ import annotations

import pytest
import torch
from tests.parity import small

from gossamer.parts.world import World
from gossamer.recipes import Optimizer
from gossamer.sim import Plan, Rehearsal
from gossamer.strategy import parse
from gossamer.tasks import Task


def task(dtype: torch.dtype) -> Task:
    plain = small.task()
    inputs = [(data[0].to(dtype), data[1]) for data in (plain.train, plain.test)]
    return Task(plain.model.to(dtype), *inputs, plain.loss)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize(
    "expression", ["diloco(every=2)", "local_sgd(every=2)", "allreduce", "downpour(every=2)", "sgp", "gossip_push"]
)
def test_wires_of_a_16_bit_model_are_of_16_bits(expression: str, dtype: torch.dtype) -> None:
    rehearsal = Rehearsal(Plan(task(dtype), parse(expression), World(2), Optimizer(rate=0.1), 5, 8))
    outcome = rehearsal.run()
    sent = {nbytes for record in outcome.steps for nbytes in record.sent.values()}
    count = rehearsal.layout.length
    assert outcome.replicas.dtype is dtype and outcome.replicas.isfinite().all()
    twice = {4 * count} if expression == "gossip_push" else set()  # told, and read by another, in one step
    assert sent <= {2 * count, 2 * (count + 1), *twice}
    anchors = [
        replica.desks[0].memory["anchor"] for replica in rehearsal.replicas if "anchor" in replica.desks[0].memory
    ]
    assert all(anchor.dtype is dtype for anchor in anchors)
