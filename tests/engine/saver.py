"""A program that forks savers and kills each at some moment, then looks at what it left; one JSON line for each."""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

from tests.engine.specimen import write

from gossamer.engine.checkpoint import Saved, load, steps

KILLS = 30


def found(root: Path) -> dict[str, object]:
    """What a reader makes of the folder: the steps that are whole, and every number in the newest."""
    saved = load(root)
    values = {saved.facts["value"], *saved.tensors("model")["layer.weight"].flatten().tolist()}
    for member in ("member-0", "member-1"):
        values |= {*saved.tree(member)["x"].tolist(), *saved.tree(member)[0]}
    return {"step": saved.step, "values": sorted(values), "whole": [load(root, step).step for step in steps(root)]}


def forked(root: Path, act: Callable[[Saved], None], seconds: float | None = None) -> bool:
    """Let a child act on top of what is there, and kill it after `seconds`; True if it came to its end. Print what it
    left."""
    before = load(root)
    child = os.fork()
    if child == 0:
        act(before)
        os._exit(0)
    if seconds is not None:
        time.sleep(seconds)
        os.kill(child, signal.SIGKILL)
    ended = os.waitpid(child, 0)[1] == 0
    hidden = sorted(path.name for path in root.iterdir() if path.name.startswith("."))
    look = {"before": before.facts["value"], "hidden": hidden, "ended": ended, **found(root)}
    print(json.dumps(look), flush=True)
    return ended


def at_random(root: Path) -> None:
    """Savers of large checkpoints, killed after a random time."""

    def save_on(before: Saved) -> None:
        for turn in range(1, 10_000):
            write(root, before.step + turn, {"value": before.facts["value"] + turn}, size=20_000)

    chance = random.Random(11)
    for _ in range(KILLS):
        forked(root, save_on, chance.uniform(0.0, 0.08))


def everywhere(root: Path, pace: int) -> None:
    """One save, killed as it is about to make its first call to the file system, its second, and so on to the end."""

    def save_until(last: int) -> Callable[[Saved], None]:
        left = last

        def count(event: str, arguments: tuple[object, ...]) -> None:
            nonlocal left
            left -= event.startswith(("open", "os.", "shutil.", "ctypes."))
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)

        def save(before: Saved) -> None:
            sys.addaudithook(count)
            write(root, before.step + pace, {"value": before.facts["value"] + 1})

        return save

    moment = 1
    while not forked(root, save_until(moment)):
        moment += 1


if __name__ == "__main__":
    where, how = Path(sys.argv[1]), sys.argv[2]
    write(where, 0, {"value": 0})
    write(where, 0, {"value": 0})
    at_random(where) if how == "random" else everywhere(where, int(how))
