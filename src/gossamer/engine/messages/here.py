"""Where this member can be reached, and by which secret: what the launcher's variables say."""

from __future__ import annotations

import fcntl
import os
import socket
import struct
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass

from torch.distributed.distributed_c10d import Store

from gossamer.engine.messages import secret
from gossamer.parts.refusal import Refused

KEY_FILE = "GOSSAMER_KEY_FILE"
LOOPBACK = "127.0.0.1"
ADDRESS_OF = 0x8915  # SIOCGIFADDR


@dataclass(frozen=True)
class Here:
    """One member's host, its address there, the attempt it belongs to, and where the job's secret lies."""

    host: int
    address: str
    generation: int
    key_file: str | None

    @classmethod
    def found(cls, size: int, env: Mapping[str, str] = os.environ) -> Here:
        """What the launcher says. Loopback where it says that all members are on this host, and only there."""
        together = int(env.get("LOCAL_WORLD_SIZE", "0")) == size
        address = LOOPBACK if together else own_address(env)
        generation = int(env.get("TORCHELASTIC_RESTART_COUNT", "0"))
        return cls(int(env.get("GROUP_RANK", "0")), address, generation, env.get(KEY_FILE) or None)

    def secret(self, store: Store, job: str, member: int, size: int) -> bytes:
        """The job's secret: from the file that was named; else, on one host only, from one that member 0 makes."""
        if self.key_file is not None:
            return secret.read(self.key_file)
        if self.address != LOOPBACK:
            raise Refused(
                f"messages: other hosts are met at {self.address}, and there is no key to know them by",
                f"gossamer key FILE, and the same --key-file FILE (or {KEY_FILE}) on every host",
            )
        return _between(store, f"messages/{job}/{self.generation}/key", member, size)


def _between(store: Store, name: str, member: int, size: int) -> bytes:
    """A secret that only the members of one user on one host can read; it lies in member 0's memory until all have."""
    if member == 0:
        with secret.lent() as (path, made):
            store.set(name, path)
            store.wait([f"{name}/{other}" for other in range(1, size)])
        return made
    told = secret.read(store.get(name).decode())
    store.set(f"{name}/{member}", "read")
    return told


def own_address(env: Mapping[str, str]) -> str:
    """This host's address on the interface that the launcher chose, or else on the one that leads to the store."""
    name = env.get("GLOO_SOCKET_IFNAME", "").split(",")[0]
    if name:
        return _address_of(name)
    meeting = env.get("MASTER_ADDR", "")
    with suppress(OSError):
        family, kind, _, _, target = socket.getaddrinfo(meeting, 9, type=socket.SOCK_DGRAM)[0]
        with socket.socket(family, kind) as probe:
            probe.connect(target)  # of a datagram socket: nothing is sent
            return str(probe.getsockname()[0])
    raise Refused(f"messages: no interface leads to {meeting or 'the other hosts'}", f"--interface {_names()}")


def _address_of(name: str) -> str:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            told = fcntl.ioctl(probe, ADDRESS_OF, struct.pack("256s", name[:15].encode()))
        except OSError as error:
            raise Refused(f"messages: interface {name} has no address: {error.strerror}", _names()) from None
    return socket.inet_ntoa(told[20:24])


def _names() -> str:
    return " or ".join(name for _, name in socket.if_nameindex())
