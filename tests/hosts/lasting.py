"""A script for workers that go on without one of them: rank WHO kills itself, the others finish a while later.

lasting.py FOLDER WHO
"""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

import torch.distributed as dist

from gossamer.engine.loop.place import join, tell_launchers


def main() -> None:
    """Meet, say that a loss is survived, lose one."""
    place = join()
    if place.member == 0:
        tell_launchers(place, survives=True)
    dist.barrier()
    time.sleep(1.5)  # until the launchers have heard it
    if place.member == int(sys.argv[2]):
        os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(4.0)  # longer than anybody is given to end
    (Path(sys.argv[1]) / f"done-{place.member}").touch()


if __name__ == "__main__":
    main()
