"""The post office of a rehearsal: wires are laid down, and heard when all that belong together are there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from gossamer.parts.codec import Each, Heard, Max, Wire
from gossamer.parts.route import Native, Route, counted
from gossamer.parts.topology import Everyone
from gossamer.parts.world import World
from gossamer.replica import combine
from gossamer.sim import prices
from gossamer.sim.links import Links
from gossamer.strategy import Exchange

Key = tuple[int, int, int]  # slot, step it was sent at, turn


@dataclass(frozen=True)
class Mail:
    """What a member hears, when, how long the transfer itself took, and how many bytes came in."""

    heard: Heard
    time: float
    transfer: float
    nbytes: int


@dataclass
class _Tray:
    """The wires of one turn of one exchange."""

    wires: dict[int, Wire] = field(default_factory=dict)
    posted: dict[int, float] = field(default_factory=dict)
    arrivals: dict[tuple[int, int], float] = field(default_factory=dict)  # by (sender, listener)
    mail: Mail | None = None
    heard_by: int = 0


class Office:
    """Keeps trays by (slot, step, turn) until everybody has heard."""

    def __init__(self, exchanges: tuple[Exchange, ...], world: World, links: Links) -> None:
        self._exchanges, self._world, self._links = exchanges, world, links
        self._trays: dict[Key, _Tray] = {}

    def post(self, key: Key, member: int, wire: Wire, now: float) -> int:
        """Lay a wire down; returns the bytes that leave the member for it."""
        tray = self._trays.setdefault(key, _Tray())
        together = self._weights(key, member) is None
        if not together:  # neighbours hear at different times, and the sender may write on
            wire = type(wire)(wire.body.clone())
        tray.wires[member], tray.posted[member] = wire, now
        if not together:
            for listener in self._listeners(key, member):
                tray.arrivals[member, listener] = self._links.carry(member, listener, wire.body.nbytes, now)
        elif len(tray.wires) == self._world.size:
            tray.mail = self._to_all(key[0], tray, now)
        return self._leaving(key, member, wire)

    def waiters(self, key: Key, member: int) -> Sequence[int]:
        """Whom the wire just laid down may set free: its listeners, or all once the tray is full."""
        if self._weights(key, member) is not None:
            return self._listeners(key, member)
        return range(self._world.size) if len(self._trays[key].wires) == self._world.size else ()

    def missing(self, key: Key, member: int) -> list[int]:
        """Whose wires this member still waits for."""
        weights = self._weights(key, member)
        there = self._trays[key].wires if key in self._trays else {}
        if weights is None and len(there) == self._world.size:
            return []
        return [sender for sender in (range(self._world.size) if weights is None else weights) if sender not in there]

    def hear(self, key: Key, member: int) -> Mail:
        """What this member hears of a tray that lacks nothing it needs."""
        tray, weights = self._trays[key], self._weights(key, member)
        mail = self._from_all(key, tray, member) if weights is None else self._from_some(tray, member, weights)
        tray.heard_by += 1
        if tray.heard_by == self._world.size:
            del self._trays[key]
        return mail

    def _to_all(self, slot: int, tray: _Tray, now: float) -> Mail:
        """The last wire is there: all hear the same at the same time."""
        size, wires = self._world.size, [tray.wires[sender] for sender in range(self._world.size)]
        longest = max(wire.body.nbytes for wire in wires)
        if isinstance(wires[0], Each):
            price = prices.all_gather(self._links.machines, size, longest)
        else:
            price = prices.all_reduce(self._links.machines, self._route(slot, wires[0]), size, longest)
        heard = combine([(1.0 / size, wire) for wire in wires])
        time = self._links.together(range(size), price, now)
        return Mail(heard, time, price.seconds, sum(wire.body.nbytes for wire in wires))

    def _from_all(self, key: Key, tray: _Tray, member: int) -> Mail:
        """What all hear; only the bytes that come in may differ."""
        assert tray.mail is not None
        mine = tray.wires[member]
        if isinstance(mine, Each):
            return replace(tray.mail, nbytes=tray.mail.nbytes - mine.body.nbytes)
        return replace(tray.mail, nbytes=self._counted(key[0], member, mine)[1])

    def _from_some(self, tray: _Tray, member: int, weights: Mapping[int, float]) -> Mail:
        heard = combine([(weights[sender], tray.wires[sender]) for sender in sorted(weights)])
        time, transfer, nbytes = tray.posted[member], 0.0, 0
        for sender in weights:
            if sender != member:
                body = tray.wires[sender].body
                time = max(time, tray.arrivals[sender, member])
                transfer = max(transfer, prices.message(self._links.machines, body.nbytes).seconds)
                nbytes += body.nbytes
        return Mail(heard, time, transfer, nbytes)

    def _leaving(self, key: Key, member: int, wire: Wire) -> int:
        """Bytes out of this member, counted message by message over the buffers that are sent."""
        if self._weights(key, member) is not None:
            return wire.body.nbytes * len(self._listeners(key, member))
        if isinstance(wire, Each):
            return wire.body.nbytes * (self._world.size - 1)
        return self._counted(key[0], member, wire)[0]

    def _route(self, slot: int, wire: Wire) -> Route:
        """The way a summed wire takes; a maximum is always left to the backend, whose ring stands for it."""
        return Native() if isinstance(wire, Max) else self._exchanges[slot].route

    def _counted(self, slot: int, member: int, wire: Wire) -> tuple[int, int]:
        """Bytes out of and into this member along the route, for wires of this length."""
        route = self._route(slot, wire).suited(wire.body.nbytes)
        out, into = counted(route, member, self._world.size, wire.body.numel())
        return out * wire.body.element_size(), into * wire.body.element_size()

    def _weights(self, key: Key, member: int) -> Mapping[int, float] | None:
        exchange = self._exchanges[key[0]]
        mixing = exchange.topology.mixing(member, exchange.round(key[1]), self._world, key[0])
        return None if isinstance(mixing, Everyone) else getattr(mixing, "weights", {})

    def _listeners(self, key: Key, member: int) -> tuple[int, ...]:
        exchange = self._exchanges[key[0]]
        return exchange.topology.listeners(member, exchange.round(key[1]), self._world, key[0])
