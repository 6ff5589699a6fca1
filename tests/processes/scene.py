"""A script for workers: all say that they are there, then one of them goes wrong in the way it is told to.

    scene.py FOLDER HOW RANK ...

Loads no torch, so that many of them start at once.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

FOLDER, HOW, WHO = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
RANK, SIZE = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])


def there(rank: int, pid: int) -> None:
    """Say that this rank is there, as this process."""
    (FOLDER / f"new-{rank}").write_text(str(pid))
    (FOLDER / f"new-{rank}").rename(FOLDER / f"pid-{rank}")


def go_wrong() -> None:
    """What the one does."""
    match HOW:
        case "raises":
            raise ValueError("the loss of this rank went wrong")
        case "stays":
            threading.Thread(target=time.sleep, args=(60,)).start()
            raise ValueError("a thread keeps this rank")
        case "exits":
            sys.exit("not today")
        case "vanishes":
            os._exit(7)
        case "refuses":
            from gossamer.parts.refusal import Refused

            raise Refused("the model of this rank is odd", "an even one")
        case "leaves a child":
            there(99, subprocess.Popen(["sleep", "60"]).pid)
            os.kill(os.getpid(), signal.SIGKILL)
        case "is gone":
            os.kill(os.getpid(), signal.SIGKILL)
        case "is missed":
            time.sleep(0.2)
            raise ValueError("the cause")


def miss() -> None:
    """What the others do where one is missed: they tell of it before it can itself."""
    from gossamer.engine.lost import MemberLost

    time.sleep(0.05 * RANK)
    raise MemberLost(f"rank {RANK} misses somebody", [WHO])


def main() -> None:
    """Be there, wait for all, go wrong or sleep."""
    if "deaf" in sys.argv:
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, signal.SIG_IGN)
    there(RANK, os.getpid())
    while len(list(FOLDER.glob("pid-*"))) < SIZE:
        time.sleep(0.01)
    if HOW == "is fine":
        names = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "GROUP_RANK", "OMP_NUM_THREADS", "MASTER_ADDR")
        env = {name: os.environ.get(name) for name in names}
        env |= {name: value for name, value in os.environ.items() if name.startswith("GOSSAMER_")}
        told = {
            "argv": sys.argv,
            "path": sys.path[0],
            "name": __name__,
            "env": env,
            "main": "scene" in str(sys.modules["__main__"]),
        }
        (FOLDER / f"told-{RANK}").write_text(json.dumps(told))
        return
    if WHO == RANK:
        go_wrong()
    if HOW in ("is missed", "is gone"):
        miss()
    time.sleep(60)


if __name__ == "__main__":
    main()
