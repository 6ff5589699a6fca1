"""What tests share: one thread per process, crews of real workers that are started once and reused, and hosts."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
import torch

from gossamer.engine.crew import Crew
from gossamer.lab import Lab, missing

torch.set_num_threads(1)
# torch asks for the names of addresses it connects to, to speak of them: no test waits for a name server that is away
os.environ.setdefault("RES_OPTIONS", "timeout:1 attempts:1")
ROOT = Path(__file__).parent.parent


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--long`: more cases of what the usual run checks on one or two: other strategies, ranks, launchers."""
    parser.addoption("--long", action="store_true", help="run the tests marked long, too")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave those marked long out, and say how many they are, unless they were asked for."""
    if config.getoption("--long"):
        return
    long = {item for item in items if item.get_closest_marker("long")}
    items[:] = [item for item in items if item not in long]
    config.hook.pytest_deselected(items=list(long))


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
