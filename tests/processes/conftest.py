"""What tests of the user's loop share: pools of workers by their number, started when first asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from tests.processes.pool import Pool


@pytest.fixture(scope="session")
def pools() -> Iterator[Callable[[int], Pool]]:
    """Pools by their size."""
    started: dict[int, Pool] = {}
    yield lambda size: started.setdefault(size, Pool(size))
    for pool in started.values():
        pool.end()
