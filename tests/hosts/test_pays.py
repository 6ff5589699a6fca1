"""Where `pays` says that a codec is worth its cost, it is, on real links: a quarter of the bound, and four times it."""

from __future__ import annotations

import pytest
from tests.hosts.test_steps import Told, quickest

from gossamer.engine.pays import balances, below
from gossamer.lab import Lab, missing
from gossamer.parts.selection import Tag
from gossamer.parts.world import World
from gossamer.strategy import parse

CODED, LATENCY = "Exchange(codec=Natural())", 1e-4  # a codec that is slow to write: its bound can be shaped here
TAGS = [Tag(f"layers.{layer}.weight", (512, 512)) for layer in range(16)]


@pytest.mark.long
@pytest.mark.parametrize("times", [0.25, 4.0])
def test_the_sign_is_the_one_foretold(times: float) -> None:
    if (why := missing()) is not None:
        pytest.skip(why)
    bound = below(balances(parse(CODED), World(2), TAGS), LATENCY)
    with Lab(hosts=2, rate=f"{round(times * bound / 1e6)}mbit") as lab:
        workers = Told(lab, each=1)
        coded, dense = (quickest(workers, strategy, 0.0) for strategy in (CODED, "Exchange()"))
        workers.end()
    assert (coded < dense) == (times < 1), f"{times} of {bound / 1e6:.0f} Mbit/s: {coded:.3f} s, dense {dense:.3f} s"
