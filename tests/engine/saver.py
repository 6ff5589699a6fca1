"""A program that forks savers and kills each at a random moment, then looks at what it finds; one JSON line each."""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import time
from pathlib import Path

from tests.engine.specimen import write

from gossamer.engine.checkpoint import load, steps

KILLS = 30


def save_on(root: Path, first: int, pace: int) -> None:
    """Save one checkpoint after the other; each step's numbers are all its own."""
    for turn in range(10_000):
        write(root, first + turn * pace, {"turn": turn}, size=20_000)


def found(root: Path) -> dict[str, object]:
    """What a reader makes of the folder: one step's numbers in every file, or it says so."""
    saved = load(root)
    values = {saved.step, saved.facts["step"], *saved.tensors("model")["layer.weight"].flatten().tolist()}
    for member in ("member-0", "member-1"):
        values |= {*saved.tree(member)["x"].tolist(), *saved.tree(member)[0]}
    return {
        "step": saved.step,
        "turn": saved.facts["turn"],
        "values": sorted(values),
        "whole": [load(root, step).step for step in steps(root)],
    }


def main(root: Path, pace: int) -> None:
    """Kill savers, and print what each left behind."""
    chance = random.Random(11)
    write(root, 0, {"turn": -1}, size=20_000)
    for _ in range(KILLS):
        before = load(root).step
        child = os.fork()
        if child == 0:
            save_on(root, before + pace, pace)
            os._exit(1)
        time.sleep(chance.uniform(0.0, 0.08))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        hidden = sorted(path.name for path in root.iterdir() if path.name.startswith("."))
        print(json.dumps({"before": before, "hidden": hidden, **found(root)}), flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
