"""What carries a session: the fabrics that may, the best first, and how hubs and partners are visited."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from torch import Tensor

from gossamer.engine.broken import Broken
from gossamer.engine.fabrics import Fabric
from gossamer.engine.fabrics.across import Across
from gossamer.engine.fabrics.alone import Alone
from gossamer.engine.fabrics.choice import FARTHEST, measured
from gossamer.engine.fabrics.hosts import Hosts
from gossamer.engine.fabrics.over_torch import OverTorch
from gossamer.engine.fabrics.shared import Shared
from gossamer.engine.job import FABRICS
from gossamer.engine.lines import FOR_EVER, Lines
from gossamer.engine.loop.place import Place
from gossamer.engine.loop.tell import tell
from gossamer.engine.messages.here import Here
from gossamer.engine.messages.lines import Messages
from gossamer.engine.over_gloo import OverGloo
from gossamer.engine.reach import Reach
from gossamer.engine.shared import NoRoom, Unshared
from gossamer.engine.shared.room import available
from gossamer.parts.refusal import Refused
from gossamer.parts.world import World
from gossamer.replica import Layout
from gossamer.replica.hub import Builder
from gossamer.strategy import AnyStrategy

WIDEST = 16  # bytes that the most wasteful codec makes of one number: its value and its place, in 64 bits each
SPARE = 1 << 20
Named = Sequence[tuple[str, Tensor]]
Carrier = Callable[[Layout, Builder], Lines | Reach]


def fabrics(place: Place, asked: str, named: Sequence[Named]) -> list[Callable[[], Fabric]]:
    """What may carry wires, the best first; all workers try the same ones in the same order."""
    if asked not in FABRICS:
        raise Refused(f"prepare: there is no fabric {asked!r}", ", ".join(FABRICS))
    if place.size == 1:
        return [Alone]

    here = next((members for members in place.hosts if place.member in members), ())
    several = not place.one_host and any(len(members) > 1 for members in place.hosts)

    def torch_() -> OverTorch:
        broken = Broken(place.store, place.member, range(place.size))
        return OverTorch(place.groups.make(), set(range(place.size)) - set(here), broken)

    def hosts() -> Fabric:
        _refuse_scarce(place, here, named)
        across = Across(place.member, place.hosts, place.groups, place.store)
        most = sum(t.nbytes for each in named for _, t in each) or FARTHEST
        beyond, choice = torch_(), measured(across, most)
        if place.member == 0:
            tell(choice.told())
        return Hosts(beyond, Shared(beyond, place.store, f"memory of host {across.host}", here), across, choice)

    if asked == "shared" and not place.one_host:
        raise Refused("prepare: the shared fabric needs all workers on one host", "fabric torch, or auto")
    beyond = next((str(t.device) for each in named for _, t in each if not t.is_cpu), None)
    if asked == "shared" and beyond is not None:
        raise Refused(
            f"prepare: the shared fabric is memory of the host, and parameters are on {beyond}", "fabric='torch'"
        )
    if asked == "hosts" and not several:
        raise Refused("prepare: the hosts fabric needs several workers on each of several hosts", "fabric auto")
    if asked in ("torch", "messages") or beyond is not None or not (place.one_host or several):
        return [torch_]
    if several:
        return [hosts, torch_]
    return [lambda: Shared(torch_(), place.store, "memory"), torch_]


class Elsewhere(Unshared):
    """Members of another host cannot share memory."""


def all_alike(place: Place, number: int, fault: Unshared | None) -> None:
    """Members of one host share memory or none does; so that the same holds for all hosts, they tell each other."""
    if place.one_host:
        return
    place.store.set(f"fabric/{number}/{place.member}", str(fault or ""))
    for other in range(place.size):
        if (why := place.store.get(f"fabric/{number}/{other}").decode()) and fault is None:
            raise Elsewhere(f"member {other}: {why}")


def _refuse_scarce(place: Place, here: Sequence[int], named: Sequence[Named]) -> None:
    """Raise Unshared on all hosts if one has too little memory: members of a host know only of their own."""
    needed = int(1.25 * len(here) * sum(t.nbytes for each in named for _, t in each if t.requires_grad)) + SPARE
    lacking = NoRoom(needed, room) if needed > (room := available()) else None
    place.store.set(f"room/{place.member}", str(lacking or ""))
    told = [place.store.get(f"room/{other}").decode() for other in range(place.size)]
    for member, why in enumerate(told):
        if why:
            host = next(number for number, members in enumerate(place.hosts) if member in members)
            raise Unshared(f"{place.whereabouts(host)}: {why}")


def keyed(place: Place, asked: str) -> bool:
    """Whether hubs and visits travel by messages: between hosts, where everybody could come by, and if asked for."""
    if place.servers:  # they share nobody's memory and no process group
        return True
    return place.size > 1 and (asked == "messages" or (asked == "auto" and not place.one_host))


def carrier(
    place: Place, strand: str, named: Named, played: tuple[AnyStrategy, World], fabric: Fabric, *, keyed: bool
) -> Carrier:
    """How hubs and partners are visited, once it is known how parameters lie and what steps them."""
    strategy, world = played

    def made(layout: Layout, optimizer: Builder) -> Lines | Reach:
        if isinstance(fabric, Shared) and not keyed:
            name = f"shelf {strand}"
            if (found := Reach.of(place.store, name, place.member, layout, world, strategy, optimizer)) is not None:
                return found
        return _lines(place, strand, named, keyed=keyed)

    return made


def _lines(place: Place, strand: str, named: Named, *, keyed: bool) -> Lines:
    """Between the threads that ask and those that serve; a service may well not be asked for long."""
    if keyed:
        return messages(place, strand, named)
    asks, replies = place.groups.make(timeout=FOR_EVER, backend="gloo"), place.groups.make(backend="gloo")
    return OverGloo(asks, replies)


def messages(place: Place, strand: str, named: Named) -> Messages:
    """Keyed lines between all members and servers."""
    # to and from servers states of hubs travel, too, which may hold what each member last heard
    widest = WIDEST + (8 * (place.size + 4) if place.servers else 0)
    limit = widest * sum(tensor.numel() for _, tensor in named) + SPARE
    here, job, all_ = replace(Here.found(place.size), host=place.host), f"{place.name}/{strand}", len(place.everybody)
    return Messages.open(place.store, job, place.member, all_, limit, here, len(place.servers))
