"""Where this process stands: its number, how many there are, who shares a host, and the store they meet at.

The launcher decides who shares a host (torchrun's variables), never a hostname or what a file system shows.
"""

from __future__ import annotations

import atexit
import hashlib
import os
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from itertools import count
from pathlib import Path

import msgspec
import torch
import torch.distributed as dist
from torch.distributed.distributed_c10d import PrefixStore, Store, _get_default_store
from torch.distributed.rendezvous import rendezvous

from gossamer.engine.groups import Groups
from gossamer.engine.launch.interface import towards
from gossamer.engine.launch.meeting import RUN
from gossamer.engine.launch.start import party
from gossamer.engine.launch.ties import FALLS, KEEPS, SURVIVES
from gossamer.engine.loop.roll import calling
from gossamer.engine.told import read
from gossamer.parts.refusal import Refused

PATIENCE = timedelta(minutes=30)
_sessions = count()


class Told(msgspec.Struct, frozen=True):
    """What a member says of where it stands: its host by the launcher's number, that host's address, and a word that
    nobody could know before."""

    host: str
    address: str
    new: str


@dataclass(frozen=True)
class Place:
    """A member of the world, and where it meets the others. `hosts` are the members of each, the store's host first.

    `name` is this session's alone, in this run: what was said in another one, by the same key, is not believed in it.
    """

    member: int
    size: int
    store: Store
    name: str
    hosts: tuple[tuple[int, ...], ...] = ((0,),)
    addresses: tuple[str, ...] = ("127.0.0.1",)
    groups: Groups = field(default_factory=Groups, compare=False)
    servers: tuple[int, ...] = ()  # the host of each process that keeps hubs and does nothing else

    @property
    def told_hosts(self) -> str:
        """How many members each host has, for whoever reads the journal: 4+4."""
        return "+".join(str(len(members)) for members in self.hosts)

    @property
    def told_servers(self) -> str:
        """Which host each server is on: 2+3; nothing where there is none."""
        return "+".join(map(str, self.servers))

    @property
    def one_host(self) -> bool:
        """Whether all members share a host."""
        return len(self.hosts) == 1

    @property
    def host(self) -> int:
        """The number of this member's host."""
        if self.serves:
            return self.servers[self.member - self.size]
        return next(number for number, members in enumerate(self.hosts) if self.member in members)

    @property
    def serves(self) -> bool:
        """Whether this is no member, but a server; they are numbered after all members."""
        return self.member >= self.size

    @property
    def everybody(self) -> range:
        """All members, and all servers."""
        return range(self.size + len(self.servers))

    def named(self, number: int) -> str:
        """A member or a server in words."""
        return party(number, self.size)

    @property
    def per_host(self) -> tuple[int, ...]:
        """How many members each host has."""
        return tuple(len(members) for members in self.hosts)

    def whereabouts(self, number: int) -> str:
        """A host in words."""
        return f"host {number} ({self.addresses[number]})"


def join() -> Place:
    """Join the world the launcher describes, or the process group that is there; without either, a world of one."""
    number, servers = next(_sessions), int(asked("servers") or 0)
    name = f"gossamer/{os.environ.get('TORCHELASTIC_RESTART_COUNT', '0')}/{number}"
    if servers and number:
        raise Refused("prepare: servers serve what the first prepare made", "one prepare for all, or no servers")
    if (own := asked("server")) is not None:
        size = int(os.environ["WORLD_SIZE"])
        return _place(size + int(own), size, servers, _store(size + servers), name)
    if not dist.is_initialized():
        if int(os.environ.get("WORLD_SIZE", "1")) == 1 and not servers:
            return Place(0, 1, dist.HashStore(), name)  # type: ignore[attr-defined]
        _meet(servers)
    rank, size = dist.get_rank(), dist.get_world_size()
    if size == 1 and not servers:
        return Place(0, 1, dist.HashStore(), name)  # type: ignore[attr-defined]
    return _place(rank, size, servers, raw(_get_default_store()), name)


def _place(number: int, size: int, servers: int, meeting: Store, name: str) -> Place:
    """Where this process stands among all, as they tell each other."""
    store = PrefixStore(name, meeting)
    with calling(store, "told", number, size + servers):  # who made the process group before may not come here
        told = _told(store, number, size, servers)
    found: dict[str, list[int]] = {}
    for other, each in enumerate(told[:size]):
        found.setdefault(each.host, []).append(other)
    addresses, hosts = tuple(told[members[0]].address for members in found.values()), tuple(map(tuple, found.values()))
    homes = tuple([*found].index(each.host) for each in told[size:])
    return Place(number, size, store, f"{name}/{_fresh(told)}", hosts, addresses, servers=homes)


def _told(store: Store, rank: int, size: int, servers: int) -> list[Told]:
    """Where all stand, as they tell each other; without a launcher's word each is on a host of its own."""
    master = os.environ.get("MASTER_ADDR", "127.0.0.1")
    together = os.environ.get("LOCAL_WORLD_SIZE") == str(size)
    host = os.environ.get("GROUP_RANK", "0" if together else f"rank {rank}")
    mine = Told(host, asked("address") or towards(master) or master, secrets.token_hex(16))
    store.add(f"pulse/{rank}", 0)
    store.set(f"place/{rank}", msgspec.json.encode(mine).decode())
    said = [store.get(f"place/{other}") for other in range(size + servers)]
    return [read(each, Told, f"prepare: {party(other, size)}") for other, each in enumerate(said)]


def _fresh(told: Sequence[Told]) -> str:
    """What all members' new words come to: as each has put its own in, no store can pass off an old one."""
    return hashlib.sha256(msgspec.json.encode([each.new for each in told])).hexdigest()[:32]


def asked(name: str) -> str | None:
    """What the launcher was told on its command line, handed on to workers."""
    return os.environ.get(f"GOSSAMER_{name.upper()}") or None


def alone(place: Place) -> None:
    """A process group of one, for what serves others though nobody is there."""
    if not dist.is_initialized():
        dist.init_process_group("gloo", store=place.store, rank=0, world_size=1)
        atexit.register(_part)


def tell_launchers(place: Place, survives: bool) -> None:
    """Tell our launchers, if there are any, whether the others go on when a worker dies; one member is enough.

    They do where every session says so: one that cannot is enough to stop all.
    """
    word = SURVIVES if survives else FALLS
    raw(place.store).set(f"{RUN}/{word}", "yes")
    if (file := os.environ.get("GOSSAMER_STORE")) is not None:
        Path(file).with_name(word).touch()


def tell_kept(place: Place, kept: str) -> None:
    """Tell our launchers, if there are any, which shards of hubs this process keeps: they are lost with it."""
    if (file := os.environ.get("GOSSAMER_STORE")) is not None:
        Path(file).with_name(f"{KEEPS}-{place.member}").write_text(kept)
    elif hasattr(store := raw(place.store), "append"):
        store.append(f"{RUN}/{KEEPS}", f"{place.member} {kept}\n")


def raw(store: Store) -> Store:
    """A store without the prefixes of those who have handed it on."""
    while isinstance(store, PrefixStore):
        store = store.underlying_store
    return store


def _store(parties: int) -> Store:
    """Where a server meets the members, of whose process group it is none."""
    if "GOSSAMER_STORE" in os.environ:
        return dist.FileStore(os.environ["GOSSAMER_STORE"], parties)  # type: ignore[attr-defined]
    where = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
    return dist.TCPStore(*where, None, False, PATIENCE)  # type: ignore[attr-defined]


def _meet(servers: int) -> None:
    """Make the process group: over a private file from our own launcher, over torch's variables from torchrun."""
    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    backend = "cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo"
    if torch.cuda.is_available():
        torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")))
    if "GOSSAMER_STORE" in os.environ:
        store: Store = dist.FileStore(os.environ["GOSSAMER_STORE"], size + servers)  # type: ignore[attr-defined]
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
