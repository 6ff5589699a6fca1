"""A worker on a host of a lab that mixes at every step until somebody is gone, and says who that is.

breaking.py ROUTE WHO
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time

import torch
from torch import nn

import gossamer
from gossamer.engine.lost import MemberLost

RANK, WHO, AT = int(os.environ["RANK"]), int(sys.argv[2]), 5


def main() -> None:
    """Train; the one kills itself before a step, while the others go on."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    model = nn.Linear(300, 300)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    gossamer.prepare(model, optimizer, strategy=f"Exchange(route={sys.argv[1]})")
    for step in range(10**9):
        if (step, RANK) == (AT, WHO):
            os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(0.7 if (step, RANK) == (AT, 0) else 0.0)  # who is late has not said that it misses anybody
        model(torch.randn(4, 300)).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()


if __name__ == "__main__":
    try:
        main()
    except MemberLost as error:
        print(json.dumps({"members": error.members, "said": str(error)}), flush=True)
        os._exit(0)
