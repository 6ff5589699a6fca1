"""A script for workers that meet over gloo: one of them is gone before the second exchange, and the others miss it."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import torch
import torch.distributed as dist


def main() -> None:
    """Meet, then go or wait for those that are gone."""
    rank = int(os.environ["RANK"])
    (Path(sys.argv[1]) / f"pid-{rank}").write_text(str(os.getpid()))
    dist.init_process_group("gloo")
    vector = torch.ones(4)
    dist.all_reduce(vector)
    if rank == 1 and sys.argv[2] == "raises":
        raise ValueError(f"the sum was {vector[0].item():.0f}")
    if rank == 1 and sys.argv[2] == "dies":
        os.kill(os.getpid(), signal.SIGKILL)
    dist.all_reduce(vector)


if __name__ == "__main__":
    main()
