"""A script for workers: they sum along a route until one of them goes wrong; the others write down what they raise.

dying.py FOLDER ROUTE HOW PATIENCE
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path

import torch
import torch.distributed as dist

from gossamer.engine.executor import Executor
from gossamer.engine.lost import MemberLost
from gossamer.strategy import parse

FOLDER, ROUTE, HOW, PATIENCE = Path(sys.argv[1]), sys.argv[2], sys.argv[3], float(sys.argv[4])
RANK, SIZE = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
WHO, WHEN = 2, 3


def main() -> None:
    """Sum a few times; the one that goes wrong does so while the others are in the middle of a sum."""
    torch.set_num_threads(1)
    store = dist.FileStore(os.environ["GOSSAMER_STORE"], SIZE)  # type: ignore[attr-defined]
    dist.init_process_group("gloo", store=store, rank=RANK, world_size=SIZE)
    group, route = dist.group.WORLD, parse(f"Exchange(route={ROUTE})").exchanges[0].route  # type: ignore[union-attr]
    assert group is not None
    by, vector = Executor(group, PATIENCE, store), torch.ones(500_000)
    for step in range(WHEN):
        by.run(route, vector.fill_(1.0))
        assert vector[0] == SIZE and vector[-1] == SIZE, step
    if RANK == WHO:
        time.sleep(0.3)
        (FOLDER / "wrong").write_text(str(time.time()))
        os.kill(os.getpid(), signal.SIGKILL if HOW == "dies" else signal.SIGSTOP)
    try:
        by.run(route, vector)
    except MemberLost as error:
        told = {"members": error.members, "said": str(error), "time": time.time()}
        (FOLDER / f"told-{RANK}").write_text(json.dumps(told))
        raise


if __name__ == "__main__":
    main()
