"""Models that draw at random, keep statistics or read values: real processes still equal the rehearsal."""

from __future__ import annotations

import pytest
import torch
from tests.parity import awkward

from gossamer.engine.crew import Crew
from gossamer.parts.world import World
from gossamer.recipes import Optimizer
from gossamer.sim import Plan
from gossamer.sim.rehearse import rehearse
from gossamer.strategy import parse


@pytest.mark.parametrize("name", ["dropped", "normed", "read"])
@pytest.mark.parametrize("expression", ["allreduce", "local_sgd(every=3)"])
def test_awkward_models_train_alike(crew: Crew, name: str, expression: str) -> None:
    make = getattr(awkward, name)
    played = rehearse(Plan(make(), parse(expression), World(crew.size), Optimizer(rate=0.2), 5, 7))
    result = crew.run(strategy=expression, task=f"tests.parity.awkward:{name}", batch=5, steps=7, rate=0.2, shard=1)
    torch.testing.assert_close(result.replicas, played.replicas, rtol=0, atol=1e-12)
