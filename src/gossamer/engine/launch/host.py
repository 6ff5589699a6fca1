"""What a launcher says of its host, sealed with the run's key where there is one, and how two hosts differ."""

from __future__ import annotations

import hmac
from importlib.metadata import version

import msgspec
import torch
from msgspec.structs import replace

# where what differs is told by the flag that says it
FLAGS = {"hosts": "--nnodes", "job": "--rdzv-id", "servers": "--servers"}


class Host(msgspec.Struct, frozen=True):
    """What a launcher says of its host: nothing that could be executed."""

    address: str
    workers: int
    hosts: int
    gossamer: str
    torch: str
    strategy: str
    fabric: str
    servers: int = 0  # on all hosts together
    job: str = ""  # the run's name, where it has one
    sealed: str = ""  # what only a holder of the run's key can write


def about(
    address: str,
    workers: int,
    hosts: int,
    given: tuple[str | None, str | None, int],
    key: bytes | None,
    job: str = "",
) -> Host:
    """What this launcher says; `given` are the strategy, the fabric, and how many servers there are."""
    strategy, fabric, servers = given
    versions = version("gossamer"), str(torch.__version__)
    plain = Host(address, workers, hosts, *versions, strategy or "", fabric or "", servers, job)
    return plain if key is None else replace(plain, sealed=seal(plain, key))


def seal(host: Host, key: bytes) -> str:
    """What only a holder of the key can have written about this host."""
    return hmac.digest(key, msgspec.json.encode(replace(host, sealed="")), "sha256").hex()


def differs(first: Host, other: Host, key: bytes | None) -> str | None:
    """The first difference in words, or None; different numbers of workers are none."""
    for name in ("job", "hosts", "gossamer", "torch", "strategy", "fabric", "servers"):
        here, there = getattr(first, name), getattr(other, name)
        if here != there:
            flag = FLAGS.get(name, name)
            return f"{flag} is {there or 'not given'}, there it is {here or 'not given'}"
    if bool(first.sealed) != bool(other.sealed):
        return "only one of them has a --key-file"
    if key is not None and not all(
        hmac.compare_digest(host.sealed.encode(), seal(host, key).encode()) for host in (first, other)
    ):
        return "its --key-file is another key"
    return None
