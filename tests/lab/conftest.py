"""Hosts for tests: `hosts` is a lab of four for all tests of a module."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from gossamer.lab import Lab, missing


@pytest.fixture(scope="module")
def hosts() -> Iterator[Lab]:
    """Four hosts with links as fast as they come."""
    if (why := missing()) is not None:
        pytest.skip(why)
    with Lab(hosts=4) as lab:
        yield lab
