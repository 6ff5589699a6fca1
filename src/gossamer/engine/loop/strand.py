"""A strand: the tensors of one kind (dtype and device) that one optimizer steps, from autograd to exchange and back.

It knows when a gradient is there and where it goes; the stepper knows what is exchanged.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor
from torch.distributed.tensor import DTensor

from gossamer.engine.fabrics import Fabric
from gossamer.engine.fabrics.fabric import Rows
from gossamer.engine.loop.carried import Carrier
from gossamer.engine.loop.due import Due, among_all, among_members, minds_scale
from gossamer.engine.loop.gauge import SILENT, Gauge, Told, packed
from gossamer.engine.loop.place import Place
from gossamer.engine.loop.shard import Shard
from gossamer.engine.loop.stays import Stays
from gossamer.engine.loop.votes import row, uses
from gossamer.engine.reach import Reach
from gossamer.engine.sick import first_sick
from gossamer.engine.stepper import Stepper
from gossamer.engine.turns import Turns
from gossamer.parts.refusal import Refused
from gossamer.parts.world import World
from gossamer.recipes import Borrowed
from gossamer.replica import Chosen, Layout, Replica, carried
from gossamer.replica.layout import flat_of
from gossamer.strategy import AnyStrategy, Exchange, slots
from gossamer.strategy.buckets import length


class Strand:
    """One member's tensors of one kind, laid out flat; `arrived` is told of each gradient as backward makes it."""

    def __init__(
        self,
        named: Sequence[tuple[str, Tensor]],
        place: Place,
        world: World,
        strategy: AnyStrategy,
        fabric: Fabric,
        carrier: Carrier | None,
        turns: Turns,
        optimizer: torch.optim.Optimizer,
        *,
        ours: bool,
    ) -> None:
        self.tensors, self.layout = [p for _, p in named], Layout(named, as_they_lie=True)
        self.fabric, self.borrowed = fabric, Borrowed(optimizer, self.tensors)
        self.carrier = None if carrier is None else carrier(self.layout, self.borrowed)
        chosen = [carried(ex, self.layout.tags) for ex in slots(strategy)]
        self._busy = [
            s for s, ex in enumerate(slots(strategy)) if chosen[s].places and (world.size > 1 or not ex.idle_alone)
        ]
        cuttable = [s for s, ex in enumerate(slots(strategy)) if ex.cuttable and s in self._busy]
        later = length(self.layout.start.nbytes, local=fabric.local)
        self.buckets = {slot: chosen[slot].parted(later) for slot in cuttable}
        self.shard = Shard.of(self, strategy, ours=ours)
        self.stays = Stays.of(self, strategy) if self.shard is None else None
        own = self.carrier.shelf.mine if isinstance(self.carrier, Reach) else torch.empty_like(self.layout.start)
        storage = self.shard.storage if self.shard else (own, self._lent())
        self.replica = Replica(place.member, world, strategy, self.layout, storage)
        self.stepper = Stepper(self.replica, fabric, self.carrier, turns, self.borrowed, self.buckets)
        if self.shard:
            self.shard.ready(self.replica)
        for tensor, view in zip(self.tensors, self.replica.views, strict=True):
            tensor.data = view
        self._dense = [slope.is_contiguous() for slope in self.replica.slopes]
        self._spent: list[Tensor | None] = []  # autograd's own gradients, until the next forward may have their memory
        self._homes = [tensor.data_ptr() for tensor in self.tensors]
        self.early = self._places(self._busy, among_members)
        self.pushed = self._places(self._busy, lambda ex: ex.updates_at_hub)
        self.minds = any(minds_scale(self.replica.desks[slot].exchange) for slot in self._busy)
        self.scale, self.sick, self.noticed, self.leads = 1.0, -1, -1, False
        self.rows: Callable[[], Rows] | None = None
        self.gauge: Gauge | None = None  # where this backward is looked at
        self.square, self.samples, self.beside = 0.0, 0, SILENT
        self._board = fabric.board(len(row(-1, [True] * len(self.tensors)))) if self._told(self._busy) else None
        self._regions = {s: [self._region(c) for c in cut] for s, cut in self.buckets.items()}
        self._free = not fabric.ordered and all(self._lies(slot) for slot in self.buckets)
        self._courses: dict[tuple[int, ...], Due] = {}
        self.open(0)

    def begin(self) -> None:
        """A step begins. Freed any earlier, what autograd made would go back to the system, page by page."""
        self._spent = []
        self._refuse_moved()

    def _refuse_moved(self) -> None:
        """Refuse parameters that were given other memory (`p.data = ...`): nobody would hear of them."""
        for place, (tensor, home) in enumerate(zip(self.tensors, self._homes, strict=True)):
            if tensor.data_ptr() != home:
                raise Refused(
                    f"parameter {self.name(place)} was given other memory after prepare",
                    "p.data.copy_(...) instead of p.data = ..., or conversions before prepare",
                )

    def open(self, step: int) -> None:
        """A backward begins: no gradient has come."""
        live = tuple(slot for slot in self.stepper.open(step) if slot in self._busy)
        if live not in self._courses:
            self._courses[live] = self._due_in(live)
        self.due = self._courses[live]
        self._due = {slot: [len(bucket.places) for bucket in self.buckets[slot]] for slot in self.due.cut}
        self._left = dict.fromkeys(self.due.cut, 0)
        self.used = [False] * len(self.tensors)
        if self.stays is not None:
            self.stays.places.clear()
        self.sick, self.rows = -1, None

    def look_at(self, gauge: Gauge | None, samples: int, beside: Told) -> None:
        """Whether this backward is looked at, of how many samples it is, and what else is to be told with it."""
        self.gauge, self.square, self.samples, self.beside = gauge, 0.0, samples, beside

    @property
    def averages(self) -> bool:
        """Whether what is mixed in this backward is the average of all members' gradients, but for rounding."""
        plain = [ex.codec for ex in self.leaving if not ex.codec.owns_momentum]
        exact = all(not codec.lossy or not codec.sums_exactly for codec in plain)
        return self.due.told and exact and len(plain) == len(self.leaving) and all(map(among_all, self.leaving))

    def arrived(self, place: int, step: int) -> None:
        """The gradient of a tensor is complete; buckets leave in their own order as they fill.

        Where all members must begin mixes in one order, only the first exchange of the strand that leads leaves early.
        """
        self.used[place] = True
        home = self.due.home.get(place)
        if home is None:
            return
        slot, bucket = home
        due = self._due[slot]
        due[bucket] -= 1
        if not due[bucket] and bucket == self._left[slot] and (self._free or (self.leads and slot == self.due.cut[0])):
            while self._left[slot] < len(due) and not due[self._left[slot]]:
                self._leave(slot, step)

    def close(self, step: int) -> None:
        """Backward is over: what has not left leaves, zero where nothing came; then the gradients are mixed."""
        for slot in self.due.cut:
            while self._left[slot] < len(self.buckets[slot]):
                self._leave(slot, step)
        self._take_in(self.due.rest)
        self._look_at(self.due.rest, mend=True)
        self._vote()
        if self.shard is None or not self.shard.ours:
            self.stepper.mix(step)

    def hand_out(self, rows: Rows) -> None:
        """Point the user's gradients at what was mixed; None where nobody used a tensor, or none is due yet."""
        fresh, slopes, tensors = self.replica.fresh(), self.replica.slopes, self.tensors
        everything = all(self.used) or not rows or any(said[1] for said in rows)
        stayed = self.stays.places if self.stays else set()
        self._spent = [tensors[place].grad for place in self.due.places if place not in stayed]
        for place in self.due.places:
            if place in stayed:  # the mean lies where autograd made the gradient
                continue
            somebody = everything or self.used[place] or any(uses(said, place) for said in rows)
            tensors[place].grad = slopes[place] if somebody and fresh[place] else None
        for said in rows:  # what was sick is so on every member, for whoever looks (GradScaler)
            grad = tensors[said[0] - 1].grad if said[0] else None
            if grad is not None:
                grad.fill_(float("nan"))

    def multiply(self, factor: float) -> None:
        """Let what was handed out be so many times as much."""
        handed = [tensor.grad for place in self.due.places if (tensor := self.tensors[place]).grad is not None]
        if handed:
            torch._foreach_mul_(handed, factor)

    def votes(self) -> Rows:
        """What everybody told of this backward, once it was mixed; nothing where nobody tells."""
        rows = self.rows() if self.rows is not None else []
        for member, place in self.stays.faults() if rows and self.stays else ():
            rows[member][0] = rows[member][0] or place + 1
        return rows

    def unused(self, rows: Rows) -> list[int]:
        """Tensors that no member used in this backward."""
        if all(self.used) or any(said[1] for said in rows):
            return []
        return [p for p, mine in enumerate(self.used) if not mine and not any(uses(said, p) for said in rows)]

    def bare(self) -> list[int]:
        """Tensors without a gradient."""
        return [place for place, tensor in enumerate(self.tensors) if tensor.grad is None]

    def sick_members(self, rows: Rows) -> list[tuple[int, str]]:
        """Who found a NaN or an infinity among its gradients, and in which tensor."""
        return [(member, self.name(said[0] - 1)) for member, said in enumerate(rows) if said[0]]

    def spoilt(self) -> bool:
        """Whether what was mixed holds a NaN or an infinity, for fabrics that do not look when they copy."""
        wide = torch.promote_types(self.replica.gradients.dtype, torch.float32)
        if self.due.whole:
            return not bool(torch.isfinite(self.replica.gradients.sum(dtype=wide)))
        sums = [self.replica.slopes[place].sum(dtype=wide) for place in self.due.home]
        return bool(sums) and not bool(torch.isfinite(torch.stack(sums).sum()))

    def ask_who(self) -> Rows:
        """After a mix that all members know to be spoilt: who brought it in; if nobody did alone, all did together."""
        places = list(self.due.home)
        self.sick = first_sick(places, [self.tensors[place].grad for place in places])
        assert self._board is not None
        rows = self._board(row(self.sick, self.used))()
        if not any(said[0] for said in rows):
            together = first_sick(places, [self.replica.slopes[place] for place in places])
            rows = [[together + 1, *said[1:]] for said in rows]
        return rows

    def _vote(self) -> None:
        """Tell what I used and whether it was sick, once in a backward, before the last bucket leaves."""
        if self.rows is None and self.due.told and self._board is not None:
            if not all(self.used):
                self.look()
            seen = (packed(self.square), self.samples) if self.gauge is not None else self.beside
            self.rows = self._board(row(self.sick, self.used, seen))

    def look(self) -> None:
        """Gradients that came in an earlier backward, or while nothing was exchanged, count as used."""
        self.used = [tensor.grad is not None for tensor in self.tensors]

    @property
    def looks(self) -> bool:
        """Whether every gradient that others will hear of was looked at before it left."""
        return self.fabric.looks or not self.due.home

    def sick_alone(self) -> list[str]:
        """The first tensor, of those that nobody else has seen, whose gradient holds a NaN or an infinity."""
        if self.fabric.size == 1:
            return []
        found = first_sick(self.due.unseen, [self.tensors[place].grad for place in self.due.unseen])
        return [self.name(found)] if found >= 0 else []

    def _look_at(self, places: Sequence[int], *, mend: bool) -> None:
        """Find what is no number among gradients that were taken in; mend: send nothing instead, codecs remember."""
        if not places or self.fabric.size == 1:
            return
        found = first_sick(places, [self.replica.slopes[place] for place in places])
        if found < 0:
            return
        self.sick = found if self.sick < 0 else self.sick
        self.noticed = -1 if self.due.told else found
        for place in places if mend else ():
            self.replica.slopes[place].zero_()

    def offer(self) -> None:
        """Lay gradients that a hub steps with where the stepper looks for them; nobody else steps with them."""
        live = self.stepper.stepped_at_hubs()
        pushed = sorted({place for slot in live for place in self.replica.desks[slot].chosen.places})
        if not pushed:
            return
        reach = self.carrier if isinstance(self.carrier, Reach) else None
        slopes = list(self.replica.slopes)
        if reach is not None and reach.pushes.steps and self.scale == 1.0:  # read where autograd made them
            for place in pushed:
                slopes[place] = self._source(place)
        else:
            self._take_in(pushed)
        if self.fabric.size > 1:  # a hub passes over what is no number
            self.noticed = first_sick(pushed, [slopes[place] for place in pushed])
        if reach is not None:
            reach.pushes.slopes, reach.pushes.sick = slopes, self.noticed >= 0
        for place in pushed:
            self.tensors[place].grad = None

    @property
    def leaving(self) -> list[Exchange]:
        """The exchanges of gradients among members that were live in the last backward."""
        return [self.replica.desks[slot].exchange for slot in self.due.live]

    def name(self, place: int) -> str:
        """What a tensor is called."""
        return self.layout.names[place]

    def _leave(self, slot: int, step: int) -> None:
        number = self._left[slot]
        self._left[slot] += 1
        bucket = self.buckets[slot][number]
        region = self._regions[slot][number]
        stepper = self.stepper
        with stepper.span("encode"):
            sources = self._sources(bucket.places) if region is not None else []
            if region is None:
                self._take_in(bucket.places)
                self._look_at(bucket.places, mend=False)
            elif (found := self._load(number, region, sources)) >= 0 and self.sick < 0:
                self.sick = bucket.places[found]
        if number == len(self.buckets[slot]) - 1 and slot == self.due.last:
            self._vote()
        if self.shard is not None and self.shard.ours:
            self.shard.announce(number)
        else:
            stepper.send(slot, step, self._left[slot])

    def _load(self, number: int, region: Tensor, sources: list[Tensor]) -> int:
        """Bring a bucket's gradients to where they are exchanged from; the first that is sick, or -1."""
        if self.stays is not None and self.scale == 1.0 and self.stays.holds(number):
            return self.stays.load(number, sources)
        return self.fabric.load(region, sources, self.scale)

    def _sources(self, places: Sequence[int]) -> list[Tensor]:
        """Gradients as backward made them, looked at if it is time."""
        found = [self._source(place) for place in places]
        if self.gauge is not None:
            self.square += self.gauge.squares(found)
        return found

    def _source(self, place: int) -> Tensor:
        """A gradient whose numbers follow each other in the order in which its tensor lies in memory."""
        grad, slope = self.tensors[place].grad, self.replica.slopes[place]
        if type(grad) is Tensor and grad.layout is torch.strided and self._dense[place] and grad.is_contiguous():
            return grad
        if grad is None:
            slope.zero_()
            grad = slope
        elif grad.layout is not torch.strided or isinstance(grad, DTensor):
            raise Refused(f"prepare: the gradient of {self.name(place)} is sparse or a DTensor", "dense gradients")
        elif grad.stride() != slope.stride():
            slope.copy_(grad)
            grad = slope
        return grad.view(-1) if grad.is_contiguous() else flat_of(grad)

    def _take_in(self, places: Sequence[int]) -> None:
        """Copy gradients to where they are exchanged from, tensor by tensor."""
        for place, source in zip(places, self._sources(places), strict=True):
            slope = self.replica.slopes[place]
            target = slope.view(-1) if slope.is_contiguous() else flat_of(slope)
            if source.data_ptr() != target.data_ptr():
                target.copy_(source.view(-1))
            if self.scale != 1.0:
                target.mul_(self.scale)

    def _region(self, bucket: Chosen) -> Tensor | None:
        span = bucket.span
        return None if span is None else self.replica.gradients[span[0] : span[1]]

    def _lies(self, slot: int) -> bool:
        """Whether an exchange's buckets are mixed where they lie, so that it matters not which one begins first."""
        ex, most = self.replica.desks[slot].exchange, self.layout.length * self.layout.start.element_size()
        plain = not ex.codec.lossy and all(ex.route.suited(nbytes).native for nbytes in (1, most))
        return plain and all(region is not None and self.fabric.knows(region) for region in self._regions[slot])

    def _lent(self) -> Tensor:
        """Memory for the gradients, cut where the buckets of the only exchange that may be cut are."""
        if self.stays is not None:
            return self.stays.slopes
        return self.fabric.lend(self.layout.start, self.cuts)

    @property
    def cuts(self) -> list[int]:
        """The inner boundaries of the buckets, where they follow each other without a gap."""
        spans = sorted(c.span for cut in self.buckets.values() for c in cut if c.span is not None)
        return sorted({edge for span in spans for edge in span} - {0, self.layout.length})

    def _places(self, live: Sequence[int], asked: Callable[[Exchange], bool]) -> list[int]:
        desks = [self.replica.desks[slot] for slot in live]
        return sorted({place for desk in desks if asked(desk.exchange) for place in desk.chosen.places})

    def _told(self, live: Sequence[int]) -> bool:
        """Whether all members hear each other in a mix of gradients, so that each may know who was sick."""
        return any(among_all(self.replica.desks[slot].exchange) for slot in live)

    def _due_in(self, live: tuple[int, ...]) -> Due:
        """What leaves in a step in which these exchanges are live."""
        cut = tuple(slot for slot in live if slot in self.buckets)
        home = {p: (s, n) for s in cut for n, bucket in enumerate(self.buckets[s]) for p in bucket.places}
        places = self._places(live, among_members)
        rest = [place for place in places if place not in home]
        last = max(cut, default=-1) if not rest else -1
        unseen = sorted({*range(len(self.tensors))} - {*places, *self.pushed})
        return Due(live, cut, places, home, rest, unseen, last, self._told(live), len(home) == len(self.tensors))
