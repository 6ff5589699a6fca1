"""What is sent with a delay is under way while the members compute, and not only when it is asked for."""

from __future__ import annotations

import pytest
from tests.processes import leaving
from tests.processes.test_failures import ROOT

from gossamer.engine.crew import Crew, CrewFailed
from gossamer.strategy import parse

MODEL = sum(p.numel() for p in leaving.task().model.parameters()) * 4  # bytes
DELAYED = "synchrony=Synchrony(delay=1)"


def run(crew: Crew, expression: str, expect: int, patience: float = 20.0) -> None:
    crew.run(
        strategy=repr(parse(expression)), task="tests.processes.leaving:task", batch=2, steps=4, timeout=200,
        options={"expect": expect, "patience": patience},
    )  # fmt: skip


@pytest.mark.parametrize(
    ("expression", "share"),
    [
        (f"Exchange(route=Native(), {DELAYED})", 1.5),
        (f"Exchange(route=Ring(), {DELAYED})", 1.5),
        (f"Exchange(route=Torus(), {DELAYED})", 1.5),
        (f"Exchange(codec=Half(), {DELAYED})", 0.75),
        (f"Exchange(codec=TopK(keep=0.2), {DELAYED})", 1.2),
        (f"Exchange(topology=Cycle(), {DELAYED})", 2.0),
    ],
)
def test_delayed_wires_leave_while_members_compute(four: Crew, expression: str, share: float) -> None:
    run(four, expression, int(0.99 * share * MODEL))


def test_waiting_for_more_than_is_sent_would_be_noticed() -> None:
    with pytest.raises(CrewFailed, match="bytes left while this member computed"), Crew(2, path=[ROOT]) as crew:
        run(crew, f"Exchange(route=Ring(), {DELAYED})", 3 * MODEL, patience=0.5)
