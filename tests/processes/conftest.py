"""What tests of the user's loop share: pools of workers by their number, started when first asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from tests.processes.pool import Pool


@pytest.fixture(scope="session")
def pools() -> Iterator[Callable[[int, int], Pool]]:
    """Pools by their size and number of hosts."""
    started: dict[tuple[int, int], Pool] = {}
    yield lambda size, hosts: started.setdefault((size, hosts), Pool(size, hosts))
    for pool in started.values():
        pool.end()
