"""A script for workers on several hosts: each writes down where it stands, and what its neighbour is doing.

places.py FOLDER
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import torch
import torch.distributed as dist

from gossamer.engine.loop.place import Place, join
from gossamer.engine.loop.pulse import Pulse
from gossamer.engine.watch import Post, stack_of


def waits_to_be_asked(place: Place) -> None:
    """Until the neighbour has."""
    if place.member + 1 < place.size:
        place.store.wait([f"has-asked/{place.member + 1}"])


def main() -> None:
    """Stand, sum, ask."""
    place = join()
    Post(place.store, place.member)
    pulse = Pulse(place)
    total = torch.tensor([place.member + 1.0])
    dist.all_reduce(total)
    stack = stack_of(place.store, place.member - 1, 20.0) if place.member else ""
    place.store.set(f"has-asked/{place.member}", "yes")
    waits_to_be_asked(place)
    told = {
        "hosts": place.hosts, "per_host": place.per_host, "host": place.host, "one_host": place.one_host,
        "addresses": place.addresses, "sum": float(total), "stack": stack,
        "interface": os.environ["GLOO_SOCKET_IFNAME"],
    }  # fmt: skip
    (Path(sys.argv[1]) / f"told-{place.member}").write_text(json.dumps(told))
    pulse.close()
    dist.barrier()


if __name__ == "__main__":
    main()
