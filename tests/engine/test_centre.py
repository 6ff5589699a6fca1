"""Which hubs may lie in shared memory: those whose optimizer remembers in tensors alone, and in the open."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from gossamer.engine.centre import Plan
from gossamer.engine.part import BYTES, shared_out
from gossamer.parts.world import World
from gossamer.recipes import Borrowed
from gossamer.replica import Chosen, Layout
from gossamer.strategy import parse, slots

ASYNC = "Exchange(topology=Hub(), synchrony=Synchrony(staleness=None, quorum=1, late=APPLY))"


class Counting(torch.optim.SGD):
    """Remembers in its groups how often it stepped, as some do."""

    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        super().step()
        for held in self.param_groups:
            held["count"] = held.get("count", 0) + 1


class Late(torch.optim.SGD):
    """Remembers more from its second step on."""

    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        super().step()
        for held in self.param_groups:
            for tensor in held["params"]:
                state = self.state[tensor]
                state["later" if "first" in state else "first"] = torch.zeros_like(tensor)


def plan(expression: str, kind: Any = torch.optim.SGD) -> Plan | None:
    model = nn.Linear(8, 4)
    tensors, layout, (exchange,) = list(model.parameters()), Layout(model), slots(parse(expression))
    borrowed = Borrowed(kind(tensors, lr=0.1), tensors)
    return Plan.of(0, exchange, Chosen(layout.tags, exchange.where), layout.start, World(3), borrowed)


@pytest.mark.parametrize("kind", [torch.optim.SGD, torch.optim.Adam, torch.optim.RMSprop])
def test_what_remembers_in_tensors_lies_in_memory(kind: Any) -> None:
    found = plan(ASYNC, kind)
    assert found is not None and len(found.parts) == 1


@pytest.mark.parametrize("kind", [Counting, Late])
def test_what_remembers_elsewhere_is_served(kind: Any) -> None:
    assert plan(ASYNC, kind) is None


def test_who_may_be_dropped_is_told_by_the_hub_itself() -> None:
    found = plan(ASYNC.replace("APPLY", "DROP"))
    assert found is not None and found.parts == []


def test_large_tensors_are_cut_and_small_ones_put_together() -> None:
    most = BYTES // 4
    parts = shared_out([3 * most + 5, 10, 20, most - 40], 4)
    pieces = [piece for part in parts for piece in part]
    assert [piece.tensor for piece in pieces] == [0, 0, 0, 0, 1, 2, 3]
    assert [sum(p.stop - p.start for p in pieces if p.tensor == t) for t in range(4)] == [
        3 * most + 5,
        10,
        20,
        most - 40,
    ]
    assert all(sum(piece.stop - piece.start for piece in part) <= most for part in parts)
