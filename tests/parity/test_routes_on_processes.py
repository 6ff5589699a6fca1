"""Real processes along every route: torch's own sum, and the bytes that were counted beforehand."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.parity.travelling import DTYPES, LENGTHS, ROUTES, Forgetful

from gossamer.engine.crew import Crew
from gossamer.parts.route import Route, counted

Found = list[dict[str, list[float]]]  # by member, then by case


@pytest.fixture(scope="module", params=[2, 3, 4], ids=lambda size: f"{size} workers")
def travelled(request: pytest.FixtureRequest, crews: Callable[[int], Crew], tmp_path_factory) -> Found:
    """What all workers found, in one job."""
    folder: Path = tmp_path_factory.mktemp("travelled")
    task, size = "tests.parity.travelling:task", request.param
    crews(size).run(strategy="allreduce", task=task, options={"folder": str(folder)}, steps=1, batch=1)
    return [json.loads((folder / f"travelled-{rank}.json").read_text()) for rank in range(size)]


@pytest.mark.parametrize("route", ROUTES, ids=repr)
def test_every_route_is_torchs_sum(travelled: Found, route: Route) -> None:
    for length in LENGTHS:
        for dtype, bound in zip(DTYPES, (1e-6, 1e-3), strict=True):
            name = f"{route!r} {length} {str(dtype).removeprefix('torch.')}"
            assert max(found[name][0] for found in travelled) < bound, name


def test_a_wrong_route_is_told_from_the_sum(travelled: Found) -> None:
    assert min(found[f"{Forgetful()!r} 31 float32"][0] for found in travelled) > 0.1


@pytest.mark.parametrize("route", ROUTES, ids=repr)
def test_the_bytes_that_left_were_counted_beforehand(travelled: Found, route: Route) -> None:
    for length in LENGTHS:
        for dtype in DTYPES:
            name = f"{route!r} {length} {str(dtype).removeprefix('torch.')}"
            for member, found in enumerate(travelled):
                chosen = route.suited(length * dtype.itemsize)
                out, into = counted(chosen, member, len(travelled), length)
                assert found[name][1:] == [out * dtype.itemsize, into * dtype.itemsize], name


def test_the_operations_are_parts_of_torchs_sum(travelled: Found) -> None:
    for length in LENGTHS:
        for found in travelled:
            assert max(found[f"operations {length}"]) < 1e-5
