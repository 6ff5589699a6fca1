"""One switch, one number: slots of both stages have their own place, and a stage leaves nothing behind."""

from __future__ import annotations

import pytest
import torch
from tests.laws.tiny import task

from gossamer.parts.refusal import Refused
from gossamer.parts.world import World
from gossamer.recipes import Optimizer
from gossamer.sim import Outcome, Plan
from gossamer.sim.rehearse import rehearse
from gossamer.strategy import Exchange, Staged, Strategy, as_strategy, at, fits, parse, slots

GRAPH = "Exchange(payload=PARAMETERS, topology=Graph(edges=((0, 1), (1, 2), (2, 0), (2, 1))))"


def run(text: str, steps: int, size: int = 3) -> Outcome:
    return rehearse(Plan(task(), parse(text), World(size, 5), Optimizer(rate=0.1), batch=2, steps=steps))


def test_slots_are_numbered_through_both_stages() -> None:
    staged = parse("Staged(Exchange(where=Dims(least=2)) + Exchange(where=Dims(most=1)), 10, local_sgd + gossip_pull)")
    assert isinstance(staged, Staged)
    assert slots(staged) == (*staged.first.exchanges, *staged.then.exchanges)
    assert [slot for slot, _ in at(staged, 0)] == [slot for slot, _ in at(staged, 9)] == [0, 1]
    assert [slot for slot, _ in at(staged, 10)] == [slot for slot, _ in at(staged, 10**6)] == [2, 3]
    assert all(slots(staged)[slot] is exchange for step in (0, 10) for slot, exchange in at(staged, step))


def test_exchanges_add_up_to_strategies() -> None:
    one, other = Exchange(), parse("powersgd")
    assert as_strategy(one) == Strategy((one,)) and as_strategy(other) is other
    assert isinstance(other, Strategy)
    assert (one + other).exchanges == (one, *other.exchanges) and (other + one).exchanges == (*other.exchanges, one)
    assert Staged(one, 3, one) == Staged(Strategy((one,)), 3, Strategy((one,)))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "text",
    ["Staged(Exchange(synchrony=Synchrony(delay=1)), 5, allreduce)", "Staged(allreduce, 5, parameter_server)"],
)
def test_a_stage_that_would_leave_loose_ends_is_refused(text: str) -> None:
    with pytest.raises(Refused, match="Staged"):
        parse(text)


def test_nothing_is_not_a_strategy() -> None:
    with pytest.raises(Refused, match="never meet"):
        Strategy(())
    with pytest.raises(Refused, match="Strategy: exchange"):
        Strategy(("allreduce",))  # type: ignore[arg-type]


def test_both_stages_must_fit_the_world() -> None:
    with pytest.raises(Refused, match="Torus"):
        fits(parse("Staged(allreduce, 5, allreduce(torus(x=3)))"), World(4))
    with pytest.raises(Refused, match="company"):
        fits(parse("Staged(gossip_pull, 5, allreduce)"), World(1))


def test_a_stage_after_a_quorum_is_refused() -> None:
    with pytest.raises(Refused, match="leaves behind"):
        parse("Staged(backup_workers, 5, allreduce)")
    with pytest.raises(Refused, match="leaves behind"):
        parse("backup_workers + local_sgd(every=8)")


def test_post_local_sgd_is_all_reduce_until_the_switch() -> None:
    assert torch.equal(run("Staged(allreduce, 4, local_sgd(every=2))", 4).replicas, run("allreduce", 4).replicas)
    later = run("Staged(allreduce, 4, local_sgd(every=2))", 5).replicas
    assert not torch.equal(later[0], later[1])
    again = run("Staged(allreduce, 4, local_sgd(every=2))", 6).replicas
    assert torch.equal(again[0], again[1])


def test_the_model_is_the_members_once_the_hub_has_done_its_stage() -> None:
    outcome = run("Staged(parameter_server, 2, allreduce)", 6)
    torch.testing.assert_close(outcome.model, outcome.replicas.mean(0))


def test_mass_counts_no_longer_once_its_stage_is_over() -> None:
    """All members get one mean gradient and step alike, whatever mass each had at the switch."""
    before, after = (run(f"Staged({GRAPH}, 3, allreduce)", steps).replicas for steps in (5, 6))
    moves = after - before
    torch.testing.assert_close(moves, moves[:1].expand_as(moves), atol=1e-6, rtol=1e-4)


def test_deltas_need_an_agreement_to_count_from() -> None:
    with pytest.raises(Refused, match="ends without one"):
        parse("Staged(gossip_pull, 3, Exchange(payload=DELTAS))")
    outcome = run("Staged(allreduce, 3, Exchange(payload=DELTAS, synchrony=Synchrony(every=2)))", 7)
    assert outcome.evaluations[-1].divergence > 1e-6, "one step after the last exchange members differ"
    outcome = run("Staged(allreduce, 3, Exchange(payload=DELTAS, synchrony=Synchrony(every=2)))", 8)
    assert outcome.evaluations[-1].divergence < 1e-6


@pytest.mark.parametrize("first", ["Exchange(where=Dims(least=2))", "Exchange(where=Named('0.*'))"])
def test_deltas_of_tensors_that_were_never_mixed_are_refused(first: str) -> None:
    """Without the model nobody can tell; with it, the members are seen to have drifted apart."""
    with pytest.raises(Refused, match="never mixes all of"):
        run(f"Staged({first}, 3, Exchange(payload=DELTAS))", 6)
    outcome = run(f"Staged({first}, 3, Exchange(payload=DELTAS, where={parse(first).exchanges[0].where!r}))", 6)
    assert len(outcome.steps) == 18
    whole = run("Staged(powersgd, 3, Exchange(payload=DELTAS))", 6)
    assert whole.evaluations[-1].divergence < 1e-6
