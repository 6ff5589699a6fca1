"""The twelve on real processes without a script: every member finishes and learns."""

from __future__ import annotations

import pytest
import torch
from tests.parity import small
from tests.texts import small as small_text

from gossamer.engine.crew import Crew
from gossamer.strategy import CATALOG, parse, slots

STEPS = 40
SHORT = {
    "easgd": "easgd(every=4)",
    "diloco": "diloco(every=10)",
    "dgc": "dgc(density=0.1)",
    "random_k": "random_k(keep=0.3)",
}


def loss(parameters: torch.Tensor) -> float:
    """Training loss of the average replica."""
    task = small.task()
    torch.nn.utils.vector_to_parameters(parameters, task.model.parameters())
    return task.loss(task.model, task.train)[0].item()


@pytest.mark.parametrize("name", [entry.name for entry in CATALOG])
def test_each_of_the_twelve_trains_on_real_processes(crew: Crew, name: str) -> None:
    strategy = parse(small_text(SHORT.get(name, name)))
    momentum = 0.0 if any(ex.codec.owns_momentum or ex.merge.lookahead for ex in slots(strategy)) else 0.9
    result = crew.run(
        strategy=repr(strategy), task="tests.parity.small:task", batch=5, steps=STEPS, rate=0.1, momentum=momentum
    )
    assert len(result.steps) == STEPS * crew.size
    untrained = loss(torch.nn.utils.parameters_to_vector(small.task().model.parameters()).detach())
    assert loss(result.replicas.mean(0)) < 0.6 * untrained


def test_synchronous_replicas_are_bit_identical(four: Crew) -> None:
    for expression in (
        "allreduce()",
        "allreduce(ring)",
        "allreduce(torus)",
        "parameter_server",
        "powersgd",
        "diloco(2)",
    ):
        replicas = four.run(strategy=repr(parse(expression)), task="tests.parity.small:task", batch=5, steps=8).replicas
        assert all(torch.equal(replicas[0], other) for other in replicas[1:]), expression


def test_bounded_meetings_keep_their_gate(four: Crew) -> None:
    """Pull gossip with a bound: nobody pulls from somebody more than the bound behind."""
    bound = 2
    expression = f"Exchange(payload=PARAMETERS, topology=RandomPeer(), synchrony=Synchrony(staleness={bound}))"
    result = four.run(strategy=expression, task="tests.parity.small:task", batch=5, steps=60)
    assert max(record.staleness for record in result.steps) <= bound
