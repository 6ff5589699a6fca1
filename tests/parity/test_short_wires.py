"""16-bit wires on real processes: half the bytes exactly, and the rehearsal's numbers as far as rounding allows.

The rehearsal adds 16-bit wires up in 32 bits and rounds nothing. Real processes send the mean back in 16 bits, so they
round it once; along a route that is named they round at every hop.
"""

from __future__ import annotations

import pytest
import torch
from tests.parity import small
from torch import Tensor

from gossamer.engine.crew import Crew, Result
from gossamer.parts.world import World
from gossamer.recipes import Optimizer
from gossamer.records import StepRecord
from gossamer.sim import Outcome, Plan, Rehearsal
from gossamer.strategy import parse

RATE = 0.2
ROUTES = ("Auto()", "Native()", "Ring()", "Torus()")
ONCE = 2.0**-11  # the relative error of rounding to 16 bits
SMALLEST = 2.0**-25  # and the absolute one, next to zero


def played(crew: Crew, expression: str, steps: int) -> tuple[Result, Outcome]:
    strategy = parse(expression)
    plan = Plan(small.task(), strategy, World(crew.size), Optimizer(rate=RATE), 5, steps)
    task = "tests.parity.small:task"
    return crew.run(strategy=repr(strategy), task=task, batch=5, steps=steps, rate=RATE, shard=1), Rehearsal(plan).run()


def start() -> Tensor:
    return torch.nn.utils.parameters_to_vector(small.task().model.parameters()).detach()


def moved(steps: list[StepRecord]) -> list[tuple[object, ...]]:
    return sorted((s.member, s.step, s.sent.get(0), s.heard.get(0)) for s in steps)


@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize("more", ["", ", synchrony=Synchrony(delay=2)"], ids=["at once", "delayed"])
def test_half_precision_is_rehearsed_to_a_thousandth(crew: Crew, route: str, more: str) -> None:
    result, outcome = played(crew, f"Exchange(codec=Half(), route={route}{more})", 9)
    way = (outcome.replicas - start()).norm()
    assert way > 0.1, "nothing was trained, so nothing was compared"
    assert (result.replicas - outcome.replicas).norm() / way < 1e-3
    assert all(torch.equal(result.replicas[0], other) for other in result.replicas[1:])
    assert moved(result.steps) == moved(outcome.steps)


@pytest.mark.parametrize("route", ROUTES)
def test_half_precision_is_a_quarter_of_the_bytes_of_float64(crew: Crew, route: str) -> None:
    short, _ = played(crew, f"Exchange(codec=Half(), route={route})", 2)
    full, _ = played(crew, f"Exchange(route={route})", 2)
    assert short.sent > 0 and 4 * short.sent == full.sent


def beyond_one_rounding(crew: Crew, route: str) -> int:
    """How many numbers of one mix are further from the 32-bit mean than rounding it once can take them."""
    result, outcome = played(crew, f"Exchange(codec=Half(), route={route})", 1)
    mean = (start() - outcome.replicas[0]) / RATE
    apart = (result.replicas[0] - outcome.replicas[0]).abs() / RATE
    return int((apart > ONCE * mean.abs() + SMALLEST).sum())


def test_short_wires_are_added_up_in_32_bits(four: Crew) -> None:
    assert beyond_one_rounding(four, "Native()") == 0 == beyond_one_rounding(four, "Auto()")
    assert beyond_one_rounding(four, "Ring()") > 0  # a ring that is asked for rounds at every hop
