"""What tests share: one thread per process, crews of real workers that are started once and reused, and hosts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
import torch

from gossamer.engine.crew import Crew
from gossamer.lab import Lab, missing

torch.set_num_threads(1)
ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="session")
def crews() -> Iterator[Callable[[int], Crew]]:
    """Real worker processes by their number, started when first asked for."""
    started: dict[int, Crew] = {}
    with ExitStack() as open_:

        def of(size: int) -> Crew:
            if size not in started:
                started[size] = open_.enter_context(Crew(size, path=[str(ROOT)]))
            return started[size]

        yield of


@pytest.fixture(params=[2, 4], ids=["2 workers", "4 workers"])
def crew(request: pytest.FixtureRequest, crews: Callable[[int], Crew]) -> Crew:
    """Two real workers, then four."""
    return crews(request.param)


@pytest.fixture
def four(crews: Callable[[int], Crew]) -> Crew:
    """Four real workers, for tests that need just them."""
    return crews(4)


@pytest.fixture(scope="module")
def hosts() -> Iterator[Lab]:
    """Four hosts made of namespaces, with links as fast as they come."""
    if (why := missing()) is not None:
        pytest.skip(why)
    with Lab(hosts=4) as lab:
        yield lab
