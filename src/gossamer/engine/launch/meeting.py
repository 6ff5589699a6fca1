"""Where the launchers of a run meet before any worker starts: a store in the first one, and what each says of itself.

In the place of torch's dynamic rendezvous, whose state is pickled and open to whoever reaches its port. Starts nobody.
"""

from __future__ import annotations

import secrets
import socket
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import NoReturn

import msgspec
from torch.distributed import TCPStore  # type: ignore[attr-defined]
from torch.distributed.distributed_c10d import PrefixStore, Store

from gossamer.engine.launch.flags import refuse_unfit
from gossamer.engine.launch.host import Host, differs
from gossamer.engine.told import read
from gossamer.parts.refusal import Refused

NAP, TELL = 0.1, 10.0  # seconds between two looks, and until those that are missing are named
RUN = "gossamer-run"  # what the keys of launchers begin with
READ = timedelta(seconds=20)  # no answer of the store takes longer


@dataclass(frozen=True)
class Meeting:
    """Everybody is here: the store, this host's number, and what all said."""

    store: Store
    port: int
    number: int
    hosts: tuple[Host, ...]

    def named(self, number: int) -> str:
        """A host in words, with its ranks."""
        first = sum(host.workers for host in self.hosts[:number])
        last = first + self.hosts[number].workers - 1
        ranks = f"rank {first}" if first == last else f"ranks {first}-{last}"
        return f"host {number} ({self.hosts[number].address}, {ranks})"


def meet(where: tuple[str, int], mine: Host, number: int | None, connect: float, join: float) -> Meeting:
    """Open the store if the address is this host's, else come to it within `connect` seconds; wait for all others.

    `number` is this host's, where it is told; else the store's host is 0 and the others count as they come.
    """
    if number in (None, 0):
        _within(connect, where, lambda: socket.getaddrinfo(*where, type=socket.SOCK_STREAM))  # may have no name yet
    listening = _listen(where, number) if number in (None, 0) else None
    store, port = _opened(where, listening, connect)
    try:
        taken = _enter(store, mine, 0 if listening is not None else number)
        _count(store, mine)
        _wait(store, mine, join)
        said = store.multi_get([f"host/{each}" for each in range(mine.hosts)])
        hosts = tuple(read(each, Host, f"run: host {number}") for number, each in enumerate(said))
    except RuntimeError as error:
        raise Refused(f"run: the store at {where[0]}:{where[1]} is gone: {_first(error)}") from None
    return Meeting(store, port, taken, hosts)


def compare(meeting: Meeting, key: bytes | None) -> None:
    """Refuse, on every host alike, hosts that were not given the same; each is heard out before any leaves."""
    first, others = meeting.hosts[0], range(1, len(meeting.hosts))
    found = {number: differs(first, meeting.hosts[number], key) for number in others}
    number = next((each for each, difference in found.items() if difference), None)
    if number is not None:
        said = f"run: {meeting.named(number)} differs from host 0 ({first.address}): {found[number]}"
        _part(meeting, Refused(said, "the same on all hosts"))
    try:
        refuse_unfit(first.strategy, sum(host.workers for host in meeting.hosts), first.servers)
    except Refused as refusal:
        _part(meeting, refusal)


def _part(meeting: Meeting, refusal: Refused) -> NoReturn:
    """Leave by a refusal that all come to; the store's host goes last."""
    meeting.store.add("compared", 1)
    until = time.monotonic() + 5.0
    while meeting.number == 0 and meeting.store.add("compared", 0) < len(meeting.hosts) and time.monotonic() < until:
        time.sleep(NAP)
    raise refusal from None


def _listen(where: tuple[str, int], number: int | None) -> socket.socket | None:
    """A socket at the address itself, so that the store is to be reached there only; None if it is another host's."""
    family, _, _, _, address = socket.getaddrinfo(*where, type=socket.SOCK_STREAM)[0]
    listening = socket.socket(family, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind(address)
        listening.listen(1024)  # two may bind before either listens
    except OSError as error:
        listening.close()
        if number == 0:
            raise Refused(f"run: {where[0]}:{where[1]} cannot be used: {error.strerror}", "another port") from None
        return None
    return listening


def _opened(where: tuple[str, int], listening: socket.socket | None, connect: float) -> tuple[Store, int]:
    host, port = where
    try:
        if listening is not None:
            port = listening.getsockname()[1]
            store = TCPStore(host, port, None, True, READ, wait_for_workers=False, master_listen_fd=listening.detach())
        else:
            _within(connect, where, lambda: socket.create_connection(where, timeout=max(1.0, connect)).close())
            store = TCPStore(host, port, None, False, timedelta(seconds=connect))
            store.set_timeout(READ)
    except RuntimeError as error:
        raise Refused(
            f"run: {host}:{port} is no store of a launcher: {_first(error)}", "the --rdzv-endpoint of host 0"
        ) from None
    return PrefixStore(RUN, store), port


def _within(seconds: float, where: tuple[str, int], attempt: Callable[[], object]) -> None:
    """Try until it works: the first launcher may not have started, or its name not be known yet."""
    began = time.monotonic()
    while True:
        try:
            attempt()
            return
        except OSError as error:
            waited = time.monotonic() - began
            if waited + NAP >= seconds:
                raise Refused(
                    f"run: no launcher answers at {where[0]}:{where[1]} after {waited:.0f} s: "
                    f"{error.strerror or error}",
                    "host 0's --rdzv-endpoint, started first; --rdzv-conf join_timeout=60 waits longer",
                ) from None
            time.sleep(NAP)


def _enter(store: Store, mine: Host, number: int | None) -> int:
    """Say who is here, under the number that was told or the first that is free."""
    text = msgspec.json.encode(mine).decode()
    for each in range(1, mine.hosts) if number is None else (number,):
        token = f"{text}\n{secrets.token_hex(8)}"  # two hosts may say the same, and both want the number
        if store.compare_set(f"taken/{each}", "", token).decode() == token:
            store.add(f"beat/{each}", 0)
            store.set(f"host/{each}", text)
            return each
    taken = f"run: host {number} is here already" if number is not None else f"run: all {mine.hosts} hosts are here"
    raise Refused(taken, "another --node-rank, or a larger --nnodes")


def _count(store: Store, mine: Host) -> None:
    """Refuse at once to wait for more or fewer hosts than the first one does, who finds it out by itself."""
    first = read(store.get("host/0"), Host, "run: host 0")
    if first.hosts != mine.hosts:
        store.add("compared", 1)
        reason = f"run: --nnodes is {mine.hosts} here, and {first.hosts} on host 0 ({first.address})"
        raise Refused(reason, "the same on all hosts")


def _wait(store: Store, mine: Host, join: float) -> None:
    """Until all are here; who is not is named once in a while."""
    began = time.monotonic()
    tell = TELL
    while absent := _absent(store, mine.hosts):
        waited = time.monotonic() - began
        said = f"{mine.hosts - len(absent)} of {mine.hosts} hosts came within {waited:.0f} s; host"
        said += f"{'s' * (len(absent) > 1)} {', '.join(map(str, absent))} did not"
        if waited > join:
            raise Refused(f"run: {said}", "--rdzv-conf join_timeout=SECONDS waits longer")
        if waited > tell:
            tell *= 2.0
            print(f"gossamer: {said} yet", file=sys.stderr, flush=True)
        time.sleep(NAP)


def _absent(store: Store, hosts: int) -> list[int]:
    keys = {each: f"host/{each}" for each in range(hosts)}
    return [] if store.check(list(keys.values())) else [each for each, key in keys.items() if not store.check([key])]


def _first(error: BaseException) -> str:
    return str(error).splitlines()[0]
