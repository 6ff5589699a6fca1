"""The fabric of several hosts with several members each: shared memory inside a host, torch across. Knows no strategy.

A mix: everybody's numbers lie in its host's memory; who speaks for a host sums a span of them, adds it up with those
who speak for other hosts, and lays the result into every slot. A thread beside the main one does so while it computes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from gossamer.engine.carrier import Carrier
from gossamer.engine.fabrics.across import Across, Span, Way, left_open
from gossamer.engine.fabrics.choice import Choice
from gossamer.engine.fabrics.fabric import Board, Fabric, Key, Pending
from gossamer.engine.fabrics.shared import Shared, Spare
from gossamer.engine.shared import Into, Lane
from gossamer.parts.codec import Heard, Mean, Wire
from gossamer.parts.route import Route


@dataclass(eq=False)
class Crossing:
    """A span on its way between hosts, piece by piece; once landed it lies in every slot of this one."""

    lane: Lane
    bucket: int
    pieces: list[tuple[Span, Callable[[], object]]]
    landed: bool = False

    def land(self) -> None:
        """Wait for each piece, lay it into every slot, and be done with it all; once."""
        if not self.landed:
            self.landed = True
            for piece, wait in self.pieces:
                wait()
                self.lane.spread(*piece)
            self.lane.done(self.bucket)


class Hosts:
    """One member's hold on its host's memory (`inside`) and on other hosts (`across`); `beyond` carries the rest."""

    looks, local, ordered = True, False, True

    def __init__(self, beyond: Fabric, inside: Shared, across: Across, choice: Choice) -> None:
        self.name = f"hosts ({inside.name} inside, {beyond.name} across)"
        self.member, self.size = beyond.member, beyond.size
        self.sent: Counter[int] = beyond.sent
        self.heard: Counter[int] = beyond.heard
        self.crossed: Counter[int] = beyond.crossed
        self.beyond, self.inside, self.across, self.choice = beyond, inside, across, choice
        self._carrier = Carrier()
        self._crossing: Crossing | None = None  # the one that began last

    def lend(self, like: Tensor, cuts: Sequence[int]) -> Tensor:
        """This member's slot of a lane: what lies there is mixed where it lies."""
        return self.inside.lend_lane(self.inside.lane(like.numel(), like.dtype, cuts, small=0), like.numel(), cuts)

    def knows(self, there: Tensor) -> bool:
        """Whether it is one bucket of a lane."""
        return self.inside.knows(there)

    def load(self, there: Tensor, sources: Sequence[Tensor], scale: float) -> int:
        """Copied and looked at."""
        return self.inside.load(there, sources, scale)

    def everyone(self, key: Key, wire: Wire, route: Route) -> Pending:
        """Begin a mix of all members' wires."""
        way = self.way(route, wire.body) if isinstance(wire, Mean) else None
        if way is None or not wire.body.numel():
            return self.beyond.everyone(key, wire, route)
        place = self.inside.place_of(wire.body)
        return self._begin(key, wire.body, way, *place) if place else self._copied(key, wire.body, way)

    def neighbours(self, key: Key, wire: Wire, weights: Mapping[int, float], listeners: tuple[int, ...]) -> Pending:
        """In the host's memory where all of the host mix and nobody else; else over torch."""
        return self.inside.neighbours(key, wire, weights, listeners)

    def board(self, width: int) -> Board:
        """Over torch: everybody hears everybody."""
        return self.beyond.board(width)

    def absent(self) -> list[int]:
        """Those of this host whose words are behind mine."""
        return self.inside.absent()

    def close(self) -> None:
        """Nothing more will be asked for."""
        self._carrier.close()
        self.inside.close()

    def end(self) -> None:
        """Let go of the process groups across and beyond; the last work on one of them holds it, too."""
        self._crossing = None
        self.across.end()
        self.inside.end()

    def way(self, route: Route, body: Tensor) -> Way | None:
        """How hosts mix it: as the route says, the best way if it is left open, None if it is no way of hosts."""
        if not body.is_cpu:
            return None
        route = route.suited(body.nbytes)
        return self.choice.best(body.nbytes) if left_open(route) else self.across.named(route)

    def _copied(self, key: Key, body: Tensor, way: Way) -> Pending:
        spare = self.inside.spare(key, body, shared=False, small=0)
        spare.lane.mine.copy_(body)
        return self._begin(key, spare.lane.mine, way, spare.lane, 0, spare)

    def _begin(self, key: Key, body: Tensor, way: Way, lane: Lane, bucket: int, spare: Spare | None = None) -> Pending:
        lane.announce(bucket)
        span, width = self.across.span(way, *lane.bounds[bucket]), body.element_size()
        pieces = self.across.pieces(way, span, width)
        out, into = map(
            sum, zip(*(self.across.bytes_of(way, stop - start, width) for start, stop in pieces), strict=True)
        )
        inner = self._inner(lane, bucket, span) * body.element_size()
        self.sent[key.slot] += inner + out
        self.crossed[key.slot] += out
        speaks = span[0] < span[1]
        task = self._carrier.begin(lambda: self._carry(lane, bucket, pieces, way, key.tag)) if speaks else None
        if task is None:  # others speak for this host
            lane.done(bucket)

        def wait() -> Heard:
            if task is not None:
                crossing = task.result()
                self._carrier.begin(crossing.land).result()
            lane.settle(bucket)
            self.heard[key.slot] += inner + into
            if spare is None:
                return Heard(whole=body)
            spare.busy = False
            whole = body if key.bucket is not None else body.clone()
            return Heard(whole=whole.to(torch.promote_types(whole.dtype, torch.float32)))

        return Pending(wait)

    def _carry(self, lane: Lane, bucket: int, pieces: Sequence[Span], way: Way, tag: int) -> Crossing:
        """In the carrier's thread: my part of a mix, in the order in which they began. While one piece crosses, the
        next is summed; then what crossed before lands."""
        lane.gather(bucket)
        # 16-bit numbers leave as large as they are and come back as a mean: a part of one may be too small for 16 bits
        hosts = len(self.across.hosts) if lane.mine.element_size() == 2 else 1
        before, self._crossing = self._crossing, Crossing(lane, bucket, [])
        for start, stop in pieces:
            lane.sum(start, stop, Into.OWN, [hosts / self.size] * lane.size)
            self._crossing.pieces.append(((start, stop), self.across.begin(way, lane.mine[start:stop], tag)))
        if before is not None:
            before.land()
        return self._crossing

    def _inner(self, lane: Lane, bucket: int, span: Span) -> int:
        """Elements that siblings take from this member: its numbers of their spans, and its span for each of them."""
        start, stop = lane.bounds[bucket]
        mine = span[1] - span[0]
        return (stop - start - mine) + (lane.size - 1) * mine if lane.size > 1 else 0
