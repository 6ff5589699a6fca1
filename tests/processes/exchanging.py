"""A member that visits all others in turn over messages, and says what happened; started by its test."""

from __future__ import annotations

import os
import sys
import threading
import time

import torch
import torch.distributed as dist

from gossamer.engine.lines import ANSWER, BYE, LOST, PULL
from gossamer.engine.lost import MemberLost
from gossamer.engine.messages.lines import Messages


def serve(lines: Messages) -> None:
    """Answer everybody until all others are gone."""
    gone: set[int] = set()
    while len(gone) < lines.size - 1:
        said = lines.asked()
        if said.kind in (BYE, LOST):
            gone.add(said.sender)
        elif said.kind == PULL:
            lines.reply(said.sender, ANSWER, said.slot, body=torch.full((100_000,), float(lines.member)))


def main() -> None:
    """Visit until standard input ends; the dead are told once, by name and with the time."""
    member, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    store = dist.FileStore(os.environ["GOSSAMER_STORE"], size)  # type: ignore[attr-defined]
    lines = Messages.open(store, "job", member, size, 1 << 20)
    serving = threading.Thread(target=serve, args=(lines,))
    serving.start()
    over = threading.Event()
    threading.Thread(target=lambda: (sys.stdin.read(), over.set()), daemon=True).start()
    print("ready", flush=True)
    others, visits = [other for other in range(size) if other != member], 0
    while not over.is_set():
        for other in list(others):
            try:
                lines.ask(other, PULL, visits)
                said = lines.heard(other)
                assert said.slot == visits and said.body is not None and said.body.eq(other).all()
            except MemberLost as error:
                others.remove(other)
                print(f"lost {time.time()} {error.members} {error}", flush=True)
        visits += 1
        if visits % 20 == 0:
            print(f"visits {time.time()} {visits}", flush=True)
    for other in others:
        lines.ask(other, BYE)
    serving.join()
    lines.close()
    print("closed", flush=True)


if __name__ == "__main__":
    main()
