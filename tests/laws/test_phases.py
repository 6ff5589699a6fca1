"""The order of a step holds for every strategy: one compute first, gradients before the update, nothing unsent."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest
from tests.laws.arbitrary import legal
from tests.laws.specimens import ENTRIES

from gossamer.parts.payload import Order, Payload
from gossamer.parts.refusal import Refused
from gossamer.parts.selection import Dims, Everything
from gossamer.parts.synchrony import Synchrony
from gossamer.strategy import (
    AnyStrategy,
    Compute,
    Exchange,
    Meet,
    Phase,
    Send,
    Settle,
    Staged,
    Strategy,
    Update,
    parse,
    phases,
    slots,
)

Writer = Callable[[AnyStrategy, int], Iterator[Phase]]
Law = Callable[[AnyStrategy, Writer], str | None]
STEPS = 14


def written(strategy: AnyStrategy, writer: Writer) -> list[list[Phase]]:
    return [list(writer(strategy, step)) for step in range(STEPS)]


def compute_comes_first_and_once(strategy: AnyStrategy, writer: Writer) -> str | None:
    """Every step begins with its only Compute and has at most one Update."""
    for step, played in enumerate(written(strategy, writer)):
        kinds = Counter(type(phase) for phase in played)
        if not isinstance(played[0], Compute) or kinds[Compute] != 1 or kinds[Update] > 1:
            return f"step {step}: {played}"
    return None


def update_is_where_it_belongs(strategy: AnyStrategy, writer: Writer) -> str | None:
    """Gradients and what goes BEFORE come before the Update, the rest after it; only a hub of everything spares it."""
    for step, played in enumerate(written(strategy, writer)):
        place = next((number for number, phase in enumerate(played) if isinstance(phase, Update)), None)
        spared = any(ex.updates_at_hub and ex.where == Everything() for ex in in_force(strategy, step).values())
        if (place is None) != spared:
            return f"step {step}: {'no update' if place is None else 'an update the hub makes'}"
        for number, phase in enumerate(played):
            if isinstance(phase, Send | Settle | Meet) and place is not None:
                ex = slots(strategy)[phase.slot]
                early = ex.payload is Payload.GRADIENTS or ex.order is Order.BEFORE
                if early != (number < place):
                    return f"step {step}: {phase} is on the wrong side of the update"
    return None


def gradients_go_first(strategy: AnyStrategy, writer: Writer) -> str | None:
    """Gradient exchanges come first, then those BEFORE the update, then the rest; each side in slot order."""
    for step, played in enumerate(written(strategy, writer)):
        talking = [phase.slot for phase in played if isinstance(phase, Send | Settle | Meet)]
        if talking != sorted(talking, key=lambda slot: (side(slots(strategy)[slot]), slot)):
            return f"step {step}: {talking}"
    return None


def what_is_sent_settles_once(strategy: AnyStrategy, writer: Writer) -> str | None:
    """Settle takes what its own slot sent `delay` steps ago, exactly once; nothing else is waited for."""
    under_way: set[tuple[int, int]] = set()
    for step, played in enumerate(written(strategy, writer)):
        for phase in played:
            if isinstance(phase, Send):
                under_way.add((phase.slot, step))
            if isinstance(phase, Settle):
                if (phase.slot, phase.sent) not in under_way:
                    return f"step {step}: {phase} takes what was not sent, or was taken before"
                if step - phase.sent != slots(strategy)[phase.slot].synchrony.delay:
                    return f"step {step}: {phase} comes {step - phase.sent} steps late"
                under_way.discard((phase.slot, phase.sent))
    late = [(slot, sent) for slot, sent in under_way if sent + slots(strategy)[slot].synchrony.delay < STEPS]
    return f"{late} never settle" if late else None


def happens_every_so_often(strategy: AnyStrategy, writer: Writer) -> str | None:
    """A slot in force talks exactly when `every` updates are done: counted before this step's (BEFORE), or with it."""
    for step, played in enumerate(written(strategy, writer)):
        begun = Counter(phase.slot for phase in played if isinstance(phase, Send | Meet))
        for slot, ex in enumerate(slots(strategy)):
            done = step + (ex.order is Order.AFTER)
            due = slot in in_force(strategy, step) and done % ex.synchrony.every == 0
            if begun[slot] != int(due):
                return f"step {step}: slot {slot} talks {begun[slot]} times"
    return None


def meets_or_sends(strategy: AnyStrategy, writer: Writer) -> str | None:
    """A slot meets where nobody waits for it (no bound, or a bound among peers), and otherwise sends and settles."""
    for played in written(strategy, writer):
        for phase in played:
            if isinstance(phase, Send | Settle | Meet):
                ex = slots(strategy)[phase.slot]
                bound, hub = ex.synchrony.staleness, type(ex.topology).__name__ == "Hub"
                if isinstance(phase, Meet) != (bound is None or (bound > 0 and not hub)):
                    return f"{phase} of {ex!r}"
    return None


def gate_is_the_tightest_bound(strategy: AnyStrategy, writer: Writer) -> str | None:
    """Compute waits for the slowest within the tightest bound of the peers in force; a hub keeps its own gate."""
    for step, played in enumerate(written(strategy, writer)):
        hubs = [ex for ex in in_force(strategy, step).values() if not ex.hub]
        bounds = [ex.synchrony.staleness for ex in hubs if ex.synchrony.staleness]
        if played[0] != Compute(min(bounds, default=None)):
            return f"step {step}: {played[0]} with bounds {bounds}"
    return None


def in_force(strategy: AnyStrategy, step: int) -> dict[int, Exchange]:
    """The slots of a step: all, or those of the stage it falls in."""
    every = dict(enumerate(slots(strategy)))
    if not isinstance(strategy, Staged):
        return every
    first = len(strategy.first.exchanges)
    return {slot: ex for slot, ex in every.items() if (slot < first) == (step < strategy.step)}


def side(ex: Exchange) -> int:
    return 0 if ex.payload is Payload.GRADIENTS else 1 if ex.order is Order.BEFORE else 2


LAWS: tuple[Law, ...] = (
    compute_comes_first_and_once,
    update_is_where_it_belongs,
    gradients_go_first,
    what_is_sent_settles_once,
    happens_every_so_often,
    meets_or_sends,
    gate_is_the_tightest_bound,
)
KINDS = [found[::7] for _, found in sorted(legal().items(), key=str)]
PAIR = Strategy((Exchange(), Exchange(Payload.PARAMETERS, order=Order.BEFORE), Exchange(Payload.DELTAS)))
LATE = Strategy((Exchange(synchrony=Synchrony(delay=1)), Exchange(Payload.DELTAS, synchrony=Synchrony(4, delay=3))))


@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.__name__)
def test_holds_for_every_kind_of_exchange(law: Law) -> None:
    for number, kind in enumerate(KINDS):
        for place, exchange in enumerate(kind):
            assert law(Strategy((exchange,)), phases) is None
            other = replace(KINDS[(number + 1 + place) % len(KINDS)][0], where=Dims(most=1))
            pair = together(exchange, other)
            assert pair is None or law(pair, phases) is None


def together(one: Exchange, other: Exchange) -> Strategy | None:
    """Both at once, unless they clash."""
    try:
        return Strategy((one, other))
    except Refused:
        return None


def test_most_pairs_do_not_clash() -> None:
    pairs = [together(kind[0], replace(other[0], where=Dims(most=1))) for kind in KINDS for other in KINDS]
    assert sum(pair is not None for pair in pairs) > len(pairs) / 2


@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.__name__)
@pytest.mark.parametrize("text", ENTRIES)
def test_holds_for_every_entry(law: Law, text: str) -> None:
    assert law(parse(text), phases) is None


@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.__name__)
@pytest.mark.parametrize("then", [PAIR, LATE, Strategy((Exchange(where=Dims(least=2)),))], ids=["pair", "late", "part"])
@pytest.mark.parametrize("switch", [1, 2, 5, 9])
def test_holds_when_staged(law: Law, then: Strategy, switch: int) -> None:
    assert law(Staged(PAIR, switch, then), phases) is None
    assert law(Staged(parse("parameter_server"), switch, then), phases) is None


def backwards(strategy: AnyStrategy, step: int) -> Iterator[Phase]:
    yield from reversed(list(phases(strategy, step)))


def update_early(strategy: AnyStrategy, step: int) -> Iterator[Phase]:
    played = list(phases(strategy, step))
    yield from (played[0], Update(), *(phase for phase in played[1:] if not isinstance(phase, Update)))


def other_slot_first(strategy: AnyStrategy, step: int) -> Iterator[Phase]:
    played = list(phases(strategy, step))
    yield from (played[0], *sorted(played[1:], key=lambda phase: -getattr(phase, "slot", -1)))


def settle_early(strategy: AnyStrategy, step: int) -> Iterator[Phase]:
    for phase in phases(strategy, step):
        yield Settle(phase.slot, step + 1) if isinstance(phase, Settle) else phase


def settle_never(strategy: AnyStrategy, step: int) -> Iterator[Phase]:
    yield from (phase for phase in phases(strategy, step) if not isinstance(phase, Settle))


def every_step(strategy: AnyStrategy, step: int) -> Iterator[Phase]:
    yield from (*phases(strategy, step), Send(0))


def all_meet(strategy: AnyStrategy, step: int) -> Iterator[Phase]:
    for phase in phases(strategy, step):
        yield Meet(phase.slot) if isinstance(phase, Send) else phase


def gated(strategy: AnyStrategy, step: int) -> Iterator[Phase]:
    for phase in phases(strategy, step):
        yield Compute(0) if isinstance(phase, Compute) else phase


WRONG: tuple[tuple[Law, Writer], ...] = (
    (compute_comes_first_and_once, backwards),
    (update_is_where_it_belongs, update_early),
    (gradients_go_first, other_slot_first),
    (what_is_sent_settles_once, settle_early),
    (what_is_sent_settles_once, settle_never),
    (happens_every_so_often, every_step),
    (meets_or_sends, all_meet),
    (gate_is_the_tightest_bound, gated),
)


@pytest.mark.parametrize(("law", "wrong"), WRONG, ids=lambda one: one.__name__)
def test_rejects(law: Law, wrong: Writer) -> None:
    assert law(PAIR, wrong) is not None


def test_every_law_rejects_something() -> None:
    assert {law for law, _ in WRONG} == set(LAWS)
