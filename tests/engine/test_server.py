"""A server's own words: what a hub's state is on its way, and whose settings its optimizer has."""

from __future__ import annotations

from collections import deque
from typing import cast

import pytest
import torch
from safetensors import SafetensorError

from gossamer.engine.counter import Counter
from gossamer.engine.lines import ANSWER, SHOWN, Said
from gossamer.engine.loop.halves import halved
from gossamer.engine.server import packed, unpacked
from gossamer.engine.shards import Shard
from gossamer.parts.codec import Mean
from gossamer.parts.merge import Compensated
from gossamer.parts.selection import Everything, Tag
from gossamer.parts.synchrony import Late, Synchrony
from gossamer.parts.topology import Hub as AtHub
from gossamer.parts.world import World
from gossamer.recipes import Borrowed, Optimizer
from gossamer.replica import Chosen, Hub
from gossamer.replica.stretch import Stretch
from gossamer.strategy import Exchange


def hub() -> Hub:
    sync = Synchrony(staleness=None, quorum=1, late=Late.APPLY)
    exchange = Exchange(topology=AtHub(), synchrony=sync, merge=Compensated(0.1, adaptive=True))
    return Hub(exchange, Chosen((Tag("w", (2,)),), Everything()), torch.zeros(2), World(2), Optimizer("adam", 0.1))


def test_a_state_comes_out_as_it_went_in() -> None:
    one, other = hub(), hub()
    for member in (0, 1, 0):
        one.push(member, one.version, Mean(torch.tensor([1.0, float(member)])))
    other.resume(unpacked(packed(one.state())))
    for each in (one, other):
        each.push(1, each.version, Mean(torch.tensor([0.5, -3.0])))
    assert torch.equal(one.centre, other.centre) and one.version == other.version == 4
    assert one.pushes == other.pushes and torch.equal(one.known[0], other.known[0])


def test_what_is_no_state_is_refused() -> None:
    with pytest.raises(SafetensorError):
        unpacked(packed(hub().state())[:-9])


def test_settings_travel_and_are_followed() -> None:
    here, there = (torch.nn.Parameter(torch.zeros(3)) for _ in range(2))
    mine, theirs = (torch.optim.Adam([p], lr=0.1, betas=(0.8, 0.9)) for p in (here, there))
    at_hub = torch.zeros(3, requires_grad=True)
    borrowed = Borrowed(theirs, [there])
    stepped = borrowed.over_places([(0, at_hub)])
    mine.param_groups[0].update(lr=0.5, betas=(0.1, 0.2))
    borrowed.set(Borrowed(mine, [here]).settings())
    at_hub.grad = torch.ones(3)
    stepped.step()
    assert theirs.param_groups[0]["lr"] == 0.5 and theirs.param_groups[0]["betas"] == (0.1, 0.2)
    assert torch.allclose(at_hub, torch.full((3,), -0.5))


def test_only_unequal_shards_have_half_a_push() -> None:
    shards = [Shard(1, number, 3, 4 + number, cast(Stretch, None)) for number in range(3)]
    assert halved(shards, [7, 7, 7]) == ""
    assert "push 7 is in shard 1 of 3 of the hub of slot 1, and not in shards 0, 2 of 3" in halved(shards, [6, 7, 6])


class Spoken:
    """Lines on which replies were laid down beforehand."""

    servers, size, member = (1,), 2, 0

    def __init__(self, *said: Said) -> None:
        self._said = deque(said)

    def ask(self, *words: object, **body: object) -> None:
        """Nobody hears it."""

    def heard(self, member: int) -> Said:
        return self._said.popleft()


def test_what_a_server_shows_is_no_answer_to_a_push() -> None:
    """Answers may be due while it is asked what it has now."""
    answers = [Said(1, ANSWER, 0, (version, 0, 0, 0), torch.tensor([float(version)])) for version in (1, 2)]
    shown = Said(1, SHOWN, 0, body=torch.tensor([7.0]))
    counter = Counter(Spoken(*answers, shown), acknowledged=False)  # type: ignore[arg-type]
    assert counter.show(1, 0, torch.empty(0)).tolist() == [7.0]
    assert [counter.answer(1, 0, torch.empty(0)).version for _ in range(2)] == [1, 2]
