"""The hub's part, push by push: when a round closes, who is answered, who waits, who is late, who is gone."""

from __future__ import annotations

from itertools import permutations

import pytest
import torch
from tests.laws.tiny import task
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from gossamer.parts.codec import ErrorFeedback, Mean, TopK
from gossamer.parts.codec.sparse import pack
from gossamer.parts.codec.wire import Each
from gossamer.parts.merge import Adopt, Elastic, Outer, Share
from gossamer.parts.payload import Payload
from gossamer.parts.refusal import Refused
from gossamer.parts.selection import Everything, Tag
from gossamer.parts.synchrony import AllBut, Late, Synchrony
from gossamer.parts.topology import Hub as AtHub
from gossamer.parts.trouble import Fail, Script
from gossamer.parts.world import World
from gossamer.recipes import Optimizer
from gossamer.replica import Answer, Chosen, Hub
from gossamer.sim import Plan
from gossamer.sim.rehearse import rehearse
from gossamer.strategy import Exchange, Strategy

SSP = Synchrony(staleness=1, quorum=1, late=Late.APPLY)
SOFT = Synchrony(staleness=None, quorum=2, late=Late.APPLY)


def opened(size: int, synchrony: Synchrony = Synchrony(), **axes: object) -> Hub:
    """A hub for one tensor of two numbers, at zero, that steps at rate 1."""
    exchange = Exchange(topology=AtHub(), synchrony=synchrony, **axes)  # type: ignore[arg-type]
    chosen = Chosen((Tag("w", (2,)),), Everything())
    return Hub(exchange, chosen, torch.zeros(2), World(size), Optimizer(rate=1.0))


def say(hub: Hub, member: int, round: int, *values: float) -> list[tuple[int, Answer]]:
    return hub.push(member, round, Mean(torch.tensor(values)))


def who(answers: list[tuple[int, Answer]]) -> list[int]:
    return [member for member, _ in answers]


def near(found: Tensor, *values: float) -> bool:
    return torch.allclose(found, torch.tensor(values))


def test_a_synchronous_round_closes_when_all_are_in() -> None:
    hub = opened(3)
    assert say(hub, 2, 0, 3.0, 0.0) == [] and say(hub, 0, 0, 0.0, 3.0) == []
    assert hub.version == 0 and near(hub.centre, 0.0, 0.0)
    answers = say(hub, 1, 0, 3.0, 3.0)
    assert who(answers) == [2, 0, 1]
    assert all(near(answer.values, -2.0, -2.0) for _, answer in answers)
    assert {(a.version, a.staleness, a.dropped) for _, a in answers} == {(1, 0, False)}


def test_the_order_of_arrival_does_not_change_a_bit() -> None:
    said = [[1e8, 0.1], [1.0, 0.7], [-1e8, 1e-9], [3.0, 1e7], [0.3, -1e7]]  # floats whose sum depends on the order
    ends = []
    for order in permutations(range(5)):
        hub = opened(5)
        for member in order:
            say(hub, member, 0, *said[member])
        ends.append(hub.centre)
    assert all(torch.equal(ends[0], end) for end in ends)


def test_an_answer_is_a_copy() -> None:
    hub = opened(1)
    first = say(hub, 0, 0, 1.0, 1.0)[0][1]
    say(hub, 0, 1, 1.0, 1.0)
    assert near(first.values, -1.0, -1.0) and near(hub.centre, -2.0, -2.0)


def test_backup_workers_drop_the_late_gradient() -> None:
    hub = opened(3, Synchrony(quorum=AllBut(1)))
    assert say(hub, 2, 0, 2.0, 2.0) == []
    assert who(say(hub, 0, 0, 4.0, 4.0)) == [2, 0]
    assert near(hub.centre, -3.0, -3.0)
    ((member, answer),) = say(hub, 1, 0, 90.0, 90.0)
    assert member == 1 and answer.dropped and answer.version == 1 and answer.staleness == 1
    assert hub.dropped == 1 and near(hub.centre, -3.0, -3.0) and near(answer.values, -3.0, -3.0)
    assert say(hub, 1, 1, 1.0, 1.0) == [] and who(say(hub, 2, 1, 1.0, 1.0)) == [1, 2]
    assert near(hub.centre, -4.0, -4.0)


def test_a_late_gradient_may_count_for_the_open_round() -> None:
    """In step (staleness 0), nobody goes on before the slowest has spoken; its word counts for the round after."""
    hub = opened(3, Synchrony(quorum=2, late=Late.APPLY))
    assert say(hub, 0, 0, 2.0, 2.0) == [] and say(hub, 1, 0, 2.0, 2.0) == []
    assert hub.version == 1 and near(hub.centre, -2.0, -2.0)
    answers = say(hub, 2, 0, 4.0, 4.0)
    assert {member: answer.staleness for member, answer in answers} == {0: 0, 1: 0, 2: 1}
    assert hub.version == 1 and hub.dropped == 0
    say(hub, 0, 1, 0.0, 0.0)
    assert hub.version == 2 and near(hub.centre, -4.0, -4.0)


def test_softsync_closes_on_any_gradients_and_nobody_waits() -> None:
    hub = opened(4, SOFT)
    assert who(say(hub, 3, 0, 2.0, 0.0)) == [3]
    assert hub.version == 0 and near(hub.centre, 0.0, 0.0)
    assert who(say(hub, 3, 0, 4.0, 0.0)) == [3]
    assert hub.version == 1 and near(hub.centre, -3.0, 0.0)
    ((_, answer),) = say(hub, 1, 0, 0.0, 2.0)
    assert answer.staleness == 1 and answer.version == 1
    say(hub, 0, 1, 0.0, 2.0)
    assert hub.version == 2 and near(hub.centre, -3.0, -2.0)


def test_asynchrony_steps_at_every_push() -> None:
    hub = opened(2, Synchrony(staleness=None, quorum=1, late=Late.APPLY), payload=Payload.DELTAS)
    for number in range(3):
        assert who(say(hub, 1, number, 1.0, -1.0)) == [1]
        assert hub.version == number + 1 and near(hub.centre, number + 1.0, -number - 1.0)


def test_the_gate_of_bounded_staleness_holds_the_one_ahead() -> None:
    hub = opened(2, SSP, merge=Share())
    assert who(say(hub, 0, 0, 2.0, 0.0)) == [0]  # one step ahead is within the bound
    assert near(hub.centre, -1.0, 0.0)  # and counts for its half
    assert say(hub, 0, 1, 2.0, 0.0) == []  # two are not: it waits, though what it said is applied
    assert near(hub.centre, -2.0, 0.0)
    answers = say(hub, 1, 0, 0.0, 2.0)
    assert who(answers) == [1, 0], "the slowest hears first"
    assert all(near(answer.values, -2.0, -1.0) for _, answer in answers)
    assert {member: answer.staleness for member, answer in answers} == {0: 0, 1: 2}


def test_who_leaves_is_not_waited_for() -> None:
    hub = opened(3)
    say(hub, 0, 0, 2.0, 2.0), say(hub, 1, 0, 4.0, 4.0)
    assert who(hub.leave(2)) == [0, 1]
    assert near(hub.centre, -3.0, -3.0)
    assert say(hub, 0, 1, 1.0, 1.0) == [] and who(say(hub, 1, 1, 1.0, 1.0)) == [0, 1]
    assert hub.leave(2) == []


def test_the_gate_opens_when_the_slowest_leaves() -> None:
    hub = opened(3, SSP, merge=Share())
    say(hub, 0, 0, 3.0, 0.0), say(hub, 1, 0, 3.0, 0.0)
    assert say(hub, 0, 1, 3.0, 0.0) == []
    assert who(hub.leave(2)) == [0]
    assert near(hub.centre, -3.0, 0.0)


def test_who_left_is_never_answered() -> None:
    hub = opened(3)
    say(hub, 0, 0, 2.0, 2.0)
    assert hub.leave(0) == []
    say(hub, 1, 0, 2.0, 2.0)
    assert 0 not in who(say(hub, 2, 0, 2.0, 2.0))
    assert hub.leave(1) == [] and hub.leave(2) == []


def test_a_word_of_one_who_left_may_still_arrive() -> None:
    hub = opened(3)
    hub.leave(1)
    assert who(say(hub, 1, 0, 6.0, 6.0)) == []
    assert say(hub, 0, 0, 2.0, 2.0) == [] and who(say(hub, 2, 0, 2.0, 2.0)) == [0, 2]
    assert hub.version == 1 and near(hub.centre, -2.0, -2.0)


def test_a_member_that_dies_with_a_push_under_way_stops_nobody() -> None:
    strategy = Strategy((Exchange(topology=AtHub(), synchrony=Synchrony(delay=1)),))
    outcome = rehearse(Plan(task(), strategy, World(3), batch=2, steps=4, trouble=Script((Fail(rank=1, step=1),))))
    assert [event.member for event in outcome.events] == [1]
    assert max(record.step for record in outcome.steps if record.member == 0) >= 3


def test_what_is_said_about_a_later_round_waits_for_it() -> None:
    """Delayed pushes: a member speaks of round 1 before round 0 is closed."""
    hub = opened(2, Synchrony(delay=1))
    assert say(hub, 0, 0, 2.0, 2.0) == [] and say(hub, 0, 1, 8.0, 8.0) == []
    assert who(say(hub, 1, 0, 4.0, 4.0)) == [1, 0]
    assert hub.version == 1 and near(hub.centre, -3.0, -3.0)
    assert who(say(hub, 1, 1, 2.0, 2.0)) == [0, 1]
    assert hub.version == 2 and near(hub.centre, -8.0, -8.0)


def test_nobody_is_late_when_everybody_must_be_in() -> None:
    """Without a quorum a round needs a word of everybody; two words of one are not a word of two."""
    with pytest.raises(Refused, match="count twice"):
        opened(2, Synchrony(staleness=2))
    hub = opened(2)
    assert say(hub, 0, 0, 1.0, 1.0) == [] and say(hub, 0, 0, 1.0, 1.0) == []
    assert hub.version == 0 and near(hub.centre, 0.0, 0.0)
    assert who(say(hub, 1, 0, 4.0, 4.0)) == [1, 0, 0]
    assert hub.version == 1 and hub.dropped == 0 and near(hub.centre, -2.0, -2.0)


def test_an_elastic_hub_answers_with_the_centre_as_it_was() -> None:
    hub = opened(2, payload=Payload.PARAMETERS, merge=Elastic(rate=0.5))
    say(hub, 0, 0, 4.0, 0.0)
    answers = say(hub, 1, 0, 0.0, 4.0)
    assert all(near(answer.values, 0.0, 0.0) for _, answer in answers)
    assert near(hub.centre, 1.0, 1.0)  # rate times the mean of the members


def test_a_late_elastic_pull_moves_neither_side() -> None:
    hub = opened(2, Synchrony(quorum=AllBut(1)), payload=Payload.PARAMETERS, merge=Elastic(rate=1.0))
    say(hub, 0, 0, 4.0, 4.0)
    centre = hub.centre.clone()
    ((_, answer),) = say(hub, 1, 0, 8.0, 0.0)
    assert answer.dropped and torch.equal(hub.centre, centre)
    mine = torch.tensor([8.0, 0.0])
    assert torch.equal(hub.exchange.merge.member(mine, answer.values, {}, 2), mine)


def test_a_hub_steps_an_outer_optimizer_along_the_deltas() -> None:
    hub = opened(2, payload=Payload.DELTAS, merge=Outer(rate=1.0, momentum=0.5, nesterov=False))
    for round, wanted in ((0, 1.0), (1, 2.5)):
        say(hub, 0, round, 0.0, 0.0)
        say(hub, 1, round, 2.0, 2.0)
        assert near(hub.centre, wanted, wanted)


class Made(TorchDispatchMode):
    """Counts operations whose result is a new tensor of at least `size` elements."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.size, self.names = size, list[str]()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
        known = {t.untyped_storage().data_ptr() for t in tree_leaves((args, kwargs)) if isinstance(t, Tensor)}
        result = func(*args, **(kwargs or {}))
        for t in tree_leaves(result):
            if isinstance(t, Tensor) and t.numel() >= self.size and t.untyped_storage().data_ptr() not in known:
                self.names.append(str(func))
        return result


def test_a_push_that_closes_its_round_copies_only_the_answer() -> None:
    hub = opened(2, Synchrony(staleness=None, quorum=1, late=Late.APPLY))
    wire = Mean(torch.ones(2))
    hub.push(0, 0, wire)
    with Made(2) as made:
        hub.push(1, 0, wire)
    assert made.names == ["aten.new_zeros.default", "aten.clone.default"]  # a silent listener's block, and the answer


def test_a_push_that_waits_is_copied_once() -> None:
    hub = opened(2)
    with Made(2) as made:
        say(hub, 0, 0, 1.0, 1.0)
    assert made.names.count("aten.clone.default") == 1
    sparse = opened(2, codec=TopK(keep=1.0))
    with Made(2) as made:
        sparse.push(0, 0, Each(pack(torch.tensor([0, 1]), torch.tensor([5.0, 5.0]))))
    floats = [name for name in made.names if name == "aten.clone.default"]
    assert len(floats) == 2  # the codec's own reading of indices and values; the decoded vector is kept as it is


def test_an_elastic_push_is_answered_without_another_copy() -> None:
    hub = opened(1, payload=Payload.PARAMETERS, merge=Elastic(rate=0.5))
    with Made(2) as made:
        ((_, answer),) = hub.push(0, 0, Mean(torch.ones(2)))
    assert made.names.count("aten.clone.default") == 1  # the centre as it was
    assert near(answer.values, 0.0, 0.0) and near(hub.centre, 0.5, 0.5)


@pytest.mark.parametrize("payload", list(Payload))
@pytest.mark.parametrize("quorum", [1, 2, None])
@pytest.mark.parametrize("name", ["sgd", "adam"])
def test_a_sender_may_write_on_what_it_pushed(payload: Payload, quorum: int | None, name: str) -> None:
    """Every buffer is spoilt as soon as the push returns; the hub ends as if none had been."""
    merge = Elastic(rate=0.5) if payload is Payload.PARAMETERS else Outer() if payload is Payload.DELTAS else Adopt()
    late = Late.DROP if quorum is None else Late.APPLY
    if quorum == 2 and payload is Payload.PARAMETERS:
        late = Late.DROP
    ends = []
    for spoil in (False, True):
        hub = opened(3, Synchrony(quorum=quorum, late=late), payload=payload, merge=merge)
        hub = Hub(hub.exchange, hub.chosen, hub.centre, hub.world, Optimizer(name, rate=0.1))
        heard = []
        for round in range(3):
            for member in range(3):
                body = torch.tensor([1.0 + member, 2.0 - round])
                heard += [(member, answer.values) for member, answer in hub.push(member, round, Mean(body))]
                if spoil:
                    body.fill_(float("nan"))
        ends.append([hub.centre, *(values for _, values in heard)])
    assert len(ends[0]) > 3 and all(torch.equal(one, other) for one, other in zip(*ends, strict=True))


@pytest.mark.parametrize("codec", [TopK(keep=0.5), ErrorFeedback(TopK(keep=0.5))], ids=repr)
def test_a_hub_reads_sparse_wires(codec: TopK | ErrorFeedback) -> None:
    hub = opened(1, codec=codec)
    hub.push(0, 0, Each(pack(torch.tensor([1]), torch.tensor([5.0]))))
    assert near(hub.centre, 0.0, -5.0)


def test_who_rests_is_not_waited_for_until_it_pushes_again() -> None:
    hub = opened(3, Synchrony(quorum=AllBut(1)))
    assert who(say(hub, 0, 0, 1.0, 0.0)) == [] and who(say(hub, 1, 0, 1.0, 0.0)) == [0, 1]
    assert hub.rest(0) == [] and who(say(hub, 2, 0, 9.0, 9.0)) == [2]  # too late, and it hears so
    assert say(hub, 2, 1, 1.0, 0.0) == []
    assert who(hub.rest(1)) == [2]  # nobody else is there
    assert hub.rest(2) == []  # now all have met
    assert say(hub, 0, 2, 1.0, 0.0) == [] and who(say(hub, 1, 2, 1.0, 0.0)) == [0, 1]
    assert hub.version == 3


def test_who_meets_once_more_is_not_waited_for_though_another_is_heard_late_to_have_met_before() -> None:
    hub = opened(3, Synchrony(quorum=AllBut(1)))
    for member in (0, 1, 0, 1):
        hub.rest(member)
    assert hub.rest(2) == []  # as often as that, all have come; the others are further by now
    assert who(say(hub, 2, 0, 1.0, 0.0)) == [2]
    assert hub.leave(0) == [] and hub.rest(2) == []  # those that are left have met
    assert say(hub, 2, 1, 1.0, 0.0) == [] and who(say(hub, 1, 1, 1.0, 0.0)) == [1, 2]


def test_a_hub_goes_on_from_its_state() -> None:
    one, other = (opened(3, SOFT, merge=Adopt()) for _ in range(2))
    for member in range(3):
        say(one, member, 0, 1.0, float(member))
    state = one.state()
    assert len(state["told"]) == 1  # an open round
    other.resume(state)
    answers = [say(hub, 0, 1, 2.0, 2.0) for hub in (one, other)]
    assert who(answers[0]) == who(answers[1]) == [0]
    assert torch.equal(one.centre, other.centre) and one.version == other.version == 2


def test_a_hub_of_another_world_keeps_its_centre() -> None:
    one, other = opened(2), opened(3)
    say(one, 0, 0, 1.0, 1.0), say(one, 1, 0, 3.0, 3.0)
    other.resume(one.state())
    assert near(other.centre, -2.0, -2.0) and other.version == 0


def test_who_was_in_a_round_that_was_not_applied_is_told() -> None:
    hub = opened(3)
    assert say(hub, 0, 0, 1.0, 0.0) == [] and say(hub, 2, 0, float("inf"), 0.0) == []
    answers = say(hub, 1, 0, 1.0, 0.0)
    assert [answer.spoilt for _, answer in answers] == [True] * 3 and near(hub.centre, 0.0, 0.0)
    for member in (0, 1):
        say(hub, member, 1, 1.0, 0.0)
    assert [answer.spoilt for _, answer in say(hub, 2, 1, 1.0, 0.0)] == [False] * 3 and near(hub.centre, -1.0, 0.0)
