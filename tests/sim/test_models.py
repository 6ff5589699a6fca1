"""Any model is rehearsed: one that cannot be batched over members is run member by member, each with its own draws."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from tests.parity import awkward, small
from torch import Tensor, nn

from gossamer.parts.world import World
from gossamer.recipes import Optimizer
from gossamer.sim import Plan
from gossamer.sim.rehearse import Rehearsal
from gossamer.strategy import parse
from gossamer.tasks.task import Batch, Task


def played(task: Task, expression: str = "allreduce", seed: int = 0, steps: int = 30) -> Rehearsal:
    plan = Plan(task, parse(expression), World(3, seed), Optimizer(rate=0.2), 8, steps)
    rehearsal = Rehearsal(plan)
    rehearsal.run()
    return rehearsal


@pytest.mark.parametrize("make", [awkward.dropped, awkward.normed, awkward.read], ids=lambda make: make.__name__)
@pytest.mark.parametrize("expression", ["allreduce", "downpour", "gossip_pull"])
def test_awkward_models_learn(make: Callable[[], Task], expression: str) -> None:
    before, after = (played(make(), expression, steps=steps).outcome.evaluations[-1].loss for steps in (0, 80))
    assert after < 0.7 * before


def test_dropout_is_decided_by_seed_step_and_member() -> None:
    one, two, other = (played(awkward.dropped(), seed=seed).outcome for seed in (0, 0, 1))
    assert torch.equal(one.replicas, two.replicas)
    assert not torch.equal(one.replicas, other.replicas)
    seen: list[Tensor] = []

    def loss(model: Callable[..., Tensor], batch: Batch) -> tuple[Tensor, int, dict[str, Tensor]]:
        out = model(torch.ones(1, 64))
        seen.append(out[0] == 0)  # a batched run says no to dropout before it comes here
        return out.sum(), 1, {}

    model = nn.Sequential(nn.Linear(64, 64), nn.Dropout(0.5))
    points = (torch.ones(30, 1),)
    played(Task(model, points, points, loss), steps=2)
    masks = {tuple(mask.tolist()) for mask in seen[:6]}
    assert len(masks) == 6, "two draws were the same"


def test_rehearsing_leaves_the_callers_randomness_alone() -> None:
    torch.manual_seed(1)
    wanted = torch.rand(3)
    torch.manual_seed(1)
    played(awkward.dropped(), steps=2)
    assert torch.equal(torch.rand(3), wanted)


def test_statistics_are_the_members_own_and_averaged_to_evaluate() -> None:
    rehearsal = played(awkward.normed(), "local_sgd(every=50)")
    own = [rehearsal.gradients._local(member).buffers()["1.running_mean"] for member in range(3)]
    assert not torch.equal(own[0], own[1])
    mean = rehearsal.gradients.buffers([0, 1, 2])
    torch.testing.assert_close(mean["1.running_mean"], torch.stack(own).mean(0))
    assert mean["1.num_batches_tracked"] == 30
    model = rehearsal.plan.task.model.eval()
    named = {**rehearsal.layout.named(rehearsal.model()), **mean}
    inputs, labels = rehearsal.plan.task.test
    right = (torch.func.functional_call(model, named, inputs).argmax(-1) == labels).double().mean().item()
    assert rehearsal.outcome.evaluations[-1].accuracy == pytest.approx(right)
    assert torch.equal(model[1].running_mean, torch.zeros(6, dtype=torch.float64)), (
        "the task's own model was written to"
    )


def test_a_models_own_fault_is_told_as_it_is() -> None:
    def loss(model: Callable[..., Tensor], batch: Batch) -> tuple[Tensor, int, dict[str, Tensor]]:
        raise ZeroDivisionError("the user's own")

    plain = small.task()
    with pytest.raises(ZeroDivisionError, match="the user's own"):
        played(Task(plain.model, plain.train, plain.test, loss))
