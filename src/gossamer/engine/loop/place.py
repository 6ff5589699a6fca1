"""Where this process stands: its number, how many there are, whether they share a host, and the store they meet at.

The launcher decides who shares a host (torchrun's variables), never a hostname or what a file system shows.
"""

from __future__ import annotations

import atexit
import os
from dataclasses import dataclass
from datetime import timedelta
from itertools import count

import torch
import torch.distributed as dist
from torch.distributed.distributed_c10d import PrefixStore, Store, _get_default_store
from torch.distributed.rendezvous import rendezvous

from gossamer.engine.loop.roll import calling
from gossamer.parts.refusal import Refused

PATIENCE = timedelta(minutes=30)
_sessions = count()


@dataclass(frozen=True)
class Place:
    """A member of the world, and where it meets the others."""

    member: int
    size: int
    one_host: bool
    store: Store
    name: str
    hosts: tuple[tuple[int, ...], ...] = ((0,),)


def join() -> Place:
    """Join the world the launcher describes, or the process group that is there; without either, a world of one."""
    name = f"gossamer/{next(_sessions)}"
    if not dist.is_initialized():
        if int(os.environ.get("WORLD_SIZE", "1")) == 1:
            return Place(0, 1, True, dist.HashStore(), name)  # type: ignore[attr-defined]
        _meet()
    rank, size = dist.get_rank(), dist.get_world_size()
    if size == 1:
        return Place(0, 1, True, dist.HashStore(), name)  # type: ignore[attr-defined]
    here = os.environ.get("LOCAL_WORLD_SIZE")
    store = PrefixStore(name, _get_default_store())
    store.set(f"place/{rank}", os.environ.get("GROUP_RANK", f"rank {rank}"))
    found: dict[bytes, list[int]] = {}
    for other in range(size):
        found.setdefault(store.get(f"place/{other}"), []).append(other)
    hosts = tuple(map(tuple, found.values()))
    return Place(rank, size, here is not None and int(here) == size, store, name, hosts)


def asked(name: str) -> str | None:
    """What the launcher was told on its command line, handed on to workers."""
    return os.environ.get(f"GOSSAMER_{name.upper()}") or None


def alone(place: Place) -> None:
    """A process group of one, for what serves others though nobody is there."""
    if not dist.is_initialized():
        dist.init_process_group("gloo", store=place.store, rank=0, world_size=1)
        atexit.register(_part)


def _meet() -> None:
    """Make the process group: over a private file from our own launcher, over torch's variables from torchrun."""
    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    backend = "cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo"
    if torch.cuda.is_available():
        torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")))
    if "GOSSAMER_STORE" in os.environ:
        store: Store = dist.FileStore(os.environ["GOSSAMER_STORE"], size)  # type: ignore[attr-defined]
    elif "MASTER_ADDR" in os.environ:
        store = PrefixStore("default_pg", next(rendezvous("env://", timeout=PATIENCE))[0])
        store.set_timeout(PATIENCE)
    else:
        raise Refused(f"prepare: WORLD_SIZE is {size}, but nobody says where to meet", "torchrun or gossamer run")
    with calling(store, "gossamer/roll", rank, size):
        dist.init_process_group(backend, store=store, rank=rank, world_size=size, timeout=PATIENCE)
    atexit.register(_part)


def _part() -> None:
    if dist.is_initialized():
        dist.destroy_process_group()
