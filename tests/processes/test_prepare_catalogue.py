"""Every entry of the catalogue trains in a user's own loop."""

from __future__ import annotations

import torch
from tests.processes.pool import Member, everywhere
from tests.processes.user import loader, loss_of, net
from tests.texts import small
from torch import nn

from gossamer.engine.loop.prepare import session_of
from gossamer.strategy import CATALOG, parse, slots

NAMES = tuple(small(entry.name) for entry in CATALOG)
SERVED = tuple(name for name in NAMES if any(ex.hub or ex.meets for ex in slots(parse(name))))


def whole_loss(model: nn.Module) -> float:
    with torch.no_grad():
        return float(loss_of(model, next(iter(loader(48, 48, torch.float32)))))


@everywhere(worlds=(2,), name=NAMES)
def test_every_entry_trains(member: Member, name: str) -> None:
    """In anybody's loop, on either fabric of one host."""
    train(member, name)


@everywhere(worlds=(2,), fabrics=("messages",), name=SERVED)
def test_every_entry_with_hubs_or_visits_trains_over_messages(member: Member, name: str) -> None:
    """Where members ask one another, they may do so by keyed messages."""
    train(member, name)
    assert member.sessions[0].carried == "torch (gloo), visits by keyed messages"


def train(member: Member, name: str) -> None:
    """Twelve steps: the loss goes down, and members end alike where every exchange says that they agree."""
    model = net(torch.float32)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    _, _, batches = member.prepare(model, optimizer, loader(48, 8, torch.float32), strategy=name)
    before = whole_loss(model)
    for _ in range(2):
        for part in batches:
            optimizer.zero_grad()
            loss_of(model, part).backward()
            optimizer.step()
    assert session_of(model).courses[0].step == 12
    assert whole_loss(model) < before
    exchanges = slots(session_of(model).strategy)
    if all(ex.agrees and 12 % ex.synchrony.every == 0 for ex in exchanges):
        for p in model.parameters():
            member.same(p, within=1e-6)


@everywhere(worlds=(2, 3))
def test_a_strategy_that_changes_on_the_way(member: Member) -> None:
    """All-reduce for three steps, alone for the next ones, an average every second step."""
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    _, _, batches = member.prepare(model, optimizer, loader(48, 12), strategy="post_local_sgd(switch=3, every=2)")
    apart = []
    for part in (*batches, *batches):
        optimizer.zero_grad()
        loss_of(model, part).backward()
        optimizer.step()
        flat = nn.utils.parameters_to_vector(model.parameters()).detach()
        found = [torch.empty_like(flat) for _ in range(member.size)]
        torch.distributed.all_gather(found, flat)
        apart.append(max(float((other - flat).abs().max()) for other in found) > 1e-9)
    assert apart == [False, False, False, False, True, False, True, False], apart
