"""Real processes that visit each other in memory they share, and the parts they play."""

from __future__ import annotations

import os
import random
import signal
import time
from typing import Any

import torch
import torch.distributed as dist
from torch import nn

from gossamer.engine import part
from gossamer.engine.centre import PUSHES
from gossamer.engine.reach import Reach
from gossamer.engine.shared.shelf import Shelf
from gossamer.engine.turns import Turns
from gossamer.parts.world import World
from gossamer.recipes import Borrowed, Optimizer
from gossamer.records import Note
from gossamer.replica import Layout, Replica
from gossamer.strategy import parse


def opened(
    store: dist.Store, member: int, size: int, expression: str, recipe: Optimizer, model: nn.Module
) -> tuple[Reach, Replica]:
    """A member's visits, and its replica where the others see it."""
    strategy, world, layout = parse(expression), World(size), Layout(model)
    reach = Reach.of(store, "shelf", member, layout, world, strategy, recipe)
    assert reach is not None
    replica = Replica(member, world, strategy, layout, (reach.shelf.mine, torch.zeros_like(layout.start)))
    reach.join(replica, Turns(store, "turns", member, size, None))
    return reach, replica


def model(width: int = 64) -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(20, width), nn.Linear(width, 1))


def torn(store: dist.Store, member: int, size: int) -> tuple[int, int]:
    """Pulls that are torn while the partner writes, and while it does not; member 1 writes."""
    reach, _ = opened(store, member, size, "gossip_pull", Optimizer(), model(2000))
    found = []
    for phase in ("writing", "still"):
        if member == 1:
            store.set(f"{phase} begins", "")
            while phase == "writing" and not store.check(["writing ends"]):
                with reach.still():
                    time.sleep(0.002)
            store.get(f"{phase} ends")
        else:
            store.get(f"{phase} begins")
            note = Note()
            for step in range(40):
                reach.meet(0, step, note)
            found.append(note.torn)
            store.set(f"{phase} ends", "")
    return (found[0], found[1]) if found else (0, 0)


def dies_in_a_step(store: dist.Store, member: int, size: int) -> Any:
    """Member 1 is killed while it steps a part, under its lock; what the others find, and how far they come."""
    reach, replica = opened(store, member, size, "hogwild", Optimizer(momentum=0.9), model())
    replica.gradients.fill_(1e-3)
    if member == 1:
        inner = part.Remembered.recall

        def fatal(self: part.Remembered, stepped: bool) -> None:
            inner(self, stepped)
            if stepped:
                os.kill(os.getpid(), signal.SIGKILL)

        part.Remembered.recall = fatal  # type: ignore[method-assign]
        while not reach.centres[0].version:
            time.sleep(0.001)
    for step in range(30):
        reach.meet(0, step, Note())
        time.sleep(0.005)
    return reach.centres[0].broken, reach.shelf.lost(1), bool(torch.isfinite(reach.centres[0].hub.centre).all())


def bounded(store: dist.Store, member: int, size: int, steps: int, slack: int) -> tuple[int, int]:
    """Steps with random delays: the farthest this member was ahead as it began one, and how often it had to wait."""
    reach, replica = opened(store, member, size, f"ssp({slack})", Optimizer(), model(4))
    centre, chance = reach.centres[0], random.Random(member)
    farthest = waits = 0
    for step in range(steps):
        counts = [int(centre._words[PUSHES + other]) for other in range(size) if not reach.shelf.left(other)]
        farthest = max(farthest, step - min(counts))
        if chance.random() < 0.02:
            time.sleep(chance.random() * 0.02)
        replica.gradients.fill_(1e-4)
        reach.push(0, step, Note())
        waits += 0 in reach.pushes._stepped
        reach.take_answer(0, Note())
        reach.completed(step + 1)
    reach.close()
    return farthest, waits


def remembers(store: dist.Store, member: int, size: int, kind: str) -> list[float]:
    """Members step a centre in turn with an optimizer that remembers; every one ends with what one alone would."""
    net = model()
    trained = list(net.parameters())
    given = {"adam": torch.optim.Adam(trained, lr=0.1), "sgd": torch.optim.SGD(trained, lr=0.1, momentum=0.9)}[kind]
    strategy, world, layout = parse("hogwild"), World(size), Layout(net)
    reach = Reach.of(store, "shelf", member, layout, world, strategy, Borrowed(given, trained))
    assert reach is not None
    replica = Replica(member, world, strategy, layout, (reach.shelf.mine, torch.zeros_like(layout.start)))
    reach.join(replica, Turns(store, "turns", member, size, [step % size for step in range(12)]))
    for step in range(12 // size):
        replica.gradients.copy_(torch.linspace(-1, 1, layout.length) * (step * size + member + 1))
        reach.pushes.turns.take()
        reach.meet(0, step, Note())
    reach.close()
    return reach.centres[0].hub.centre.tolist()


def alone(kind: str, steps: int) -> list[float]:
    """What one optimizer makes of the same gradients."""
    start = Layout(model()).start.clone()
    one = nn.Parameter(start)
    given = torch.optim.Adam([one], lr=0.1) if kind == "adam" else torch.optim.SGD([one], lr=0.1, momentum=0.9)
    for step in range(steps):
        one.grad = torch.linspace(-1, 1, len(start)) * (step + 1)
        given.step()
    return one.detach().tolist()


def listed(store: dist.Store, member: int, size: int) -> bool:
    """Whether a member that ended in peace is not lost, and one that did not is; member 1 leaves, 2 is killed."""
    shelf = Shelf(store, "shelf", member, size, torch.zeros(8))
    if member == 1:
        shelf.leave()
    if member == 2:
        os.kill(os.getpid(), signal.SIGKILL)
    until = time.monotonic() + 20.0
    while member == 0 and not shelf.lost(2) and time.monotonic() < until:
        time.sleep(0.01)
    return member != 0 or (shelf.lost(2) and shelf.left(1) and not shelf.lost(1))
