"""Looks at the truth: their numbers, by hand; that they change nothing but bytes; that all players find the same."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from tests.parity import small

from gossamer.engine.crew import Crew
from gossamer.parts.world import World
from gossamer.recipes import Optimizer
from gossamer.records import StepRecord, Truth
from gossamer.replica.looks import cosine
from gossamer.sim import Plan
from gossamer.sim.plan import Outcome
from gossamer.sim.rehearse import Rehearsal, rehearse
from gossamer.strategy import parse
from gossamer.tasks import Task

STEPS = 7
LOSSY = [
    "one_bit(where=Everything())",
    "half",
    "powersgd",
    "dgc(density=0.1, where=Matrices(least=0))",
    "Exchange(codec=ErrorFeedback(codec=TopK(keep=0.2)), synchrony=Synchrony(delay=2))",
    "Exchange(payload=DELTAS, order=AFTER, codec=QSGD(bits=4), synchrony=Synchrony(every=3))",
    "Exchange(payload=PARAMETERS, order=AFTER, topology=Cycle(), codec=Difference())",
    "Exchange(topology=Hub(), codec=ErrorFeedback(codec=OneBit()))",
]


def played(expression: str, truth: int, size: int = 4) -> Outcome:
    plan = Plan(small.task(), parse(expression), World(size), Optimizer(rate=0.2), 5, STEPS, truth=truth)
    return rehearse(plan)


def seen(steps: list[StepRecord]) -> dict[tuple[int, int], list[Truth]]:
    return {(record.member, record.step): list(record.truth) for record in steps if record.truth}


@pytest.mark.parametrize("expression", LOSSY)
def test_a_look_changes_no_number(expression: str) -> None:
    with_, without = played(expression, 2), played(expression, 0)
    assert seen(with_.steps) and not seen(without.steps)
    assert torch.equal(with_.replicas, without.replicas)


@pytest.mark.parametrize("expression", LOSSY)
def test_real_workers_see_what_the_rehearsal_sees(four: Crew, expression: str) -> None:
    expected = seen(played(expression, 2).steps)
    result = four.run(strategy=expression, task="tests.parity.small:task", batch=5, steps=STEPS, rate=0.2, truth=2)
    found = seen(result.steps)
    near = 1e-4 if expression == "half" else 1e-6  # 16-bit sums are rounded in another order
    assert found.keys() == expected.keys()
    for key, looks in found.items():
        for look, other in zip(looks, expected[key], strict=True):
            assert (look.slot, look.bucket, look.keeps) == (other.slot, other.bucket, other.keeps)
            for name in ("cosine", "bias", "residual", "lowest"):
                assert getattr(look, name) == pytest.approx(getattr(other, name), abs=near), (key, name)


def test_the_numbers_of_a_look_by_hand() -> None:
    """One step of one-bit: the two averages from what the parameters became at rate 1, the rest with numpy."""
    coded = Rehearsal(
        Plan(small.task(), parse("one_bit(where=Everything())"), World(2), Optimizer(rate=1.0), 5, 1, truth=1)
    )
    dense = Rehearsal(Plan(small.task(), parse("Exchange()"), World(2), Optimizer(rate=1.0), 5, 1))
    start = coded.layout.start.clone()
    mixed, exact = (np.asarray(start - each.run().replicas[0]) for each in (coded, dense))
    norm = np.linalg.norm
    looks = [record.truth[0] for record in sorted(coded.outcome.steps, key=lambda record: record.member)]
    assert looks[0].cosine == pytest.approx(exact @ mixed / norm(exact) / norm(mixed), abs=1e-9)
    assert looks[0].bias == pytest.approx(exact @ mixed / (exact @ exact) - 1, abs=1e-9)
    for replica, look in zip(coded.replicas, looks, strict=True):
        left = np.asarray(replica.desks[0].memory["residual"])
        assert norm(left) > 0 and look.keeps
        assert look.residual == pytest.approx(norm(left) / norm(exact), abs=1e-9)
    named = list(small.task().model.named_parameters())
    parts = np.split(np.arange(len(exact)), np.cumsum([p.numel() for _, p in named])[:-1])
    cosines = [exact[i] @ mixed[i] / norm(exact[i]) / norm(mixed[i]) for i in parts]
    assert looks[0].lowest == pytest.approx(min(cosines), abs=1e-9)
    assert looks[0].tensor == named[int(np.argmin(cosines))][0]


@pytest.mark.parametrize("expression", ["one_bit(where=Everything())", "Exchange(codec=QSGD(bits=4))"])
def test_a_look_costs_one_dense_wire(four: Crew, expression: str) -> None:
    """Bytes as they left: with a look at steps 0 and 4, two dense exchanges more."""
    run = {"task": "tests.parity.small:task", "batch": 5, "steps": STEPS, "rate": 0.2}
    more = four.run(strategy=expression, truth=4, **run).sent - four.run(strategy=expression, **run).sent
    dense = four.run(strategy="Exchange()", **run).sent / STEPS
    assert more == pytest.approx(2 * dense)


def test_what_loses_nothing_is_not_looked_at() -> None:
    assert not seen(played("Exchange()", 1).steps)
    assert not seen(played("local_sgd(every=2)", 1).steps)


def test_an_exchange_is_looked_at_once_in_so_many_steps() -> None:
    """Every third step there is an exchange, every fourth step a look is due: the next exchange is looked at."""
    expression = "Exchange(payload=DELTAS, order=AFTER, codec=Half(), synchrony=Synchrony(every=3))"
    assert sorted({step for _, step in seen(played(expression, 4).steps)}) == [2, 5]


def test_a_cosine_of_many_numbers_is_one_with_itself() -> None:
    """Added up in 32 bits it would be off in the third digit."""
    many = torch.randn(20_000_000, generator=torch.Generator().manual_seed(0))
    assert cosine(many, many) == pytest.approx(1.0, abs=1e-9)
    assert cosine(many, -many) == pytest.approx(-1.0, abs=1e-9)
    assert cosine(many, torch.zeros_like(many)) == 0.0 and cosine(torch.zeros(3), torch.zeros(3)) == 1.0


def test_where_there_is_nothing_to_compare_nothing_is_found() -> None:
    """A gradient that is zero on all members: neither short of anything, nor held back a thousandfold."""
    task = small.task()
    still = replace(task, loss=lambda model, batch: classified_by_nothing(task, model, batch))
    plan = Plan(still, parse("one_bit(where=Everything())"), World(2), Optimizer(), 5, 4, truth=1)
    looks = [look for record in rehearse(plan).steps for look in record.truth]
    assert len(looks) == 8
    assert all((look.cosine, look.bias, look.residual, look.lowest) == (1.0, 0.0, 0.0, 1.0) for look in looks)


def classified_by_nothing(task: Task, model: Any, batch: Any) -> Any:
    loss, *rest = task.loss(model, batch)
    return (0.0 * loss, *rest)
