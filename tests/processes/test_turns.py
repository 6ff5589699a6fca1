"""Turns are taken in the scripted order, and waiting for one writes nothing to the store."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import torch.distributed as dist

from gossamer.engine.turns import Turns

ORDER = [0, 1] * 250


def test_a_store_stays_small_over_many_turns(tmp_path: Path) -> None:
    path, played = tmp_path / "store", list[int]()
    stores = [dist.FileStore(str(path), 2) for _ in range(2)]  # the last to go takes the file along

    def play(member: int) -> None:
        turns = Turns(stores[member], "job", member, 2, ORDER)
        for _ in range(turns.steps):
            turns.take()
            played.append(member)
            turns.give_way()

    members = [threading.Thread(target=play, args=(member,)) for member in range(2)]
    for member in members:
        member.start()
    for member in members:
        member.join(60)
    assert played == ORDER
    assert path.stat().st_size < 25 * len(ORDER)  # one entry a turn: a key, a number, their lengths


def test_waiting_for_a_turn_writes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "store"
    first, second = (Turns(dist.FileStore(str(path), 2), "job", member, 2, [0, 1]) for member in range(2))
    first.take()
    waiting = threading.Thread(target=second.take)
    waiting.start()
    time.sleep(0.05)
    before = path.stat().st_size if path.exists() else 0
    time.sleep(0.2)
    assert waiting.is_alive() and (path.stat().st_size if path.exists() else 0) == before
    first.give_way()
    waiting.join(10)
    assert not waiting.is_alive() and path.stat().st_size > before
