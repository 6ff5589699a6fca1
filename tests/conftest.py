"""What tests share: one thread per process, and crews of real workers that are started once and reused."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from gossamer.engine.crew import Crew

torch.set_num_threads(1)
ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="session", params=[2, 4], ids=["2 workers", "4 workers"])
def crew(request: pytest.FixtureRequest) -> Iterator[Crew]:
    """Real worker processes, reused by every test that asks for as many."""
    with Crew(request.param, path=[str(ROOT)]) as workers:
        yield workers


@pytest.fixture(scope="session")
def four() -> Iterator[Crew]:
    """Four real workers for tests that need just them."""
    with Crew(4, path=[str(ROOT)]) as workers:
        yield workers
