"""Everything `show` has to say about a strategy, gathered once for both its forms. Loads no torch for plain codecs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gossamer.cli.timeline import Timeline, timeline
from gossamer.engine.pays import Balance, balances, below
from gossamer.parts import units
from gossamer.parts.refusal import real, whole
from gossamer.parts.route import Route, Torus
from gossamer.parts.selection import Tag
from gossamer.parts.topology import Complete
from gossamer.parts.world import World
from gossamer.strategy import AnyStrategy, fits, parse, slots
from gossamer.strategy.describe import Load, loads, mixing_matrix, period, spectral_gap, stand_in

if TYPE_CHECKING:
    from gossamer.strategy.describe import Matrix

MOST_DRAWN = 8  # workers up to which a mixing matrix is printed


@dataclass(frozen=True)
class Sight:
    """A strategy in a world, on a stand-in model or a task's own, and on a link if one was named."""

    text: str
    strategy: AnyStrategy
    world: World
    tags: tuple[Tag, ...]
    timeline: Timeline
    loads: tuple[Load, ...]
    gaps: tuple[float | None, ...]
    matrices: tuple[Matrix | None, ...]
    notes: tuple[str, ...]
    link: float | None
    latency: float
    task: str | None
    balances: tuple[Balance, ...] | None  # of exchanges with a codec that loses something; None: not measured

    @property
    def pays_below(self) -> float | None:
        """The bits a second below which the codecs of all exchanges together pay, as measured here."""
        return below(self.balances, self.latency) if self.balances else None

    @property
    def pays(self) -> bool | None:
        """Whether they do on the link."""
        if not self.balances or self.link is None:
            return None
        seconds = [each.seconds(self.link, self.latency) for each in self.balances]
        return sum(coded for coded, _ in seconds) < sum(dense for _, dense in seconds)

    @property
    def rounds(self) -> int:
        """Rounds of a step in which every exchange in force happens; of two stages, the larger."""
        return max(sum(load.rounds for load in stage) for stage in self._stages())

    @property
    def sent(self) -> int:
        """Bytes a member sends in such a step."""
        return max(sum(load.sent.likely for load in stage) for stage in self._stages())

    @property
    def sent_per_step(self) -> float:
        """Bytes a member sends, averaged over steps."""
        return max(sum(load.per_step for load in stage) for stage in self._stages())

    def seconds(self, load: Load) -> float | None:
        """Seconds of one exchange on the link: a latency per round, and over the rate the bytes that pass in turn.

        A hub is the narrow place: the wires and answers of all its workers pass its one link.
        """
        if self.link is None:
            return None
        crowd = self.world.size if load.exchange.hub else 1
        return load.rounds * self.latency + crowd * (load.passed + load.answered) / self.link

    def _stages(self) -> list[list[Load]]:
        found: dict[int, list[Load]] = {}
        for load in self.loads:
            found.setdefault(load.first, []).append(load)
        return list(found.values())


def look(
    text: str, workers: int, seed: int, size: str, link: str | None, latency: str, task: str | None = None
) -> Sight:
    """Work everything out, refusing what cannot be."""
    whole("show", "workers", workers, 1, 2**20)
    strategy, world = parse(text), World(workers, seed)
    fits(strategy, world)
    tags = stand_in(units.nbytes(size)) if task is None else _tensors(task)
    rate, delay = None if link is None else units.link(link), units.seconds("latency", latency)
    real("link", "latency", delay, 0.0, 3600.0)
    found, exchanges = loads(strategy, world, tags), slots(strategy)
    gaps = tuple(spectral_gap(ex.topology, world, slot) for slot, ex in enumerate(exchanges))
    matrices = tuple(_matrix(load, world) for load in found)
    notes = tuple(dict.fromkeys(note for load in found for note in _notes(load, world)))
    weighed = any(ex.codec.compresses for ex in exchanges) and (rate is not None or task is not None)
    return Sight(
        text.strip(), strategy, world, tags, timeline(strategy), found, gaps, matrices, notes, rate, delay, task,
        tuple(balances(strategy, world, tags)) if weighed else None,
    )  # fmt: skip


def _tensors(task: str) -> tuple[Tag, ...]:
    """The parameters of a task's model that are trained."""
    from gossamer.replica.layout import tags_of
    from gossamer.tasks import build

    return tags_of(build(task, 0, {}).model)


def _matrix(load: Load, world: World) -> Matrix | None:
    """The first round's weights; a complete mix is one value and a hub has none."""
    topology = load.exchange.topology
    if load.exchange.hub or isinstance(topology, Complete) or world.size > MOST_DRAWN:
        return None
    return mixing_matrix(topology, 0, world, load.slot)


def _notes(load: Load, world: World) -> Iterator[str]:
    ex = load.exchange
    if isinstance(ex.topology, Complete):
        for wire in load.wires:
            if not wire.gathered:
                yield from _travels(ex.route, wire.likely, world.size)
    if not load.carried:
        yield f"{ex.where!r} takes none of the stand-in's tensors, so its bytes are not known here"
    if load.sent.low != load.sent.high:
        yield f"slot {load.slot} sends from {units.told_bytes(load.sent.low)} to {units.told_bytes(load.sent.high)}"
    if ex.hub:
        yield "the hub answers every worker, on top of what the workers send"
    if not ex.topology.fixed and not ex.hub and world.size <= MOST_DRAWN:
        rounds = period(ex.topology, world, load.slot)
        if rounds:
            yield f"partners repeat after {rounds} round{'s' * (rounds > 1)}, over which the spectral gap is taken"
        else:
            yield "partners are drawn anew every round; the spectral gap is of the mean square over many rounds"


def _travels(named: Route, nbytes: int, size: int) -> Iterator[str]:
    """What there is to say of the route a wire takes in a world of this size."""
    route = named.suited(nbytes)
    if route != named:
        yield f"a wire of {units.told_bytes(nbytes)} travels by {route!r}"
    if isinstance(route, Torus):
        x, y = route.grid(size)
        yield f"the torus is a grid of {x} x {y}"
        if min(x, y) == 1:
            prime = " is a prime, so its only grid" if route.x is None and size > 3 else " in one line"
            yield f"{size}{prime} is a ring" if size > 1 else "one worker has nobody to send to"
    if route.native:
        yield "a backend keeps its schedule to itself: rounds and bytes are those of the ring"
    busiest = route.sent(size, nbytes)
    if busiest > 1.001 * route.total(size, nbytes) / size:
        yield f"not all send alike: the busiest member sends {units.told_bytes(round(busiest))}"
